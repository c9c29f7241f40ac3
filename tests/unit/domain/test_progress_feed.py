from __future__ import annotations

from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.indexes.progress_feed import ProgressFeed, ProgressReader
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import COMPLETED, QUEUED, RUNNING, AttemptBeat, Beat, Run


def board_with(**phases: int) -> Board:
    board = Board()
    for run_id, phase in phases.items():
        board.runs[run_id] = Run(id=run_id, phase=phase, attempt=1)  # type: ignore[arg-type]
        board.open.add(run_id)
        if phase == RUNNING:
            board.underway.add(run_id)
    return board


def beat(board: Board, run_id: str, step: int) -> None:
    attempt = AttemptBeat(run_id=run_id, attempt=1, progress=Progress(step=step))
    board.apply_heartbeat(Beat(worker_id="w", attempts=[attempt]), 1)


def steps(reader: ProgressReader, now: float) -> list[tuple[str, int]]:
    return [(each.run_id, each.progress.step) for each in reader.newest(now)]


def test_every_client_gets_the_runs_under_way_and_then_what_changes() -> None:
    board = board_with(a=RUNNING, b=RUNNING, c=QUEUED)
    beat(board, "a", 1)
    feed = ProgressFeed(board)
    one = feed.open()
    assert steps(one, 0.0) == [("a", 1), ("b", 0)]
    beat(board, "b", 5)
    other = feed.open()
    assert steps(one, 1.0) == [("b", 5)]
    assert steps(other, 1.0) == [("a", 1), ("b", 5)]
    beat(board, "b", 5)
    beat(board, "c", 9)
    assert steps(one, 2.0) == steps(other, 2.0) == []
    board.runs["a"].phase = COMPLETED
    beat(board, "a", 2)
    assert steps(one, 3.0) == []


def test_a_client_that_reads_late_gets_the_newest_of_each_run() -> None:
    board = board_with(a=RUNNING)
    feed = ProgressFeed(board)
    quick, slow = feed.open(), feed.open()
    steps(slow, 0.0)
    for step in range(1, 5):
        beat(board, "a", step)
        assert steps(quick, float(step)) == [("a", step)]
    assert steps(slow, 5.0) == [("a", 4)]


def test_without_clients_nothing_is_kept() -> None:
    board = board_with(a=RUNNING)
    feed = ProgressFeed(board)
    reader = feed.open()
    feed.close(reader)
    beat(board, "a", 1)
    again = feed.open()
    assert steps(again, 9.0) == [("a", 1)]
