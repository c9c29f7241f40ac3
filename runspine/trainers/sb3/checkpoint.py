"""Stable-Baselines3 checkpoints: the library's zip file with the replay buffer and our counters.

The library's `load` reads it too, but runs pickled code. Here only tensors, arrays and JSON are read.
"""

from __future__ import annotations

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
import torch
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.save_util import load_from_zip_file

from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.trainers.builtin.packing import Array

ABOUT = "runspine.json"
REPLAY = "replay.npz"
COLUMNS = ("observations", "next_observations", "actions", "rewards", "dones", "timeouts")
COUNTERS = ("num_timesteps", "_episode_num", "_n_updates", "_n_calls")


def write_checkpoint(file: BinaryIO, model: BaseAlgorithm, about: dict[str, Any]) -> None:
    model.save(file)  # type: ignore[arg-type]
    counters = {name: int(getattr(model, name)) for name in COUNTERS if hasattr(model, name)}
    buffer = getattr(model, "replay_buffer", None)
    with zipfile.ZipFile(file, "a", zipfile.ZIP_DEFLATED, compresslevel=1) as archive:
        if buffer is not None:
            with archive.open(REPLAY, "w", force_zip64=True) as entry:
                np.savez(entry, allow_pickle=False, **_filled(buffer))
            counters |= {"position": int(buffer.pos), "full": bool(buffer.full)}
        archive.writestr(ABOUT, json.dumps({**about, "counters": counters}))


def _filled(buffer: Any) -> dict[str, Array]:
    """The filled part of a buffer, column by column; `observations/key` for dictionaries."""
    size = buffer.buffer_size if buffer.full else buffer.pos
    found: dict[str, Array] = {}
    for name in COLUMNS:
        column = getattr(buffer, name)
        parts = column.items() if isinstance(column, dict) else [("", column)]
        found |= {f"{name}/{key}": part[:size] for key, part in parts}
    return found


@dataclass(frozen=True)
class Saved:
    """Content of a checkpoint."""

    about: dict[str, Any]
    params: dict[str, Any]
    variables: dict[str, Any]
    path: Path

    def restore(self, model: BaseAlgorithm) -> None:
        """Restore weights, optimisers, counters and replay buffer."""
        try:
            model.set_parameters(self.params, exact_match=True, device=model.device)
        except (RuntimeError, ValueError) as error:
            raise _misfit(self.path, error) from error
        for name, value in self.variables.items():
            getattr(model, name).data = value.data
        counters = self.about["counters"]
        for name in COUNTERS:
            if name in counters:
                setattr(model, name, counters[name])
        buffer = getattr(model, "replay_buffer", None)
        if buffer is not None:
            self._refill(buffer, counters)

    def _refill(self, buffer: Any, counters: dict[str, Any]) -> None:
        with zipfile.ZipFile(self.path) as archive, archive.open(REPLAY) as entry:
            columns = np.load(entry, allow_pickle=False)
            for name in columns.files:
                column, _, key = name.partition("/")
                target = getattr(buffer, column)
                rows = columns[name]
                if len(rows) > buffer.buffer_size:
                    raise CheckpointUnusableError(
                        f"checkpoint {self.path} holds more transitions than buffer_size"
                    )
                (target[key] if key else target)[: len(rows)] = rows
        buffer.pos, buffer.full = counters["position"], counters["full"]


def read_checkpoint(path: Path, algo: str, env_id: str, device: torch.device) -> Saved:
    """Read a checkpoint. Raises CheckpointUnusableError, also for another algorithm or env."""
    try:
        with zipfile.ZipFile(path) as archive:
            about = json.loads(archive.read(ABOUT)) if ABOUT in archive.namelist() else {}
        _, params, variables = load_from_zip_file(path, load_data=False, device=device)
    except (OSError, ValueError, zipfile.BadZipFile) as error:
        raise CheckpointUnusableError(f"checkpoint {path} cannot be read: {error}") from error
    for what, had, have in (("algorithm", about.get("algo"), algo), ("env", about.get("env_id"), env_id)):
        if had is not None and had != have:
            raise CheckpointUnusableError(
                f"checkpoint {path} does not fit: its {what} {had}, this run's {have}"
            )
    return Saved(about, dict(params), dict(variables or {}), path)


def take_weights(model: BaseAlgorithm, saved: Saved) -> None:
    """Load only the networks, for a warm start."""
    if "policy" not in saved.params:
        raise CheckpointUnusableError(f"checkpoint {saved.path} holds no policy")
    try:
        model.policy.load_state_dict(saved.params["policy"])
    except RuntimeError as error:
        raise _misfit(saved.path, error) from error


def _misfit(path: Path, error: Exception) -> CheckpointUnusableError:
    return CheckpointUnusableError(f"checkpoint {path} does not fit: {' '.join(str(error).split())[:300]}")
