"""The Sink port: open, describe, feed, commit, supersede, close."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from runspine.wire.v1.run_pb2 import Attempt

METRICS, EPISODES, STEPS = "metrics", "episodes", "steps"
KINDS = (METRICS, EPISODES, STEPS)
# Stored clips: not telemetry, and fed after all of it.
VIDEOS = "videos"
_UNSAFE = re.compile(r"[^\w.@=+,-]+")


@dataclass(frozen=True, slots=True)
class Mark:
    """Position that an output reaches for each kind of batch, and its newest attempt."""

    positions: Mapping[str, int] = field(default_factory=dict)
    attempt: int = 0
    # The run has ended and the output is complete.
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
class ExportedRun:
    """Description of the exported run for sinks."""

    run_id: str
    name: str
    env: str = ""
    algo: str = ""
    seed: int = 0
    project: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    # Parameters of the spec; describe() also passes those that the trainer reports.
    spec_parameters: Mapping[str, Any] = field(default_factory=dict)
    submitted_at: int = 0
    # Whether it is an evaluation.
    evaluates: bool = False

    @property
    def folder(self) -> str:
        """Name of the run as a portable folder name."""
        return (_UNSAFE.sub("_", self.name).strip("._") or self.run_id)[:180]


class Sink(Protocol):
    """An output for one run.

    Batches are wire messages: StreamMetricsResponse, StreamEpisodesResponse, StreamStepsResponse; for videos,
    a Clip.
    """

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of batches the sink accepts."""
        ...

    def open(self) -> Mark:
        """Open the output and return its mark; the start when it has to be written again."""
        ...

    def describe(self, parameters: Mapping[str, Any]) -> None:
        """Hyperparameters of the run; called at least once before close."""
        ...

    def feed(self, kind: str, batch: Any) -> None:
        """Write a batch that lies after the mark."""
        ...

    def commit(self, mark: Mark) -> None:
        """Make everything up to the mark durable; after a kill, open() returns a committed mark."""
        ...

    def supersede(self, step: int, mark: Mark) -> Mark:
        """Discard everything after a step, from which a new attempt resumes. -1: from the start.

        Returns the mark to feed from.
        """
        ...

    def close(self) -> str:
        """Finish the output and return its location."""
        ...

    def abandon(self) -> None:
        """Release without finishing; committed data stays, and the next open continues."""
        ...


def resumed_step(run_id: str, attempts: Sequence[Attempt], newest: int, known: int) -> int:
    """Step after which attempts up to `newest` supersede those up to `known`; -1 for all."""
    steps = [
        int(a.resumed_from.step) if a.HasField("resumed_from") and a.resumed_from.run_id == run_id else -1
        for a in attempts
        if known < a.number <= newest
    ]
    return min(steps, default=-1)
