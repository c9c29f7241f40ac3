"""What one caller may ask for: runs in flight, and pools that exist. Pure."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.domain.defaults import DEFAULT_POOL
from runspine.errors import Violation
from runspine.services.orchestrator.core.board import Board
from runspine.spec.nearest import not_accepted


@dataclass(frozen=True, slots=True)
class CallerLimits:
    """Limits of a deployment. `max_active_runs` of 0 means none."""

    max_active_runs: int = 0
    pools: frozenset[str] = frozenset()

    def active_problem(self, board: Board, caller: str) -> str:
        """Why the caller may not submit another run: it has as many that have not ended as it may."""
        active = board.active_by[caller]
        if not self.max_active_runs or active < self.max_active_runs:
            return ""
        who = f"token {caller!r} has" if caller else "there are"
        return (
            f"{who} {active:,} runs that have not ended, and {self.max_active_runs:,} are allowed: wait for "
            "some to end, cancel some, or have the operator raise RUNSPINE_MAX_ACTIVE_RUNS"
        )

    def pool_violations(self, board: Board, pool: str, scope: str) -> list[Violation]:
        """A pool is one that is declared, or that a worker serves or served, or that a run was submitted to.
        Each has a consumer and series of its own, so only admins make new ones."""
        if scope == "admin" or pool in ("", DEFAULT_POOL) or pool in self.pools or pool in board.pools:
            return []
        if pool in board.fleet.known_pools:
            return []
        known = sorted({DEFAULT_POOL, *self.pools, *board.pools, *board.fleet.known_pools})
        remedy = "start a worker for it, or have the operator name it in RUNSPINE_POOLS"
        return [Violation("pool", f"{not_accepted(pool, known)}. For a new pool {remedy}")]


NO_LIMITS = CallerLimits()
