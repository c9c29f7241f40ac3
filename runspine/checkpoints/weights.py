"""The tensors of a checkpoint. Needs torch; pickled code is never run."""

from __future__ import annotations

import io
import pickle
from pathlib import Path
from typing import Any

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.archive import read_entry
from runspine.checkpoints.contents import weights_at
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.inspection import inspect_checkpoint
from runspine.checkpoints.sb3_file import MAX_POLICY_BYTES, POLICY


def load(path: Path) -> tuple[CheckpointAbout, Any, dict[str, Any]]:
    """The metadata, the saved object, and the policy's weights in it. Raises CheckpointError."""
    about = inspect_checkpoint(path)
    saved = _saved(path, about)
    return about, saved, dict(weights_at(saved, about.adapter.path, path.name))


def _saved(path: Path, about: CheckpointAbout) -> Any:
    import torch

    if _is_safetensors(path):
        return _safetensors(path)
    source: Any = path
    if about.runner == "sb3":
        source = io.BytesIO(read_entry(path, POLICY, MAX_POLICY_BYTES, path.name))
    try:
        return torch.load(source, map_location="cpu", weights_only=True)
    except (OSError, RuntimeError, EOFError, ValueError, pickle.UnpicklingError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointError(f"{path.name} cannot be loaded: {first}") from error


def _is_safetensors(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(9)[8:] == b"{"


def _safetensors(path: Path) -> dict[str, Any]:
    try:
        from safetensors import SafetensorError
        from safetensors.torch import load_file
    except ImportError as error:
        raise CheckpointError(
            f"{path.name} needs the package safetensors: pip install safetensors"
        ) from error
    try:
        return dict(load_file(path))
    except (SafetensorError, OSError) as error:
        raise CheckpointError(f"{path.name} cannot be loaded: {error}") from error
