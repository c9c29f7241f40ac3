"""Looks up the names in a spec, on a board that has read the log to its end."""

from __future__ import annotations

from collections.abc import Sequence

from runspine.errors import Violation
from runspine.eventlog import EventLog, UnknownOutcomeError
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import FACT_STREAMS
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.references import has_references, resolve_references
from runspine.wire.v1.spec_pb2 import RunSpec

CATCH_UP_SECONDS = 5.0


async def look_up_names(
    log: EventLog, projector: Projector, board: Board, given: RunSpec
) -> tuple[RunSpec, list[Violation]]:
    """The spec with its dataset and warm start looked up, and what is wrong with them.

    Raises UnknownOutcomeError while the board is behind the log: an older answer could be a wrong one.
    """
    if has_references(given):
        await catch_up(log, projector, FACT_STREAMS)
    return resolve_references(given, board)


async def catch_up(log: EventLog, projector: Projector, streams: Sequence[str]) -> None:
    """Wait briefly until the board has read these streams to their end. Raises UnknownOutcomeError."""
    for stream in streams:
        end = (await log.extent(stream)).last
        if not await projector.reached(stream, end, timeout=CATCH_UP_SECONDS):
            raise UnknownOutcomeError(
                f"names cannot be looked up yet: {stream} is read up to "
                f"{projector.cursors[stream].sequence:,} of {end:,}; try again in a moment"
            )
