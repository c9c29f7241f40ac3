"""Commands on a run. Time and ids are fields of the command, so that deciding is pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runspine.wire.v1.facts_pb2 import AttemptExited, EngineStop
from runspine.wire.v1.preflight_pb2 import Preflight
from runspine.wire.v1.spec_pb2 import RunSpec


@dataclass(frozen=True, slots=True)
class Submit:
    at: int
    run_id: str
    name: str
    spec: RunSpec
    by: str = ""
    parent: str = ""
    key: str = ""
    # What a worker answered about its launch.
    preflight: Preflight | None = None


@dataclass(frozen=True, slots=True)
class Cancel:
    at: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class RecordStart:
    """A worker's AttemptStarted is on the log."""

    at: int
    attempt: int
    worker_id: str


@dataclass(frozen=True, slots=True)
class RecordExit:
    """A worker's AttemptExited is on the log."""

    at: int
    exited: AttemptExited
    # By the worker's clock. What follows is decided at `at`.
    ended_at: int
    # It produced a checkpoint beyond the one it resumed from.
    got_further: bool = False


@dataclass(frozen=True, slots=True)
class GoStale:
    """No heartbeat of the attempt arrived within its lease."""

    at: int
    attempt: int
    last_heard: int


@dataclass(frozen=True, slots=True)
class ComeBack:
    """A stale attempt sends heartbeats again."""

    at: int
    attempt: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The attempt sent no heartbeat for so long that it counts as lost."""

    at: int
    attempt: int
    reason: str
    got_further: bool = False


@dataclass(frozen=True, slots=True)
class RecordPlacementEnd:
    """The engine ended the worker of an attempt, or the placement of one that had not started."""

    at: int
    attempt: int
    stop: EngineStop
    got_further: bool = False


@dataclass(frozen=True, slots=True)
class SetPriority:
    at: int
    priority: int
    by: str = ""


@dataclass(frozen=True, slots=True)
class SetLabels:
    at: int
    labels: Mapping[str, str]
    by: str = ""


Command = (
    Submit
    | Cancel
    | RecordStart
    | RecordExit
    | GoStale
    | ComeBack
    | GiveUp
    | RecordPlacementEnd
    | SetPriority
    | SetLabels
)
