"""Targets of the design, and whether the measured figures meet them."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from runspine.bench.kit.figures import Figure, shown


@dataclass(frozen=True, slots=True)
class Target:
    """One target. `why` is the known reason for a gap, written only where there is one."""

    key: str
    what: str
    limit: float
    unit: str
    at_least: bool = False
    others: str = ""
    why: str = "not known yet"

    def meets(self, value: float) -> bool:
        return value >= self.limit if self.at_least else value <= self.limit

    @property
    def text(self) -> str:
        limit = f"{self.limit:,g}" if self.limit < 1e6 else f"{self.limit:,.0f}"
        return f"{'≥' if self.at_least else '≤'} {limit} {self.unit}".strip()


@dataclass(frozen=True, slots=True)
class Answer:
    """Result for a target; `met` is None when it was not measured."""

    target: Target
    figure: Figure | None
    trouble: str = ""

    @property
    def met(self) -> bool | None:
        return None if self.figure is None else self.target.meets(self.figure.value)

    @property
    def gap(self) -> str:
        """Distance to the target, and its reason."""
        if self.figure is None or self.met is None:
            return self.trouble
        if self.met:
            return ""
        off = abs(self.figure.value - self.target.limit)
        part = off / self.target.limit
        which = "short" if self.target.at_least else "over"
        return f"{shown(off)} {self.target.unit}".strip() + f" ({part:.1%}) {which}: {self.target.why}"


BUSY = (
    "trainers, worker, NATS, telemetry, S3 and the subscribers share the cores of one machine; what waits is "
    "the queue for a core"
)
TARGETS = (
    Target(
        "capture", "trainer speed with every step captured ÷ bare, PPO", 0.98, "", at_least=True,
        others="W&B's TensorBoard sync made RL 4.6 × slower (wandb#950)",
        why="a step costs more within a learner's work than in a plain loop: one more Python call around "
        "each env step and, probably, caches that the learner has evicted; see Trainer in the benchmarks",
    ),
    Target(
        "durable", "steps durable end to end, one trainer, none lost", 100_000, "steps/s", at_least=True,
        why="bounded by the CPU of worker and ingest; the cost of a step is in the table of Telemetry",
    ),
    Target(
        "cpu", "CPU for a captured step, cheap form", 0.5, "µs",
        why="depends on the clock of the cores: compare it with the bare steps/s in the same row",
    ),
    Target(
        "bytes", "bytes a step at rest, CartPole with observations", 20, "B",
        why="very short episodes: each brings its own reset and end",
    ),
    Target(
        "start", "submit → RUNNING on an idle worker, p99", 500, "ms", others="MOSAIC 2.3 s",
        why="every fact on the way is synced: see what the disk does in Control plane",
    ),
    Target(
        "admissions", "admissions", 100, "runs/s", at_least=True, others="Kueue 42/s, as published",
        why="each is synced to disk: see what the disk does in Control plane",
    ),
    Target(
        "chart", "first chart of a series of 10⁸ points", 1, "s", others="TensorBoard keeps 1,000 points",
        why="the levels are read from S3 on the same machine",
    ),
    Target(
        "restart", "orchestrator restart with 1,000,000 facts", 5, "s",
        why="the snapshot is read and parsed by one core",
    ),
    Target("latency", "step on the trainer → at a subscriber, p99, one trainer", 250, "ms", why=BUSY),
    Target("latency of eight", "the same, eight trainers and eight subscribers", 250, "ms", why=BUSY),
)  # fmt: skip
SMALLER = "not measured, or not in the target's size: `--size full` does"


def answers(figures: Iterable[Figure]) -> list[Answer]:
    """Answers to all targets; of several figures for a target the worst counts."""
    found: dict[str, list[Figure]] = {}
    for figure in figures:
        if figure.key and math.isfinite(figure.value):
            found.setdefault(figure.key, []).append(figure)
    answered = []
    for target in TARGETS:
        those = sorted(found.get(target.key, []), key=lambda f: f.value, reverse=not target.at_least)
        answered.append(Answer(target, those[0] if those else None, "" if those else _missing(target)))
    return answered


def _missing(target: Target) -> str:
    return SMALLER if target.key in ("chart", "restart") else "not measured"
