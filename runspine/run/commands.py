"""What can be asked of a run. Time and ids are fields, so that deciding stays pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from runspine.wire.v1.facts_pb2 import AttemptExited
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


@dataclass(frozen=True, slots=True)
class Cancel:
    at: int
    by: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Start:
    """A worker's AttemptStarted is on the log."""

    at: int
    attempt: int
    worker_id: str


@dataclass(frozen=True, slots=True)
class Exit:
    """A worker's AttemptExited is on the log."""

    at: int
    exited: AttemptExited
    # By the worker's clock: what ended, ended then. What is decided next is decided `at`.
    ended_at: int
    # It has left a checkpoint beyond the one it began with.
    got_further: bool = False


@dataclass(frozen=True, slots=True)
class GoStale:
    """Nothing was heard of the attempt for longer than its lease."""

    at: int
    attempt: int
    last_heard: int


@dataclass(frozen=True, slots=True)
class ComeBack:
    at: int
    attempt: int


@dataclass(frozen=True, slots=True)
class GiveUp:
    """The attempt has been silent for so long that it is taken for lost."""

    at: int
    attempt: int
    reason: str
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


Command = Submit | Cancel | Start | Exit | GoStale | ComeBack | GiveUp | SetPriority | SetLabels
