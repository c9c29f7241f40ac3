"""Streams of facts to whoever watches, exact and from a position; progress in between."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

from runspine.log import EventLog, Recorded, Unknown
from runspine.log.subjects import RUNS, run_subject
from runspine.run import ENDED, UNDERWAY, fold
from runspine.tasks import put_down
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import WatchResponse
from services.orchestrator.core.board import Board

PROGRESS_EVERY = 0.5
BOARD_LOOK, BOARD_PATIENCE = 0.01, 30.0


async def watch_run(
    log: EventLog, board: Board, run_id: str, after: int, until_end: bool
) -> AsyncIterator[WatchResponse]:
    """One run's facts, each with the run as it was after them."""
    run = Run(id=run_id)
    arrived: asyncio.Queue[Recorded] = asyncio.Queue(maxsize=64)
    reader = asyncio.create_task(_feed(log, run_subject(run_id), arrived))
    said = b""
    try:
        while not (until_end and run.phase in ENDED):
            try:
                # Not wait_for: before Python 3.12 it may swallow a cancellation.
                async with asyncio.timeout(PROGRESS_EVERY):
                    recorded = await arrived.get()
            except TimeoutError:
                if reader.done():
                    reader.result()
                response = WatchResponse(position=run.position, run_id=run_id, progress=board.progress(run))
                news = response.progress.SerializeToString()
                if news != said and run.position:
                    said = news
                    yield response
                continue
            run = fold(recorded.commit.facts, run)
            run.position = recorded.sequence
            if recorded.sequence > after:
                yield _event(recorded, run, board)
    finally:
        await put_down(reader)


async def _feed(log: EventLog, subject: str, arrived: asyncio.Queue[Recorded], after: int = 0) -> None:
    async with aclosing(log.follow(RUNS, after=after, subject=subject)) as records:
        async for recorded in records:
            await arrived.put(recorded)


async def watch_all(log: EventLog, board: Board, after: int, progress: bool) -> AsyncIterator[WatchResponse]:
    """Every run's facts from a position on, each with the run as it was after them or later."""
    arrived: asyncio.Queue[Recorded] = asyncio.Queue(maxsize=64)
    reader = asyncio.create_task(_feed(log, "runs.*", arrived, after))
    news = _News(board)
    loop = asyncio.get_running_loop()
    due = loop.time() + PROGRESS_EVERY
    try:
        while True:
            try:
                async with asyncio.timeout_at(due):
                    recorded = await arrived.get()
            except TimeoutError:
                if reader.done():
                    reader.result()
                due = loop.time() + PROGRESS_EVERY
                for response in news.since_last() if progress else ():
                    yield response
                continue
            yield _event(recorded, await _caught_up(board, recorded), board)
    finally:
        await put_down(reader)


class _News:
    """Progress of runs under way, each only when it has changed."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._said: dict[str, bytes] = {}

    def since_last(self) -> list[WatchResponse]:
        said, found = {}, []
        for run_id in sorted(self._board.open):
            run = self._board.runs[run_id]
            if run.phase not in UNDERWAY:
                continue
            response = WatchResponse(run_id=run_id, progress=self._board.progress(run))
            said[run_id] = response.progress.SerializeToString()
            if said[run_id] != self._said.get(run_id):
                found.append(response)
        self._said = said
        return found


async def _caught_up(board: Board, recorded: Recorded) -> Run:
    """The run on the board, once the board has read as far: it follows the log beside this watch."""
    run_id = recorded.subject.partition(".")[2]
    for _ in range(int(BOARD_PATIENCE / BOARD_LOOK)):
        run = board.runs.get(run_id)
        if run is not None and run.position >= recorded.sequence:
            return run
        await asyncio.sleep(BOARD_LOOK)
    raise Unknown(f"the board is more than {BOARD_PATIENCE:.0f} s behind the log")


def _event(recorded: Recorded, run: Run, board: Board) -> WatchResponse:
    return WatchResponse(
        position=recorded.sequence,
        run_id=run.id,
        facts=recorded.commit.facts,
        run=run,
        progress=board.progress(run),
    )
