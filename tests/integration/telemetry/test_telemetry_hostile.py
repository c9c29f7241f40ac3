"""Whatever a trainer or a caller sends is kept as it was sent, or refused, and the service goes on."""

from __future__ import annotations

import math
import time
import urllib.request
from typing import Any

import grpc
import numpy as np
import pytest

from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import telemetry_subject
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.servers.s3 import S3Server
from tests.kit.telemetry import Archived, TelemetryProcess, step_batch, steps
from tests.kit.waiting import eventually

INVALID = grpc.StatusCode.INVALID_ARGUMENT
MANY = 10_000


async def all_of(call: Any) -> list[Any]:
    return [answer async for answer in call]


def changed(block: wire.StepBlock, **fields: Any) -> wire.StepBlock:
    for name, value in fields.items():
        field = getattr(block, name)
        if hasattr(field, "CopyFrom"):
            field.CopyFrom(value)
        elif hasattr(field, "extend"):
            field.extend(value)
        else:
            setattr(block, name, value)
    return block


def without(block: wire.StepBlock, *fields: str) -> wire.StepBlock:
    for name in fields:
        block.ClearField(name)  # type: ignore[arg-type]
    return block


def hostile_blocks() -> list[wire.StepBlock]:
    """Each alone is something a program in another language might send."""
    wide = wire.Array(dtype="<f4", shape=[3], data=np.arange(6, dtype="<f4").tobytes())
    odd = [math.nan, math.inf, -math.inf, -0.0, 5e-324, 1.7976931348623157e308]
    return [
        steps("e" * 4096, 0, [1.0, 2.0], 0),
        steps("ü/\"'; DROP TABLE steps; --\n\x00" + "🚀" * 50_000, 0, [1.0], 2),
        steps("nan", 0, odd, 3),
        # Another shape in mid-run, then none, then JSON.
        changed(steps("shape", 0, [1.0, 2.0], 9), observation=wide),
        without(steps("shape", 2, [1.0, 2.0], 11), "observation"),
        changed(
            without(steps("dict", 0, [1.0, 2.0], 13), "observation"),
            observation_json=['{"camera": [1, 2], "ключ": null}', '"\\u0000"'],
        ),
        # Out of order, and the counter goes back.
        steps("order", 50, [5.0], 65),
        steps("order", 0, [0.0], 15),
        # Columns that do not fit their count, and numbers at their ends.
        changed(steps("lies", 0, [1.0], 0), count=7),
        changed(wire.StepBlock(episode_id="empty"), count=(1 << 32) - 1),
        changed(
            steps("ends", 0, [1.0], 0), global_step=(1 << 64) - 1, first_at=-(1 << 63), last_at=(1 << 63) - 1
        ),
        changed(steps("ends", (1 << 64) - 1, [1.0], 0), slot=(1 << 32) - 1, agent_id="a" * 5000),
    ]


async def test_steps_of_any_form_are_kept_as_they_were_sent(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    sent = hostile_blocks()
    for block in sent:
        await archived.emit(run_id, steps=step_batch(block))
    position = await archived.emit(run_id, steps=step_batch(*sent))

    async def check(stub: Any) -> None:
        answers = await all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id)))
        received = [block.SerializeToString() for answer in answers for block in answer.blocks]
        assert received == [block.SerializeToString() for block in [*sent, *sent]]
        order = await stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, episode_id="order"))
        assert [block.first_step for block in order.blocks] == [0, 0, 50, 50]
        for episode_id in ("e" * 4096, sent[1].episode_id, "dict", "ends", "lies", "empty"):
            found = await stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, episode_id=episode_id))
            assert found.blocks, episode_id[:20]
        await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["step/reward"]))
        await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))

    async with archived.stub(service) as stub:
        await check(stub)
        await archived.trimmed_to(position)
        await check(stub)


async def test_what_is_no_batch_is_counted_and_passed_over(archived: Archived) -> None:
    run_id, other = await archived.rig.submit("true"), await archived.rig.submit("true")
    service = archived.start()
    good = wire.Batch(
        run_id=run_id, attempt=1, number=1, logs=wire.LogBatch(lines=[wire.LogLine(text="good")])
    )
    strange = [b"", b"\xff" * 100, good.SerializeToString()[:-3], b"{}", other.encode()]
    for number, data in enumerate(
        [*strange, good.SerializeToString().replace(run_id.encode(), other.encode())]
    ):
        await archived.rig.publisher.publish(
            telemetry_subject(run_id, 1, "log"), data, {MESSAGE_ID: f"strange:{number}"}
        )
    unknown = wire.Batch(run_id=run_id, attempt=1, number=7).SerializeToString() + b"\xaa\x06\x03new"
    await archived.rig.publisher.publish(
        telemetry_subject(run_id, 1, "log"), unknown, {MESSAGE_ID: "unknown"}
    )
    position = await archived.emit(run_id, number=1, logs=good.logs)
    await archived.archived_to(position)
    async with archived.stub(service) as stub:
        answers = await all_of(stub.StreamLogs(wire.StreamLogsRequest(run_id=run_id)))
        assert [line.text for answer in answers for line in answer.lines] == ["good"]
    page = urllib.request.urlopen(f"http://{service.metrics}/metrics", timeout=60).read().decode()
    assert "runspine_ingest_malformed_total 6.0" in page


async def test_ten_thousand_series_with_any_names_are_kept_and_each_can_be_drawn(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    names = ["", "a/b/../c", "'; DROP TABLE metrics; --", '"', "损失/🚀", "new\nline", "\x00", "x" * 5000]
    names += [f"layer.{n}/weight" for n in range(MANY - len(names))]
    values = [math.nan, math.inf, -math.inf, 1.0]
    blocks = [
        wire.MetricBlock(name=name, values=values, steps=[1, 0, (1 << 64) - 1, 3], at=[-(1 << 63), 0, 1, 2])
        for name in names
    ]
    for start in range(0, MANY, 2000):
        position = await archived.emit(run_id, metrics=wire.MetricBatch(blocks=blocks[start : start + 2000]))
    await archived.trimmed_to(position, 60)
    async with archived.stub(service) as stub:
        began = time.monotonic()
        for name in (*names[:8], names[-1]):
            answer = await stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=[name]))
            assert (answer.series[0].name, answer.series[0].points) == (name, 4)
        assert time.monotonic() - began < 60
        listed = (await stub.ListSeries(wire.ListSeriesRequest(run_id=run_id))).series
        assert len(listed) == 1000, "nobody looks at more at once"
        for request in (
            wire.QueryMetricsRequest(run_id=run_id, names=names[8:1009]),
            wire.QueryMetricsRequest(run_id=run_id, max_points=100_000),
            wire.QueryMetricsRequest(run_id=run_id, names=names[8:508], max_points=100_000),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await stub.QueryMetrics(request)
            assert caught.value.code() == INVALID


async def test_episodes_of_two_attempts_may_have_one_name(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.attempt(run_id, 1)
    await archived.emit(run_id, steps=step_batch(steps("0-0", 0, [1.0] * 3, 0)))
    await archived.attempt(run_id, 2, resumed_at=3)
    position = await archived.emit(run_id, attempt=2, steps=step_batch(steps("0-0", 0, [2.0] * 5, 3)))
    await archived.archived_to(position)
    async with archived.stub(service) as stub:

        async def lengths(attempt: int) -> list[tuple[int, int]]:
            ask = wire.GetEpisodeRequest(run_id=run_id, episode_id="0-0", attempt=attempt)
            found = await stub.GetEpisode(ask)
            return [(found.entry.attempt, block.count) for block in found.blocks]

        assert await lengths(1) == [(1, 3)]
        assert (2, 5) in await lengths(2)


ABSURD: list[tuple[str, Any]] = [
    ("QueryMetrics", {"names": ["a"], "from": math.nan}),
    ("QueryMetrics", {"names": ["a"], "from": 2.0, "to": 1.0}),
    ("QueryMetrics", {"names": ["a"], "max_points": (1 << 32) - 1}),
    ("QueryMetrics", {"names": ["a"], "axis": 99}),
    ("RecentMetrics", {"count": (1 << 32) - 1}),
    ("ListEpisodes", {"page_size": (1 << 32) - 1}),
    ("ListEpisodes", {"page_token": "9" * 5000}),
    ("ListEpisodes", {"page_token": "²"}),
    ("GetEpisode", {}),
    ("SearchLogs", {"text": "a" * 100_000}),
    ("SearchLogs", {"text": "(?=a)", "regular_expression": True}),
    ("SearchLogs", {"text": "a{1000000}", "regular_expression": True}),
    ("Sql", {"query": "SELECT " + "(" * 200_000}),
    ("Sql", {"query": "SELECT 1", "max_rows": (1 << 32) - 1}),
    ("StreamSteps", {"run_id": "../../etc"}),
    ("StreamSteps", {"run_id": "a.*.>"}),
]
HARMLESS: list[tuple[str, Any]] = [
    ("QueryMetrics", {"names": ["a"], "from": -1.8e308, "to": 1.7e308}),
    ("QueryMetrics", {"names": ["no such series"]}),
    ("ListEpisodes", {"page_token": "9" * 18}),
    ("StreamLogs", {"after": (1 << 64) - 1}),
    ("StreamSteps", {"after": (1 << 64) - 1}),
    ("SearchLogs", {"text": "(a+)+$", "regular_expression": True}),
]


async def test_absurd_questions_are_refused_by_field_or_answered_at_once(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start()
    point = wire.MetricBlock(name="a", values=[1.0], steps=[1], at=[1])
    line = wire.LogLine(number=1, text="a" * 100_000 + "b")
    await archived.emit(run_id, metrics=wire.MetricBatch(blocks=[point]))
    await archived.archived_to(await archived.emit(run_id, logs=wire.LogBatch(lines=[line])))
    async with archived.stub(service) as stub:

        async def ask(method: str, fields: Any) -> Any:
            kind = {"StreamSteps": "StreamRequest"}.get(method, f"{method}Request")
            call = getattr(stub, method)(getattr(wire, kind)(**{"run_id": run_id, **fields}), timeout=120)
            return await (all_of(call) if hasattr(call, "__aiter__") else call)

        for method, fields in ABSURD:
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(method, fields)
            assert caught.value.code() == INVALID, f"{method} {str(fields)[:80]}: {caught.value.details()}"
        for method, fields in HARMLESS:
            await ask(method, fields)


async def test_s3_away_is_reported_as_unavailable(archived: Archived, s3_server: S3Server) -> None:
    run_id = await archived.rig.submit("true")
    writer = archived.start()
    position = await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0], 0)))
    await archived.trimmed_to(position)
    service = archived.start(RUNSPINE_S3_BUCKET="no-such-bucket")
    async with archived.stub(service) as stub:
        for call in (
            stub.QueryMetrics(wire.QueryMetricsRequest(run_id=run_id, names=["step/reward"])),
            stub.GetEpisode(wire.GetEpisodeRequest(run_id=run_id, episode_id="a")),
            all_of(stub.StreamSteps(wire.StreamRequest(run_id=run_id))),
            all_of(stub.Sql(wire.SqlRequest(run_id=run_id, query="SELECT * FROM steps"))),
        ):
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await call
            assert caught.value.code() == grpc.StatusCode.UNAVAILABLE, caught.value.details()
    assert writer.process.poll() is None
    await eventually(lambda: _alive(service), 5)


async def _alive(service: TelemetryProcess) -> bool:
    return service.process.poll() is None
