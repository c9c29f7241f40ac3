"""The telemetry service against a real nats-server: what it streams and when it stops."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import re
import subprocess
import sys
import time
import urllib.request
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import telemetry_subject
from runspine.wire.v1.facts_pb2 import Fact, RunCompleted, RunStarted
from runspine.wire.v1.telemetry_pb2 import Batch, LogBatch, LogLine, StreamLogsRequest, StreamLogsResponse
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from tests.kit.paths import ROOT
from tests.kit.servers.nats import NatsServer, free_port
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

TOKEN = "let-me-in"
EOF: Any = vars(grpc.aio)["EOF"]


@pytest.fixture
async def rig(nats_server: NatsServer, connect: Any, tmp_path: Path) -> Rig:
    mine = await connect("rig")
    return Rig(nats_server.url, tmp_path, mine.link, mine.publisher, mine.log)


@pytest.fixture
def metrics_port() -> int:
    return free_port()


@pytest.fixture
async def address(nats_server: NatsServer, rig: Rig, tmp_path: Path, metrics_port: int) -> AsyncIterator[str]:
    tokens = [{"name": "test", "sha256": hashlib.sha256(TOKEN.encode()).hexdigest(), "scope": "read"}]
    address, errors = f"127.0.0.1:{free_port()}", open_errors(tmp_path, tokens)
    process = subprocess.Popen(
        [sys.executable, "-m", "runspine.services.telemetry"],
        cwd=ROOT,
        env={
            **os.environ,
            "RUNSPINE_NATS_URL": nats_server.url,
            "RUNSPINE_GRPC_ADDRESS": address,
            "RUNSPINE_METRICS_ADDRESS": f"127.0.0.1:{metrics_port}",
            "RUNSPINE_TOKENS_FILE": str(tmp_path / "tokens.json"),
        },
        stderr=errors,
    )
    try:
        async with grpc.aio.insecure_channel(address) as channel:
            await asyncio.wait_for(channel.channel_ready(), 90)
        yield address
    finally:
        process.terminate()
        code = await asyncio.to_thread(process.wait, 60)
        errors.seek(0)
        text = errors.read().decode()
        errors.close()
    assert code == 0
    assert "Traceback" not in text, text


def open_errors(folder: Path, tokens: list[dict[str, str]]) -> Any:
    (folder / "tokens.json").write_text(json.dumps(tokens))
    return (folder / "telemetry.log").open("w+b")


class Caller:
    def __init__(self, address: str) -> None:
        self.channel = grpc.aio.insecure_channel(address)
        self._stub: Any = TelemetryServiceStub(self.channel)

    def stream(self, run_id: str, *, after: int = 0, follow: bool = False, token: str = TOKEN) -> Any:
        request = StreamLogsRequest(run_id=run_id, after=after, follow=follow)
        return self._stub.StreamLogs(request, metadata=[("authorization", f"Bearer {token}")])

    async def all(self, run_id: str, **how: Any) -> list[StreamLogsResponse]:
        return [answer async for answer in self.stream(run_id, **how)]


@pytest.fixture
async def caller(address: str) -> AsyncIterator[Caller]:
    caller = Caller(address)
    yield caller
    await caller.channel.close(None)


# The number of the last line of each batch, by run, attempt and batch: lines have no gaps.
LAST_LINE: dict[tuple[str, int, int], int] = {}


async def emit(rig: Rig, run_id: str, number: int, *texts: str, attempt: int = 1, again: int = 0) -> None:
    first = 1 + LAST_LINE.get((run_id, attempt, number - 1), 0)
    LAST_LINE[run_id, attempt, number] = first + len(texts) - 1
    lines = [LogLine(number=first + i, text=text) for i, text in enumerate(texts)]
    batch = Batch(run_id=run_id, attempt=attempt, number=number, logs=LogBatch(lines=lines))
    await rig.publisher.publish(
        telemetry_subject(run_id, attempt, "log"),
        batch.SerializeToString(),
        {MESSAGE_ID: f"{run_id}:{attempt}:{number}:{again}"},
    )


async def complete(rig: Rig, run_id: str) -> None:
    await rig.decide(
        run_id, Fact(run_started=RunStarted(attempt=1)), Fact(run_completed=RunCompleted(attempt=1))
    )


def texts(answers: list[StreamLogsResponse]) -> list[str]:
    return [line.text for answer in answers for line in answer.lines]


async def test_without_follow_the_stream_ends_with_what_there_is(rig: Rig, caller: Caller) -> None:
    run_id, other = await rig.submit("true"), await rig.submit("true")
    assert await caller.all(run_id) == []
    await emit(rig, run_id, 1, "one", "two")
    await emit(rig, other, 1, "not this")
    await emit(rig, run_id, 2, "three")
    await emit(rig, run_id, 1, "four", attempt=2)
    await emit(rig, other, 2, "nor this")
    answers = await caller.all(run_id)
    assert texts(answers) == ["one", "two", "three", "four"]
    assert [answer.attempt for answer in answers] == [1, 1, 2]


async def test_a_reader_resumes_after_a_position(rig: Rig, caller: Caller) -> None:
    run_id = await rig.submit("true")
    for number in range(1, 6):
        await emit(rig, run_id, number, f"line {number}")
    answers = await caller.all(run_id)
    later = await caller.all(run_id, after=answers[2].position)
    assert texts(later) == ["line 4", "line 5"]
    assert await caller.all(run_id, after=answers[-1].position) == []


async def test_a_batch_stored_twice_is_sent_once(rig: Rig, caller: Caller) -> None:
    run_id = await rig.submit("true")
    await emit(rig, run_id, 1, "a")
    await emit(rig, run_id, 2, "b")
    await emit(rig, run_id, 2, "b", again=1)
    await emit(rig, run_id, 3, "c")
    answers = await caller.all(run_id)
    assert texts(answers) == ["a", "b", "c"]
    assert texts(await caller.all(run_id, after=answers[1].position)) == ["c"]


@pytest.mark.alone
async def test_a_follower_gets_lines_as_they_come_and_ends_with_the_run(rig: Rig, caller: Caller) -> None:
    run_id = await rig.submit("true")
    await emit(rig, run_id, 1, "before")
    call = caller.stream(run_id, follow=True)
    assert texts([await asyncio.wait_for(call.read(), 60)]) == ["before"]
    began = time.monotonic()
    await emit(rig, run_id, 2, "live")
    assert texts([await asyncio.wait_for(call.read(), 60)]) == ["live"]
    assert time.monotonic() - began < 1
    await emit(rig, run_id, 3, "last")
    await complete(rig, run_id)
    assert texts([await asyncio.wait_for(call.read(), 60)]) == ["last"]
    assert await asyncio.wait_for(call.read(), 60) is EOF


async def test_following_a_run_that_has_ended_ends_at_once(rig: Rig, caller: Caller) -> None:
    silent, spoke = await rig.submit("true"), await rig.submit("true")
    await emit(rig, spoke, 1, "all of it")
    for run_id in (silent, spoke):
        await complete(rig, run_id)
    assert await asyncio.wait_for(caller.all(silent, follow=True), 60) == []
    assert texts(await asyncio.wait_for(caller.all(spoke, follow=True), 60)) == ["all of it"]


async def test_a_follower_outlives_the_server_it_reads_from(
    rig: Rig, caller: Caller, nats_server: NatsServer
) -> None:
    run_id = await rig.submit("true")
    await emit(rig, run_id, 1, "before")
    call = caller.stream(run_id, follow=True)
    assert texts([await asyncio.wait_for(call.read(), 60)]) == ["before"]
    nats_server.kill()
    nats_server.start()
    await emit(rig, run_id, 2, "after")
    assert texts([await asyncio.wait_for(call.read(), 60)]) == ["after"]
    await complete(rig, run_id)
    assert await asyncio.wait_for(call.read(), 60) is EOF


async def test_a_caller_that_leaves_leaves_nothing_behind(
    rig: Rig, caller: Caller, metrics_port: int
) -> None:
    run_id = await rig.submit("true")
    await emit(rig, run_id, 1, "one")
    call = caller.stream(run_id, follow=True)
    await call.read()
    assert await asyncio.to_thread(reading, metrics_port) == 1
    call.cancel()

    async def nobody() -> bool:
        return await asyncio.to_thread(reading, metrics_port) == 0

    await eventually(nobody)


def reading(metrics_port: int) -> float:
    """How many callers the service reports that it serves."""
    with urllib.request.urlopen(f"http://127.0.0.1:{metrics_port}/metrics", timeout=60) as answer:
        found = re.search(r"^runspine_telemetry_log_streams (.*)$", answer.read().decode(), re.M)
    assert found
    return float(found[1])


async def test_a_slow_reader_gets_everything(rig: Rig, caller: Caller) -> None:
    run_id = await rig.submit("true")
    for number in range(1, 61):
        await emit(rig, run_id, number, f"{number} " + "x" * 200_000)
    call = caller.stream(run_id)
    numbers = []
    while (answer := await asyncio.wait_for(call.read(), 60)) is not EOF:
        numbers.append(int(answer.lines[0].text.split()[0]))
        if len(numbers) in (1, 30):
            await asyncio.sleep(1)
    assert numbers == list(range(1, 61))


@pytest.mark.parametrize(
    ("run_id", "token", "code"),
    [
        ("01M7H50XCHG1SEHQTCNVR2S75Z", TOKEN, grpc.StatusCode.NOT_FOUND),
        ("not.a.token>", TOKEN, grpc.StatusCode.INVALID_ARGUMENT),
        ("01M7H50XCHG1SEHQTCNVR2S75Z", "wrong", grpc.StatusCode.UNAUTHENTICATED),
    ],
)
async def test_a_bad_request_gets_its_own_status(
    caller: Caller, run_id: str, token: str, code: grpc.StatusCode
) -> None:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await caller.all(run_id, token=token)
    assert caught.value.code() == code
