"""One call of a client as it is recorded: a line of JSON, the same for tests, chaos and the simulator."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Literal, NamedTuple, TextIO

from runspine.wire.v1.run_pb2 import Phase, Run

Operation = Literal["submit", "cancel", "priority", "labels", "get", "list", "watch"]
# `ok`: answered. `refused`: the run's phase does not allow it. `missing`: there is no such run. `failed`: it
# did not happen. `unknown`: it may have happened, at any time since.
Outcome = Literal["ok", "refused", "missing", "failed", "unknown"]
WRITES: frozenset[str] = frozenset({"submit", "cancel", "priority", "labels"})


class Seen(NamedTuple):
    """A run as a reply showed it."""

    phase: str
    attempt: int
    priority: int
    labels: Mapping[str, str]

    @classmethod
    def of(cls, run: Run) -> Seen:
        return cls(Phase.Name(run.phase), run.attempt, run.priority, dict(run.labels))


@dataclass(frozen=True, slots=True)
class Call:
    """`session` is one client on one orchestrator; `start` and `end` are seconds of one clock.

    `run_id` is the run that the call is about, where the caller knew it; `key` a submit's idempotency key.
    `given` holds what a write sets: `priority`, `labels`. `seen` has the runs of the reply by id.
    """

    session: str
    operation: Operation
    start: float
    end: float
    outcome: Outcome
    run_id: str = ""
    key: str = ""
    given: Mapping[str, Any] = field(default_factory=dict)
    seen: Mapping[str, Seen] = field(default_factory=dict)
    created: bool = False

    @property
    def is_write(self) -> bool:
        return self.operation in WRITES

    def line(self) -> str:
        kept = {name: value for name, value in asdict(self).items() if value or name in ("start", "end")}
        return json.dumps(kept, separators=(",", ":"))


def read_calls(lines: Iterable[str]) -> Iterator[Call]:
    """A last line that was cut off by a kill is left out."""
    for line in lines:
        if line.endswith("\n"):
            found = json.loads(line)
            seen = {run_id: Seen(*each) for run_id, each in found.pop("seen", {}).items()}
            yield Call(**found, seen=seen)


def read_files(paths: Iterable[Path]) -> list[Call]:
    """Calls of several recordings; their times are of the same clock."""
    calls: list[Call] = []
    for path in paths:
        with path.open() as file:
            calls += read_calls(file)
    return calls


class Recording:
    """Appends calls to a file, each when it has ended."""

    def __init__(self, file: TextIO) -> None:
        self._file = file
        self.count = 0

    def add(self, call: Call) -> None:
        self._file.write(call.line() + "\n")
        self._file.flush()
        self.count += 1
