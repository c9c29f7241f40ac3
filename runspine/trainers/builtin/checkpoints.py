"""Checkpoints on disk: complete, written atomically, and loadable without running pickled code."""

from __future__ import annotations

import os
import pickle
import re
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

if TYPE_CHECKING:
    import torch

FORMAT = 1
KEEP = 3
# A checkpoint is uploaded from here: the uploader needs time to open it.
KEEP_SECONDS = 60.0
_NAME = re.compile(r"step-(\d+)\.[a-z]+\Z")


class CheckpointUnusableError(Exception):
    """The checkpoint cannot be resumed; the message gives the reason."""


class Checkpoints:
    """Checkpoint files of a run: when they are due, and how many are kept."""

    def __init__(self, folder: Path, total: int, *, every_steps: int = 0, every_seconds: float = 0.0) -> None:
        """Due by steps or seconds, whichever comes first; with neither, every tenth of the run."""
        self.folder = folder
        if not every_steps and not every_seconds:
            every_steps = max(1, total // 10)
        self._every_steps, self._every_seconds = every_steps, every_seconds
        self.begin(0)

    def begin(self, step: int) -> None:
        """Count steps and seconds from here."""
        self.last = step
        self._due_step = (step // self._every_steps + 1) * self._every_steps if self._every_steps else None
        self._due_time = time.monotonic() + self._every_seconds if self._every_seconds else None

    def due(self, step: int) -> bool:
        if self._due_step is not None and step >= self._due_step:
            return True
        return self._due_time is not None and time.monotonic() >= self._due_time

    def save(self, step: int, state: dict[str, Any]) -> Path:
        import torch  # here, because not every runner's Python has it

        whole = {"format": FORMAT, "step": step, **state}
        return self.write(step, ".pt", lambda file: torch.save(whole, file))

    def write(self, step: int, suffix: str, write: Callable[[BinaryIO], None]) -> Path:
        """Write to a temporary file and rename it: a file with the right name is complete."""
        self.folder.mkdir(parents=True, exist_ok=True)
        path = self.folder / f"step-{step}{suffix}"
        temporary = path.with_suffix(f".tmp-{os.getpid()}")
        with temporary.open("w+b") as file:
            write(file)
            file.flush()
            os.fsync(file.fileno())
        temporary.rename(path)
        self.begin(step)
        self._prune()
        return path

    def _prune(self) -> None:
        found = sorted((int(name[1]), p) for p in self.folder.iterdir() if (name := _NAME.match(p.name)))
        for _, path in found[:-KEEP]:
            if time.time() - path.stat().st_mtime > KEEP_SECONDS:
                path.unlink()


def load(path: Path, device: torch.device) -> dict[str, Any]:
    """Read a checkpoint. Raises CheckpointUnusableError."""
    import torch

    try:
        state = torch.load(path, map_location=device, weights_only=True)
    except (OSError, RuntimeError, EOFError, pickle.UnpicklingError) as error:
        first = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise CheckpointUnusableError(f"checkpoint {path} cannot be read: {first}") from error
    if not isinstance(state, dict) or state.get("format") != FORMAT:
        raise CheckpointUnusableError(f"checkpoint {path} is not one of ours (format {FORMAT})")
    return state
