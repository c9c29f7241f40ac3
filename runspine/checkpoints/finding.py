"""Checkpoints in a folder, an archive or a file: which there are, and what each is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from runspine.checkpoints.about import About
from runspine.checkpoints.archive import unpack
from runspine.checkpoints.bad import BadCheckpoint
from runspine.checkpoints.beside import beside
from runspine.checkpoints.look import is_bundle, look

SUFFIXES = (".pt", ".pth", ".zip", ".cleanrl_model", ".safetensors")
MOST = 1000


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file that may be taken in, or the reason why not."""

    path: Path
    # As people know it: below the folder or archive that was given.
    name: str
    about: About | None
    flaw: str = ""


@contextmanager
def candidates(path: Path) -> Iterator[list[Candidate]]:
    """What there is at a path; an archive is unpacked as long as the block lasts. Raises BadCheckpoint."""
    if path.is_dir():
        yield _in_folder(path)
        return
    if is_bundle(path):
        with TemporaryDirectory(prefix="runspine-import-") as folder:
            unpack(path, Path(folder))
            yield _in_folder(Path(folder))
        return
    yield [Candidate(path, path.name, described(path))]


def described(path: Path) -> About:
    """What the file says, and where it is silent what lies beside it says. Raises BadCheckpoint."""
    about, near = look(path), beside(path)
    algo = about.algo
    # A folder's name knows a variant, such as ppo_continuous_action's rpo; the layout stays what it is.
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
            found.append(Candidate(path, name, described(path)))
        except BadCheckpoint as error:
            found.append(Candidate(path, name, None, str(error)))
    if not found:
        raise BadCheckpoint(f"there is no checkpoint in {folder.name}: none of {', '.join(SUFFIXES)}")
    return found


def _files(folder: Path) -> list[Path]:
    """Those that end like a checkpoint. Links are not followed: they may lead anywhere."""
    found: list[Path] = []
    for parent, _, names in os.walk(folder, followlinks=False):
        for name in names:
            path = Path(parent, name)
            if path.suffix in SUFFIXES and not path.is_symlink():
                found.append(path)
            if len(found) > MOST:
                raise BadCheckpoint(f"{folder.name} holds more than {MOST:,} checkpoints: import parts of it")
    return sorted(found)
