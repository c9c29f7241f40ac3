"""Place of this process in the run: its rank, and whether it is the first process of that rank."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

# Rank and number of ranks as launchers name them: torchrun and accelerate, Open MPI, MPICH, Slurm.
VARIABLES = (
    ("RANK", "WORLD_SIZE"),
    ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
    ("PMI_RANK", "PMI_SIZE"),
    ("SLURM_PROCID", "SLURM_NTASKS"),
)


class Rank(NamedTuple):
    """Number of a process among equal ones that train together."""

    number: int = 0
    total: int = 1

    def slot(self, slot: int) -> int:
        """Slot of the run for a slot of this rank: no two ranks share one, however many each has."""
        return slot * self.total + self.number

    def own(self, slot: int) -> int:
        """The reverse: slot of this rank for one of its slots of the run."""
        return slot // self.total

    def name(self, metric: str) -> str:
        """Name of a metric: the plain one belongs to rank 0."""
        return f"rank{self.number}/{metric}" if self.number else metric


def rank_of(environment: Mapping[str, str]) -> Rank:
    for number, count in VARIABLES:
        given, of = environment.get(number, ""), environment.get(count, "")
        if given.isdecimal() and of.isdecimal() and int(given) < int(of):
            return Rank(int(given), int(of))
    return Rank()


def is_first(folder: Path, attempt: int, rank: Rank) -> bool:
    """Whether this is the first process of its rank that asks; True when the folder cannot be used.

    The first one numbers its episodes; others add their process id, so that no two episodes share an id.
    """
    path = folder / f".trainer-{attempt}-{rank.number}"
    own = str(os.getpid())
    try:
        descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    except FileExistsError:
        with contextlib.suppress(OSError):
            return path.read_text() == own
        return False
    except OSError:
        return True
    with os.fdopen(descriptor, "w") as file:
        file.write(own)
    return True
