"""Batches for a stream that is archived, and the end of a run."""

from __future__ import annotations

from typing import Any

from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact, RunCompleted, RunStarted
from tests.kit.telemetry import Archived, TelemetryProcess


def line(text: str, number: int = 1) -> wire.LogBatch:
    return wire.LogBatch(lines=[wire.LogLine(number=number, text=text)])


def metric(name: str, values: list[float], first: int = 0) -> wire.MetricBatch:
    numbers = range(first, first + len(values))
    return wire.MetricBatch(
        blocks=[wire.MetricBlock(name=name, values=values, steps=numbers, at=[n * 1000 for n in numbers])]
    )


def episode(name: str, value: float, length: int, counter: int) -> wire.Episode:
    made = wire.Episode(episode_id=name, steps=length, global_step=counter, ended_at=1_000_000 + counter * 10)
    setattr(made, "return", value)
    return made


async def end(archived: Archived, run_id: str) -> None:
    facts = Fact(run_started=RunStarted(attempt=1)), Fact(run_completed=RunCompleted(attempt=1))
    await archived.rig.decide(run_id, *facts)


async def trim(archived: Archived, service: TelemetryProcess, position: int) -> None:
    """Everything is in segments, and only there."""
    await archived.archived_to(position)
    await archived.trimmed_to(position)
    assert (await archived.rig.log.extent("TELEMETRY")).commits == 0


async def all_of(call: Any) -> list[Any]:
    return [answer async for answer in call]
