"""The fork point of a run, and its description for people. Pure."""

from __future__ import annotations

from runspine.wire.v1.spec_pb2 import ForkPoint, RunSpec


def fork_of(spec: RunSpec) -> ForkPoint | None:
    """The step of another run's episode at which the run starts; None when it is no fork."""
    if spec.HasField("fork"):
        return spec.fork
    return spec.play.fork if spec.play.HasField("fork") else None


def describe_fork(spec: RunSpec) -> str:
    """The fork point in words; empty for a run that is no fork."""
    point = fork_of(spec)
    if point is None:
        return ""
    often = ", in every episode" if point.every else ""
    return f"step {point.step:,} of episode {point.episode} of run {point.run_id}{often}"


def readable(spec: RunSpec) -> RunSpec:
    """The spec without the binary record of a fork."""
    short = RunSpec()
    short.CopyFrom(spec)
    if point := fork_of(short):
        point.ClearField("record")
    return short
