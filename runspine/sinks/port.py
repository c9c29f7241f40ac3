"""The port every sink fits: open, describe, feed, commit, supersede, close."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from runspine.wire.v1.run_pb2 import Attempt

METRICS, EPISODES, STEPS = "metrics", "episodes", "steps"
KINDS = (METRICS, EPISODES, STEPS)
_UNSAFE = re.compile(r"[^\w.@=+,-]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """How far an output reaches: a position for each kind of batch, and the newest attempt in it."""

    positions: Mapping[str, int] = field(default_factory=dict)
    attempt: int = 0
    # The run had ended and everything of it is in the output.
    done: bool = False

    @property
    def is_start(self) -> bool:
        return not self.attempt and not any(self.positions.values())

    def after(self, kind: str) -> int:
        return self.positions.get(kind, 0)

    def moved(self, kind: str, position: int, attempt: int) -> Mark:
        known = {**self.positions, kind: max(position, self.after(kind))}
        return replace(self, positions=known, attempt=max(attempt, self.attempt))


@dataclass(frozen=True, slots=True)
class Subject:
    """The run that is exported, as sinks need to know it."""

    run_id: str
    name: str
    env: str = ""
    algo: str = ""
    seed: int = 0
    project: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    # What was asked, before the trainer said what it made of it.
    asked: Mapping[str, Any] = field(default_factory=dict)
    submitted_at: int = 0

    @property
    def folder(self) -> str:
        """Its name as one that every file system takes."""
        return (_UNSAFE.sub("_", self.name).strip("._") or self.run_id)[:180]


class Sink(Protocol):
    """An output for one run.

    Batches are the wire's own: StreamMetricsResponse, StreamEpisodesResponse, StreamStepsResponse.
    """

    @property
    def kinds(self) -> tuple[str, ...]:
        """The kinds of batches it takes."""
        ...

    def open(self) -> Mark:
        """Make ready and say how far the output reaches; the start when it has to begin anew."""
        ...

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """The run's hyperparameters. Told once or more, before close."""
        ...

    def feed(self, kind: str, batch: Any) -> None:
        """Take a batch that comes after the mark."""
        ...

    def commit(self, mark: Mark) -> None:
        """Everything up to the mark was fed. After a kill, open() gives a mark that was committed."""
        ...

    def supersede(self, step: int, mark: Mark) -> Mark:
        """What lies after a step did not happen: an attempt goes on from there. -1: from the start.

        Returns from where the sink wants to be fed.
        """
        ...

    def close(self) -> str:
        """Finish the output; says where it is."""
        ...

    def abandon(self) -> None:
        """Let go without finishing, as if killed: what was committed stays, and the next open goes on."""
        ...


def resumed_step(run_id: str, attempts: Sequence[Attempt], newest: int, known: int) -> int:
    """After which step the attempts up to `known` were superseded by those up to `newest`; -1: all of it."""
    steps = [
        int(a.resumed_from.step) if a.HasField("resumed_from") and a.resumed_from.run_id == run_id else -1
        for a in attempts
        if known < a.number <= newest
    ]
    return min(steps, default=-1)
