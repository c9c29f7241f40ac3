"""What a run is, without asking a service again: its fields for Python programs."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from runspine.domain.run import ENDED
from runspine.spec.plain import enum_word, to_plain
from runspine.wire.v1.facts_pb2 import Fact, Progress
from runspine.wire.v1.run_pb2 import Attempt, Phase, Run
from runspine.wire.v1.telemetry_pb2 import LogLine, LogSource, SeriesInfo
from runspine.wire.v1.trainer_pb2 import WatchResponse

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def moment(micros: int) -> datetime | None:
    """A time of the log; None for 0, which means that there is none."""
    return EPOCH + timedelta(microseconds=micros) if micros else None


class LogEntry(NamedTuple):
    """One line of a trainer's output."""

    attempt: int
    number: int
    at: datetime | None
    # stdout, stderr, worker, mind or turn.
    source: str
    text: str


class RunChange(NamedTuple):
    """What a watched run reported: facts, or progress between them."""

    state: str
    # Names and fields of the facts, such as {"run_started": {...}}; empty in a change of progress.
    facts: list[dict[str, Any]]
    # Steps and episodes so far, as far as they are known.
    progress: dict[str, Any]


def log_entries(attempt: int, lines: Iterable[LogLine]) -> Iterator[LogEntry]:
    for line in lines:
        source = enum_word(LogSource.DESCRIPTOR, line.source)
        yield LogEntry(attempt, line.number, moment(line.at), source, line.text)


def change_of(message: WatchResponse, state: str) -> RunChange:
    return RunChange(
        state=state,
        facts=[_named(fact) for fact in message.facts],
        progress=to_plain(message.progress, full=False),
    )


def _named(fact: Fact) -> dict[str, Any]:
    kind = fact.WhichOneof("kind") or "unknown"
    return {kind: to_plain(getattr(fact, kind)) if kind != "unknown" else {}}


def summary_of(series: Iterable[SeriesInfo]) -> dict[str, float]:
    return {info.name: info.last for info in series}


class RunFields:
    """The fields of a run as it was when it was last read."""

    def __init__(self, run: Run, attempts: Iterable[Attempt] = (), progress: Progress | None = None) -> None:
        self.message = run
        self._attempts = list(attempts)
        self._progress = progress

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.id} {self.name!r} {self.state}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunFields) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        return self.message.id

    @property
    def name(self) -> str:
        return self.message.name

    @property
    def state(self) -> str:
        """Its phase: submitted, queued, running, stale, cancelling, completed, failed or cancelled."""
        return enum_word(Phase.DESCRIPTOR, self.message.phase)

    @property
    def has_ended(self) -> bool:
        return self.message.phase in ENDED

    @property
    def reason(self) -> str:
        """Why it is in this state, for people."""
        return self.message.reason

    @property
    def env(self) -> str:
        return self.message.spec.env

    @property
    def algo(self) -> str:
        return self.message.spec.algo

    @property
    def runner(self) -> str:
        return self.message.spec.runner

    @property
    def seed(self) -> int:
        return self.message.spec.seed

    @property
    def project(self) -> str:
        return self.message.spec.project

    @property
    def owner(self) -> str:
        """Name of the token it was submitted with."""
        return self.message.submitted_by

    @property
    def labels(self) -> dict[str, str]:
        return dict(self.message.labels)

    @property
    def config(self) -> dict[str, Any]:
        """Parameters of its spec, and further ones that the trainer reported."""
        reported = self.reported_config
        inner = reported.get("args")
        found = dict(inner if isinstance(inner, dict) else reported)
        found.update(to_plain(self.message.spec)["params"])
        return found

    @property
    def reported_config(self) -> Mapping[str, Any]:
        """The configuration that the trainer printed; empty in runs of a list until `refresh`."""
        for attempt in reversed(self._attempts):
            if text := attempt.described.config_json:
                found = json.loads(text)
                return found if isinstance(found, dict) else {}
        return {}

    @property
    def spec(self) -> dict[str, Any]:
        """What was asked for, as in a run file."""
        found: dict[str, Any] = to_plain(self.message.spec, full=False)
        return found

    @property
    def counts(self) -> dict[str, Any]:
        """Steps, episodes, metrics and the like that were recorded."""
        counts = self._progress.counts if self._progress and not self.has_ended else self.message.counts
        found: dict[str, Any] = to_plain(counts)
        return found

    @property
    def submitted(self) -> datetime | None:
        return moment(self.message.submitted_at)

    @property
    def started(self) -> datetime | None:
        return moment(self.message.started_at)

    @property
    def ended(self) -> datetime | None:
        return moment(self.message.ended_at)
