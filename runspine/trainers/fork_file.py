"""The file that passes a run's fork point to its trainer. Imports nothing heavy."""

from __future__ import annotations

from pathlib import Path

from runspine.wire.v1.spec_pb2 import ForkPoint

# Environment variable with the file, for a trainer; a player has an option for it.
VARIABLE = "RUNSPINE_FORK"
NAME = "fork.point"


def write_fork(point: ForkPoint, run_dir: Path) -> str:
    """Write the file into the run's directory; return its name."""
    (run_dir / NAME).write_bytes(point.SerializeToString())
    return NAME
