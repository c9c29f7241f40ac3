"""The file in which a run's fork point goes to its trainer. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

from runspine.wire.v1.spec_pb2 import ForkPoint

# Names the file to a trainer; a player is told on its command line.
VARIABLE = "RUNSPINE_FORK"
NAME = "fork.point"


def write_fork(point: ForkPoint, run_dir: Path) -> str:
    """Name of the file, in the run's directory."""
    (run_dir / NAME).write_bytes(point.SerializeToString())
    return NAME
