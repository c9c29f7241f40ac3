"""Log lines by their numbers: from segments and from the stream, in order, whatever the order of arrival."""

from __future__ import annotations

from collections.abc import Iterable

import grpc
import pytest

from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.telemetry import Archived


def lines(numbers: Iterable[int]) -> wire.LogBatch:
    return wire.LogBatch(
        lines=[wire.LogLine(number=n, text=f"line {n}", source=wire.STDOUT) for n in numbers]
    )


async def test_a_range_is_read_from_the_archive_and_the_stream(archived: Archived) -> None:
    run_id = await archived.rig.submit("true")
    service = archived.start(RUNSPINE_INGEST_COMMIT_SECONDS="0.3")
    await archived.emit(run_id, logs=lines(range(1, 301)))
    # A batch that was lost on its way comes after a later one.
    await archived.emit(run_id, logs=lines(range(401, 501)), number=3)
    position = await archived.emit(run_id, logs=lines(range(301, 401)), number=2)
    await archived.archived_to(position)
    await archived.emit(run_id, logs=lines(range(501, 601)), number=4)

    async with archived.stub(service) as stub:

        async def read(first: int, count: int, attempt: int = 0) -> wire.ReadLogLinesResponse:
            request = wire.ReadLogLinesRequest(run_id=run_id, attempt=attempt, first=first, count=count)
            answer: wire.ReadLogLinesResponse = await stub.ReadLogLines(request)
            return answer

        for first, count in ((1, 10), (295, 20), (390, 20), (495, 20), (595, 20), (601, 5)):
            answer = await read(first, count)
            expected = list(range(first, min(601, first + count)))
            assert [line.number for line in answer.lines] == expected
            assert [line.text for line in answer.lines] == [f"line {n}" for n in expected]
            assert [(one.attempt, one.lines) for one in answer.attempts] == [(1, 600)]
        assert not (await read(1, 0)).lines
        assert not (await read(1, 10, attempt=7)).lines
        with pytest.raises(grpc.aio.AioRpcError, match="count"):
            await read(1, 1_000_000)
