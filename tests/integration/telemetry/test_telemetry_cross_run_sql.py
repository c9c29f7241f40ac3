"""SQL over many runs: their tables joined, what is superseded left out, and nothing else to be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import grpc
import pyarrow as pa
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.archive import episode, line, metric
from tests.kit.telemetry import Archived


async def ask(stub: Any, run_ids: Sequence[str], query: str, **more: Any) -> list[dict[str, Any]]:
    call = stub.Sql(wire.SqlRequest(run_ids=run_ids, query=query, **more))
    data = b"".join([answer.arrow async for answer in call])
    return list(pa.ipc.open_stream(data).read_all().to_pylist())


async def refusal(stub: Any, run_ids: Sequence[str], query: str, **more: Any) -> str:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await ask(stub, run_ids, query, **more)
    return f"{caught.value.code().name}: {caught.value.details()}"


async def test_the_tables_of_several_runs_are_joined(archived: Archived) -> None:
    one, two, bare = [await archived.rig.submit("true") for _ in range(3)]
    service = archived.start()
    for run_id in (one, two):
        await archived.attempt(run_id, 1)
    # The same rows in both runs: their segments have the same bytes.
    for run_id in (one, two):
        await archived.emit(run_id, metrics=metric("m", [1.0, 2.0, float("nan")]))
    await archived.emit(two, episodes=wire.EpisodeBatch(episodes=[episode("e", 3.5, 4, 2)]))
    await archived.archived_to(await archived.emit(one, logs=line("hällo")))
    # The second attempt of the second run supersedes what came after step 1.
    await archived.attempt(two, 2, resumed_at=1)
    await archived.emit(two, attempt=2, metrics=metric("m", [20.0], 2))
    async with archived.stub(service) as stub:
        totals = "SELECT run_id, count(*) n, sum(value) FILTER (NOT isnan(value)) s FROM metrics GROUP BY 1"
        sums = await ask(stub, [one, two, bare, one], f"{totals} ORDER BY s")
        assert sums == [{"run_id": one, "n": 3, "s": 3.0}, {"run_id": two, "n": 3, "s": 23.0}]
        joined = (
            "SELECT run_id, state, count(value) n FROM runs LEFT JOIN metrics USING (run_id) GROUP BY ALL"
        )
        assert {row["run_id"]: row["n"] for row in await ask(stub, [one, bare], joined)} == {one: 3, bare: 0}
        assert await ask(stub, [one, two], "SELECT run_id, text FROM logs") == [
            {"run_id": one, "text": "hällo"}
        ]
        assert await ask(stub, [one], "SELECT * FROM episodes") == []
        assert await ask(stub, [two], 'SELECT run_id, "return" r FROM EPISODES') == []
        assert await ask(stub, [one], "SELECT count(*) n FROM params, labels, artifacts") == [{"n": 0}]

        assert "INVALID_ARGUMENT" in await refusal(stub, [one], "DELETE FROM metrics")
        assert "INVALID_ARGUMENT" in await refusal(stub, [one], "SELECT * FROM read_text('/etc/passwd')")
        assert "run_ids[1]" in await refusal(stub, [one, "*"], "SELECT 1")
        assert "run_id" in await refusal(stub, [one], "SELECT 1", run_id=one)
        assert "NOT_FOUND" in await refusal(stub, [one, "01AAAAAAAAAAAAAAAAAAAAAAAA"], "SELECT * FROM runs")
