"""Finds checkpoints in a folder, an archive or a file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.archive import unpack
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.inspection import inspect_checkpoint, is_bundle
from runspine.checkpoints.surroundings import read_surroundings

SUFFIXES = (".pt", ".pth", ".zip", ".cleanrl_model", ".safetensors")
MAX_CHECKPOINTS = 1000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file to import, or the reason why it is refused."""

    path: Path
    # Path below the given folder or archive.
    name: str
    about: CheckpointAbout | None
    problem: str = ""


@contextmanager
def candidates(path: Path) -> Iterator[list[Candidate]]:
    """Files at a path; an archive is unpacked for the duration of the block. Raises CheckpointError."""
    if path.is_dir():
        yield _in_folder(path)
        return
    if is_bundle(path):
        with TemporaryDirectory(prefix="runspine-import-") as folder:
            unpack(path, Path(folder))
            yield _in_folder(Path(folder))
        return
    yield [Candidate(path, path.name, inspect_with_surroundings(path))]


def inspect_with_surroundings(path: Path) -> CheckpointAbout:
    """Metadata of the file, completed from its surroundings. Raises CheckpointError."""
    about, near = inspect_checkpoint(path), read_surroundings(path)
    algo = about.algo
    # A folder's name may state a variant, such as rpo of ppo_continuous_action; the layout is the same.
    if about.runner == "cleanrl" and near.algo and near.algo != algo and not about.env:
        algo = near.algo
    return replace(
        about,
        algo=algo,
        env=about.env or near.env,
        seed=about.seed if about.seed is not None else near.seed,
    )


def _in_folder(folder: Path) -> list[Candidate]:
    found: list[Candidate] = []
    for path in _files(folder):
        name = str(path.relative_to(folder))
        try:
            found.append(Candidate(path, name, inspect_with_surroundings(path)))
        except CheckpointError as error:
            found.append(Candidate(path, name, None, str(error)))
    if not found:
        raise CheckpointError(f"there is no checkpoint in {folder.name}: none of {', '.join(SUFFIXES)}")
    return found


def _files(folder: Path) -> list[Path]:
    """Files with a checkpoint's suffix. Links are not followed: they may lead outside."""
    found: list[Path] = []
    for parent, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(parent, name)
            if path.suffix in SUFFIXES and not path.is_symlink():
                found.append(path)
            if len(found) > MAX_CHECKPOINTS:
                raise CheckpointError(
                    f"{folder.name} holds more than {MAX_CHECKPOINTS:,} checkpoints: import parts of it"
                )
    return sorted(found)
