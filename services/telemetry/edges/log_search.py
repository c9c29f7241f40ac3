"""Search in a run's log lines for a text or a regular expression."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing

import pyarrow as pa
import pyarrow.compute as pc

from runspine.errors import Violation
from runspine.rpc.errors import InvalidInputError
from runspine.services.telemetry.edges.log_lines import LogReader
from runspine.wire.v1.telemetry_pb2 import LogLine, StreamLogsResponse


class LogSearch:
    """Searches the log lines of a run."""

    def __init__(self, lines: LogReader) -> None:
        self._lines = lines

    async def find(
        self, run_id: str, text: str, regular: bool, limit: int
    ) -> AsyncGenerator[StreamLogsResponse, None]:
        matching([], text, regular)
        async with aclosing(self._lines.read(run_id, 0, follow=False)) as arrivals:
            async for position, batch in arrivals:
                lines = matching(batch.logs.lines, text, regular)[:limit]
                if lines:
                    limit -= len(lines)
                    yield StreamLogsResponse(position=position, attempt=batch.attempt, lines=lines)
                if not limit:
                    return


def matching(lines: Sequence[LogLine], text: str, regular: bool) -> list[LogLine]:
    """Lines that match. RE2 runs in time linear in the text, whatever the expression."""
    texts = pa.array([line.text for line in lines], pa.string())
    try:
        found = (pc.match_substring_regex if regular else pc.match_substring)(texts, text)
    except pa.ArrowInvalid as error:
        raise InvalidInputError([Violation("text", f"not a regular expression: {error}")]) from error
    return [line for line, is_found in zip(lines, found.to_pylist(), strict=True) if is_found]
