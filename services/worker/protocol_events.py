"""What a line of a trainer can mean. Whatever has a message of its own on the wire is that message."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, Score, StepBlock


class Line(NamedTuple):
    """A log line; `malformed` when it looked like an object of the protocol but is none."""

    text: str
    malformed: bool = False


class Step(NamedTuple):
    """One step, still in the trainer's own values."""

    episode_id: str
    slot: int
    agent_id: str
    step: int
    action: Any
    reward: float
    flags: int
    obs: Any
    at: int
    global_step: int
    # Bytes of the line: a cheap guess at what it will take.
    size: int
    # Who chose the action, where that can change.
    actor: str = ""


class Metrics(NamedTuple):
    values: dict[str, float]
    # None when the trainer does not say at which step.
    step: int | None
    at: int


class Mind(NamedTuple):
    """What an agent wants, believes and intends; `text` is the object without what the rest says."""

    text: str
    values: dict[str, float]
    step: int | None
    at: int


class Config(NamedTuple):
    text: str


class Artifact(NamedTuple):
    said: dict[str, Any]


class Reached(NamedTuple):
    """A `progress` line."""

    step: int
    total: int | None


Event = (
    Line | Step | StepBlock | Episode | Metrics | EnvMade | Reset | Config | Artifact | Reached | Score | Mind
)
