"""The pool of a run. Pure."""

from __future__ import annotations

from runspine.domain.defaults import DEFAULT_POOL
from runspine.wire.v1.run_pb2 import Run


def pool_of(run: Run) -> str:
    return run.spec.pool or DEFAULT_POOL
