"""Lines of a run's logs that hold a text or match an expression."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from runspine.grpc_errors import InvalidInput
from runspine.wire.v1.telemetry_pb2 import LogLine, StreamLogsResponse
from services.telemetry.core.rows import LOGS
from services.telemetry.edges.batches import BatchReader


class _Flaw(NamedTuple):
    field: str
    message: str


class LogSearch:
    def __init__(self, batches: BatchReader) -> None:
        self._batches = batches

    async def find(
        self, run_id: str, text: str, regular: bool, limit: int
    ) -> AsyncGenerator[StreamLogsResponse, None]:
        matching([], text, regular)
        async with aclosing(self._batches.read(run_id, LOGS, 0, follow=False)) as reads:
            async for read in reads:
                lines = matching(read.arrival.batch.logs.lines, text, regular)[:limit]
                if lines:
                    limit -= len(lines)
                    yield StreamLogsResponse(
                        position=read.arrival.position, attempt=read.arrival.batch.attempt, lines=lines
                    )
                if not limit:
                    return


def matching(lines: Sequence[LogLine], text: str, regular: bool) -> list[LogLine]:
    """RE2 does the matching: no expression takes it longer than its text is long."""
    texts = pa.array([line.text for line in lines], pa.string())
    try:
        found = (pc.match_substring_regex if regular else pc.match_substring)(texts, text)
    except pa.ArrowInvalid as error:
        raise InvalidInput([_Flaw("text", f"not a regular expression: {error}")]) from error
    return [line for line, is_found in zip(lines, found.to_pylist(), strict=True) if is_found]
