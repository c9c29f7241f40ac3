"""Recognises checkpoints of the builtin runner, Stable-Baselines3 and CleanRL, and refuses other files."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path
from typing import Any

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.archive import Bounds, check_sums, entries_of
from runspine.checkpoints.contents import about_builtin, about_weights
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.plain_pickle import MAX_PICKLE_BYTES, Tensor, read_plain
from runspine.checkpoints.sb3_file import POLICY, about_sb3
from runspine.checkpoints.torch_file import is_torch, read_shapes

ZIP, PICKLE = b"PK\x03\x04", b"\x80"
MAX_HEADER_BYTES = 100 << 20
# The sb3 runner stores its replay buffer in checkpoints: dark images compress a thousandfold.
BOUNDS = Bounds(streamed=frozenset({"replay.npz"}))
KNOWN = (
    "a checkpoint of the builtin runner, a Stable-Baselines3 .zip, a .cleanrl_model or a .safetensors file"
)


def inspect_checkpoint(path: Path, name: str = "") -> CheckpointAbout:
    """Metadata of a checkpoint file. Raises CheckpointError, whose message uses `name`.

    Archives are checked completely, including every checksum. No code of the file is run.
    """
    name = name or path.name
    head = _head(path, name)
    if head.startswith(ZIP):
        return _inspect_zip(path, name)
    if len(head) > 8 and head[8:9] == b"{":
        return about_weights(_safetensors(path, name), {}, name)
    if head.startswith(PICKLE):
        return _refuse_pickle(path, name)
    raise CheckpointError(f"{name} is not {KNOWN}")


def is_bundle(path: Path) -> bool:
    """Whether a file is an archive of checkpoints rather than a checkpoint. Raises CheckpointError."""
    if not _head(path, path.name).startswith(ZIP):
        return False
    names = [entry.filename for entry in entries_of(path, path.name, BOUNDS)]
    return not is_torch(names) and POLICY not in names


def _head(path: Path, name: str) -> bytes:
    try:
        # Opening a pipe without a writer would block.
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        raise CheckpointError(f"{name} cannot be read: {error.strerror}") from error
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise CheckpointError(f"{name} is not a regular file")
        head = os.read(descriptor, 16)
    finally:
        os.close(descriptor)
    if not head:
        raise CheckpointError(f"{name} is empty: 0 bytes")
    return head


def _inspect_zip(path: Path, name: str) -> CheckpointAbout:
    names = [entry.filename for entry in entries_of(path, name, BOUNDS)]
    check_sums(path, name)
    if is_torch(names):
        return _about(read_shapes(path, name), name)
    if POLICY in names:
        return about_sb3(path, names, name)
    raise CheckpointError(f"{name} is an archive, and not {KNOWN}")


def _about(saved: Any, name: str) -> CheckpointAbout:
    """Metadata by the structure in which each algorithm saves."""
    match saved:
        case {"format": int(), "algo": str(), "parts": dict()}:
            return about_builtin(saved, name)
        case {"model_weights": dict(weights), "args": dict(args)}:
            return about_weights(weights, args, name, path=("model_weights",))
        case (dict(actor), dict()) | (dict(actor), dict(), dict()):
            # CleanRL's ddpg saves its actor and one critic, td3 two.
            algo = "ddpg_continuous_action" if len(saved) == 2 else "td3_continuous_action"
            return about_weights(actor, {}, name, path=(0,), algo=algo)
        case dict():
            return about_weights(saved, {}, name)
    raise CheckpointError(f"{name} holds {type(saved).__name__}, and not {KNOWN}")


def _safetensors(path: Path, name: str) -> dict[str, Tensor]:
    """Shapes from the JSON header: name, type and shape of each tensor."""
    with path.open("rb") as file:
        length = int.from_bytes(file.read(8), "little")
        size = os.fstat(file.fileno()).st_size
        if length > min(MAX_HEADER_BYTES, size - 8):
            raise CheckpointError(f"{name} is truncated: its header should have {length:,} bytes")
        text = file.read(length)
    try:
        header = json.loads(text)
        header.pop("__metadata__", None)
        ends = [int(each["data_offsets"][1]) for each in header.values()]
        shapes = {key: Tensor(tuple(each["shape"]), each["dtype"]) for key, each in header.items()}
    except (ValueError, TypeError, KeyError, IndexError, AttributeError, RecursionError) as error:
        raise CheckpointError(f"{name} has a header that cannot be read: {error}") from error
    if max(ends, default=0) != size - 8 - length:
        raise CheckpointError(f"{name} is truncated: its tensors need {max(ends, default=0):,} bytes")
    return shapes


def _refuse_pickle(path: Path, name: str) -> CheckpointAbout:
    """Refuse a bare pickle; the message names what it would call."""
    if path.stat().st_size <= MAX_PICKLE_BYTES:
        read_plain(path.read_bytes())
    raise CheckpointError(
        f"{name} is a bare pickle, which would have to be run to be loaded: "
        "save it again with torch.save of torch 1.6 or later, or as .safetensors"
    )
