"""SQL over a run's tables: what it may do, what it may not, and that its process never falls over."""

from __future__ import annotations

import asyncio
import os
import time
from typing import Any

import grpc
import pyarrow as pa
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived, step_batch, steps

# 200 and more show that none of them dies; CI asks fewer.
QUERIES = int(os.environ.get("RUNSPINE_TEST_QUERIES", "12"))
REFUSED = {grpc.StatusCode.INVALID_ARGUMENT, grpc.StatusCode.FAILED_PRECONDITION}


async def ask(stub: Any, run_id: str, query: str, **how: Any) -> list[dict[str, Any]]:
    call = stub.Sql(wire.SqlRequest(run_id=run_id, query=query, **how))
    data = b"".join([answer.arrow async for answer in call])
    return list(pa.ipc.open_stream(data).read_all().to_pylist())


@pytest.mark.timeout(900)
@pytest.mark.long
async def test_many_questions_at_once_are_all_answered(archived: Archived) -> None:
    """Children of a process with many threads, which a fork would have copied in any state."""
    run_id = await archived.rig.submit("true")
    service = archived.start()
    await archived.archived_to(await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0] * 1000, 0))))
    async with archived.stub(service) as stub:

        async def one(number: int) -> None:
            # Meanwhile the service archives, and what is asked grows.
            block = steps(f"b{number}", 0, [1.0] * 10, 1000 + number * 10)
            await archived.emit(run_id, steps=step_batch(block))
            query = f"SELECT count(*) n, sum(reward) r, {number} AS k FROM steps WHERE episode_id = 'a'"
            assert await ask(stub, run_id, query) == [{"n": 1000, "r": 1000.0, "k": number}]

        for start in range(0, QUERIES, 8):
            await asyncio.gather(*(one(n) for n in range(start, min(start + 8, QUERIES))))
        total = await ask(stub, run_id, "SELECT count(*) n FROM steps")
        assert total == [{"n": 1000 + 10 * QUERIES}]


async def test_a_query_is_ended_when_it_wants_too_much(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_SQL_SECONDS="4", RUNSPINE_SQL_MEMORY_MIB="64")
    await archived.archived_to(await archived.emit(run_id, steps=step_batch(steps("a", 0, [1.0], 0))))
    async with archived.stub(service) as stub:
        await ask(stub, run_id, "SELECT 1")
        before = service.rss_mib
        for query in (
            "SELECT sum(a.range * b.range) FROM range(1000000) a, range(1000000) b",
            "SELECT array_agg(range) FROM range(1000000000)",
            "SELECT " + "(" * 40_000 + "1" + ")" * 40_000,
        ):
            began = time.monotonic()
            with pytest.raises(grpc.aio.AioRpcError) as caught:
                await ask(stub, run_id, query)
            assert caught.value.code() in REFUSED, f"{query[:60]}: {caught.value.details()}"
            assert time.monotonic() - began < 60, query[:60]
        assert await ask(stub, run_id, "SELECT count(*) n FROM steps") == [{"n": 1}], (
            "and the next is answered"
        )
        assert service.rss_mib - before < 100
