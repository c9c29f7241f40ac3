"""Where a run starts: its fork point and its checkpoint, described for people. Pure."""

from __future__ import annotations

from runspine.domain.artifact.evolve import IMPORTS
from runspine.wire.v1.facts_pb2 import ResumedFrom
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


def describe_warm_start(spec: RunSpec) -> str:
    """The source of a warm start as the spec names it; empty without one."""
    source = spec.warm_start
    if not source.run_id:
        return ""
    what = "imported checkpoint" if source.run_id.startswith(IMPORTS) else "run"
    known = source.given or source.name
    which = f", checkpoint {source.digest[:12]}" if source.digest else ", its newest checkpoint"
    return f"{what} {source.run_id}" + (f" ({known})" if known else "") + which


def start_text(origin: ResumedFrom, run_id: str = "") -> str:
    """The checkpoint an attempt started from; a warm start names the run or the import.

    `run_id`, the attempt's own run, distinguishes warm starts in logs that do not mark them.
    """
    warm = origin.warm_start or (run_id and origin.run_id not in ("", run_id))
    where = f"step {origin.step:,} of attempt {origin.attempt}"
    if not warm:
        return f"resumed from {where}"
    name = f" ({origin.name})" if origin.name else ""
    if origin.run_id.startswith(IMPORTS):
        return f"started warm from imported checkpoint {origin.run_id}{name}"
    return f"started warm from {where} of run {origin.run_id}{name}"


def readable(spec: RunSpec) -> RunSpec:
    """The spec without the binary record of a fork."""
    short = RunSpec()
    short.CopyFrom(spec)
    if point := fork_of(short):
        point.ClearField("record")
    return short
