"""Streams of facts from a position for watching clients, with progress in between."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import aclosing

from runspine.domain.run import ENDED, fold
from runspine.eventlog import EventLog, Recorded, UnknownOutcomeError
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import (
    ARTIFACTS,
    ATTEMPTS,
    RUNS,
    artifacts_subject,
    attempts_subject,
    run_subject,
)
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.indexes.progress_feed import (
    PROGRESS_SECONDS,
    ProgressFeed,
    ProgressReader,
)
from runspine.services.orchestrator.edges.arrivals import Arrivals, WatchedStream
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.trainer_pb2 import WatchResponse

BOARD_TIMEOUT_SECONDS = 30.0
# Streams that a client may watch in addition to RUNS, and the subject of a run on each.
MORE_STREAMS = {ARTIFACTS: artifacts_subject, ATTEMPTS: attempts_subject}


def more_streams(
    names: Sequence[str], positions: Mapping[str, int], run_id: str = ""
) -> tuple[WatchedStream, ...]:
    """The streams that a request names: of one run, or all of them."""
    return tuple(
        WatchedStream(name, MORE_STREAMS[name](run_id) if run_id else "", positions.get(name, 0))
        for name in dict.fromkeys(names)
    )


async def watch_run(
    log: EventLog,
    board: Board,
    projector: Projector,
    run_id: str,
    after: int,
    until_end: bool,
    more: Sequence[WatchedStream] = (),
) -> AsyncIterator[WatchResponse]:
    """The facts of one run, each commit with the run as it was after it."""
    run = Run(id=run_id)
    loop = asyncio.get_running_loop()
    sent = b""
    reached = {source.stream: source.after for source in more}
    async with Arrivals(log, [WatchedStream(RUNS, run_subject(run_id)), *more]) as arrivals:
        while not (until_end and run.phase in ENDED):
            recorded = await arrivals.next(loop.time() + PROGRESS_SECONDS)
            if recorded is not None and not await _is_accepted(projector, recorded):
                continue
            if recorded is None:
                response = WatchResponse(position=run.position, run_id=run_id, progress=board.progress(run))
                progress = response.progress.SerializeToString()
                if progress != sent and run.position:
                    sent = progress
                    yield response
            elif recorded.stream in reached:
                reached[recorded.stream] = recorded.sequence
                yield _other_event(recorded, board)
            else:
                run = fold(recorded.commit.facts, run)
                run.position = recorded.sequence
                if recorded.sequence > after:
                    yield _event(recorded, run, board)
    # What the other streams hold now belongs to the run as well.
    for source in more:
        rest = log.follow(source.stream, after=reached[source.stream], subject=source.subject, live=False)
        async with aclosing(rest):
            async for recorded in rest:
                if await _is_accepted(projector, recorded):
                    yield _other_event(recorded, board)


async def watch_all(
    log: EventLog,
    board: Board,
    projector: Projector,
    after: int,
    progress: ProgressFeed | None,
    more: Sequence[WatchedStream] = (),
) -> AsyncIterator[WatchResponse]:
    """The facts of every run after a position, each commit with the run as it was after it or later; with a
    feed, also progress."""
    loop = asyncio.get_running_loop()
    async with Arrivals(log, [WatchedStream(RUNS, "runs.*", after), *more]) as arrivals:
        with _reading(progress) as reader:
            due = loop.time() + PROGRESS_SECONDS
            while True:
                recorded = await arrivals.next(due)
                if loop.time() >= due:
                    due = loop.time() + PROGRESS_SECONDS
                    for response in reader.newest(loop.time()) if reader else ():
                        yield response
                if recorded is None or not await _is_accepted(projector, recorded):
                    continue
                if recorded.stream == RUNS:
                    yield _event(recorded, board.runs[recorded.subject.partition(".")[2]], board)
                else:
                    yield _other_event(recorded, board)


@contextlib.contextmanager
def _reading(feed: ProgressFeed | None) -> Iterator[ProgressReader | None]:
    if feed is None:
        yield None
        return
    reader = feed.open()
    try:
        yield reader
    finally:
        feed.close(reader)


async def _is_accepted(projector: Projector, recorded: Recorded) -> bool:
    """Whether the message is a commit that counts, once the board, which follows the log independently, has
    reached it."""
    if not await projector.reached(recorded.stream, recorded.sequence, BOARD_TIMEOUT_SECONDS):
        raise UnknownOutcomeError(f"the board is more than {BOARD_TIMEOUT_SECONDS:.0f} s behind the log")
    return not projector.admission.rejected(recorded)


def _event(recorded: Recorded, run: Run, board: Board) -> WatchResponse:
    return WatchResponse(
        position=recorded.sequence,
        run_id=run.id,
        facts=recorded.commit.facts,
        run=run,
        progress=board.progress(run),
    )


def _other_event(recorded: Recorded, board: Board) -> WatchResponse:
    """Facts of a stream other than RUNS; with the run where the subject is one's."""
    run = board.runs.get(recorded.subject.partition(".")[2])
    return WatchResponse(
        position=recorded.sequence,
        run_id=run.id if run is not None else "",
        facts=recorded.commit.facts,
        run=run,
        stream=recorded.stream,
        subject=recorded.subject,
    )
