"""Runs as the control plane lists them."""

from __future__ import annotations

from runspine.wire.v1.run_pb2 import Run


def a_run(run_id: str = "r1", position: int = 1, **fields: object) -> Run:
    return Run(id=run_id, name=f"run {run_id}", position=position, **fields)  # type: ignore[arg-type]
