"""Where a run began, for people. Pure."""

from __future__ import annotations

from runspine.wire.v1.spec_pb2 import ForkPoint, RunSpec


def fork_of(spec: RunSpec) -> ForkPoint | None:
    """The moment of another run's episode that it began at."""
    if spec.HasField("fork"):
        return spec.fork
    return spec.play.fork if spec.play.HasField("fork") else None


def fork_words(spec: RunSpec) -> str:
    """Empty for a run that began anew."""
    point = fork_of(spec)
    if point is None:
        return ""
    often = ", in every episode" if point.every else ""
    return f"step {point.step:,} of episode {point.episode} of run {point.run_id}{often}"


def readable(spec: RunSpec) -> RunSpec:
    """The spec without the bytes that nobody reads."""
    short = RunSpec()
    short.CopyFrom(spec)
    if point := fork_of(short):
        point.ClearField("record")
    return short
