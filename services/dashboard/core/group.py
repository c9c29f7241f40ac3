"""Runs by env, algorithm or project: how many, how far, how well. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from runspine.run import ENDED
from runspine.wire.v1.run_pb2 import FAILED, Run
from services.dashboard.core.runbook import Entry
from services.dashboard.core.runrow import finite

KEYS = ("env", "algo", "env · algo", "project", "runner")
MOST = 60


@dataclass(slots=True)
class Pile:
    """One group of the runs."""

    name: str
    runs: int = 0
    active: int = 0
    failed: int = 0
    best: float | None = None


def key_of(run: Run, by: str) -> str:
    spec = run.spec
    if by == "env · algo":
        return f"{spec.env or '–'} · {spec.algo or '–'}"
    return (
        str({"env": spec.env, "algo": spec.algo, "project": spec.project, "runner": spec.runner}[by]) or "–"
    )


def piles(entries: Iterable[Entry], by: str) -> list[Pile]:
    """The largest first."""
    found: dict[str, Pile] = {}
    for entry in entries:
        name = key_of(entry.run, by)
        pile = found.setdefault(name, Pile(name))
        pile.runs += 1
        pile.active += entry.run.phase not in ENDED
        pile.failed += entry.run.phase == FAILED
        if entry.progress.HasField("mean_return"):
            value = finite(entry.progress.mean_return)
            if value is not None and (pile.best is None or value > pile.best):
                pile.best = value
    return sorted(found.values(), key=lambda pile: (-pile.runs, pile.name))[:MOST]
