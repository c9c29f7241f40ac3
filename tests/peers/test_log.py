"""Faults of other tools' journals and controllers, tried on our log."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.eventlog import Version
from runspine.eventlog.chain import ChainVerifier
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact, RunQueued
from runspine.wire.v1.run_pb2 import QUEUED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.servers.nats import NatsServer

Connect = Callable[..., Awaitable[Any]]
RUNS = 40


def submitted(service: Orchestrator, number: int) -> str:
    """Ask until somebody answers, under one key."""
    spec = RunSpec(runner="script", command=["true", str(number)])
    request = wire.SubmitRequest(spec=spec, idempotency_key=f"peer-{number}")
    deadline = time.monotonic() + 60
    while True:
        try:
            run_id: str = service.stub().Submit(request, timeout=10).run.id
            return run_id
        except (grpc.RpcError, AssertionError):
            assert time.monotonic() < deadline


@pytest.mark.long
async def test_runs_submitted_while_the_controller_is_killed_all_wait_and_none_fails(
    nats_server: NatsServer, connect: Connect, tmp_path: Path
) -> None:
    """skypilot#7707: jobs submitted while the API server restarted became FAILED_CONTROLLER."""
    with orchestrator(nats_server, tmp_path) as service:
        with ThreadPoolExecutor(4) as pool:
            asked = [pool.submit(submitted, service, number) for number in range(RUNS)]
            for done in (RUNS // 4, RUNS // 2):
                while sum(future.done() for future in asked) < done:
                    time.sleep(0.01)
                service.kill()
                service.start()
            ids = [future.result() for future in asked]
        listed = service.stub().List(wire.ListRequest(page_size=1000)).runs
    assert len(set(ids)) == RUNS
    assert {summary.run.id for summary in listed} == set(ids)
    assert {summary.run.phase for summary in listed} == {QUEUED}


async def test_zeros_in_a_stored_block_are_named_and_the_log_opens_all_the_same(
    connect: Connect, nats_server: NatsServer
) -> None:
    """HyperQueue#1059: blocks of zeros in the journal kept the server from ever starting again."""
    client = await connect("writer")
    version = Version()
    for number in range(200):
        fact = Fact(at=number + 1, run_queued=RunQueued(attempt=number + 1))
        version = await client.log.append("runs.r1", [fact], expected=version)
    head = [recorded async for recorded in client.log.follow("RUNS", live=False)][-1]
    nats_server.stop()
    block = next(nats_server.store.glob("**/streams/RUNS/msgs/1.blk"))
    data = bytearray(block.read_bytes())
    middle = len(data) // 2
    data[middle : middle + 8192] = bytes(min(8192, len(data) - middle))
    block.write_bytes(data)
    nats_server.start()
    verifier, read = ChainVerifier("RUNS", witnesses={head.sequence: head.digest}), 0
    async for recorded in client.log.follow("RUNS", live=False):
        verifier.feed(recorded.sequence, recorded.subject, recorded.data, recorded.digest)
        read += 1
    found_problems = [str(problem) for problem in verifier.finish((await client.log.extent("RUNS")).last)]
    assert read > 0, "what lies before the damage can still be read"
    assert found_problems, "damage must not go unseen"
    assert found_problems[0].startswith("RUNS ")
