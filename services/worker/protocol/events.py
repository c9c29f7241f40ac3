"""Events that a trainer's line can be. Those with a wire message of their own are that message."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.wire.v1.telemetry_pb2 import EnvMade, Episode, Reset, Score, StepBlock


class LogLine(NamedTuple):
    """A log line; `malformed` when it looked like a protocol object but is not one."""

    text: str
    malformed: bool = False


class StepEvent(NamedTuple):
    """One step, with the values as the trainer wrote them."""

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
    # Bytes of the line, an estimate of the encoded size.
    size: int
    # Who chose the action, in play sessions.
    actor: str = ""


class MetricsEvent(NamedTuple):
    """A `metric` or `metrics` line."""

    values: dict[str, float]
    # None when the line has no step.
    step: int | None
    at: int


class MindEvent(NamedTuple):
    """Goals, beliefs and intentions of an agent; `text` is the object as JSON without other fields."""

    text: str
    values: dict[str, float]
    step: int | None
    at: int


class TurnEvent(NamedTuple):
    """Prompt and answer of an actor that answers in words; `text` is the object as JSON."""

    text: str
    at: int


class ConfigEvent(NamedTuple):
    """A `config` line, as JSON."""

    text: str


class ArtifactEvent(NamedTuple):
    """An `artifact` line."""

    fields: dict[str, Any]


class ArtifactsEvent(NamedTuple):
    """A line {"event": "artifacts", …}: several files as `artifact` lines have them, and an address."""

    files: list[dict[str, Any]]
    # Address of the run at W&B as it was printed; empty when there is none.
    url: str


class HelloEvent(NamedTuple):
    """A `hello` line: the version of the protocol, and what writes it."""

    protocol: int
    writer: str


class ProgressEvent(NamedTuple):
    """A `progress` line."""

    step: int
    total: int | None


class DroppedEvent(NamedTuple):
    """A `dropped` line: how much could not be recorded, and why."""

    lines: int
    reason: str


Event = (
    LogLine
    | StepEvent
    | StepBlock
    | Episode
    | MetricsEvent
    | EnvMade
    | Reset
    | ConfigEvent
    | ArtifactEvent
    | ArtifactsEvent
    | HelloEvent
    | ProgressEvent
    | DroppedEvent
    | Score
    | MindEvent
    | TurnEvent
)
