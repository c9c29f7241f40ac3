"""Runs that have ended are kept packed, and nothing else about them differs."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.bench.fleet.boards import FilledBoard, run_id_of
from runspine.eventlog.subjects import ATTEMPTS, RUNS, attempts_subject, run_subject
from runspine.services.orchestrator.core import packed
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.listing import list_runs
from runspine.services.orchestrator.core.packed import PackedMessages
from runspine.services.orchestrator.core.wire_fields import field, fields
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    ArtifactProduced,
    AttemptExited,
    Fact,
    RunCompleted,
    RunLabelled,
)
from runspine.wire.v1.run_pb2 import COMPLETED, QUEUED, RUNNING, Run
from runspine.wire.v1.trainer_pb2 import ListRequest


def end(filled: FilledBoard, number: int) -> None:
    run_id = run_id_of(number)
    exited = AttemptExited(attempt=1, worker_id="w0", outcome=EXITED)
    filled.apply(ATTEMPTS, attempts_subject(run_id), Fact(at=5, attempt_exited=exited))
    filled.apply(RUNS, run_subject(run_id), Fact(at=6, run_completed=RunCompleted(attempt=1)))


def filled_board(monkeypatch: object, ended: int, more: int = 3) -> FilledBoard:
    monkeypatch.setattr(packed, "MAX_RECENT", 2)  # type: ignore[attr-defined]
    filled = FilledBoard(workers=1, running=ended, queued=more)
    for number in range(ended):
        end(filled, number)
    return filled


def held(board: Board) -> int:
    return sum(isinstance(kept, bytes) for kept in board.runs._kept.values())


def test_facts_about_an_ended_run_are_applied_to_it(monkeypatch: object) -> None:
    filled = filled_board(monkeypatch, ended=8)
    board, first = filled.board, run_id_of(0)
    assert held(board) == 6
    assert board.runs[first].phase == COMPLETED
    labelled = RunLabelled(labels={"kept": "yes"})
    filled.apply(RUNS, run_subject(first), Fact(at=7, run_labelled=labelled))
    produced = ArtifactProduced(attempt=1, kind="checkpoint", digest="d")
    filled.apply(ATTEMPTS, attempts_subject(first), Fact(at=8, artifact_produced=produced))
    for number in range(1, 4):
        filled.apply(RUNS, run_subject(run_id_of(number)), Fact(at=7, run_labelled=labelled))
    assert held(board) == 6
    assert dict(board.runs[first].labels) == {"kept": "yes"}
    [attempt] = board.attempts[first].attempts
    assert [artifact.digest for artifact in attempt.artifacts] == ["d"]
    assert list_runs(board, ListRequest(labels={"kept": "yes"})).total == 4


def test_a_board_with_packed_runs_is_restored_as_it_was(monkeypatch: object) -> None:
    board, restored = filled_board(monkeypatch, ended=8).board, Board()
    restored.load(board.dump())
    assert dict(restored.runs) == dict(board.runs)
    assert dict(restored.attempts) == dict(board.attempts)
    assert held(restored) == 8
    assert (restored.open, restored.underway, restored.ids) == (board.open, board.underway, board.ids)
    for request in (ListRequest(), ListRequest(phases=[COMPLETED]), ListRequest(name="RUN-1")):
        assert list_runs(restored, request) == list_runs(board, request)


def test_what_was_captured_does_not_change_with_the_board() -> None:
    filled = FilledBoard(queued=3)
    before, assemble = filled.board.dump(), filled.board.capture()
    filled.submit(9)
    filled.start(0, "w0")
    end(filled, 0)
    assert assemble() == before


def test_totals_are_those_of_the_pages() -> None:
    filled = FilledBoard(workers=1, running=7, queued=5)
    for number in range(4):
        end(filled, number)
    for request in (
        ListRequest(),
        ListRequest(phases=[COMPLETED]),
        ListRequest(phases=[QUEUED, COMPLETED, QUEUED]),
        ListRequest(runner="script"),
        ListRequest(runner="script", phases=[RUNNING]),
        ListRequest(env="none"),
        ListRequest(name="run-1"),
    ):
        page = list_runs(filled.board, request)
        assert page.total == len(page.runs), request
    assert list_runs(filled.board, ListRequest(phases=[QUEUED, COMPLETED])).total == 9


@given(st.lists(st.tuples(st.sampled_from("abcde"), st.integers(0, 5)), max_size=40))
@settings(max_examples=50)
def test_packed_messages_are_a_mapping(changes: list[tuple[str, int]]) -> None:
    packed_runs, plain = PackedMessages(Run.FromString), dict[str, Run]()
    for key, attempt in changes:
        run = packed_runs.edit(key)
        if run is None:
            run = packed_runs[key] = Run(id=key)
        run.attempt = attempt
        plain[key] = Run(id=key, attempt=attempt)
        if attempt % 2:
            packed_runs.pack(key)
        assert dict(packed_runs) == plain
        assert packed_runs.capture() == [(key, run.SerializeToString()) for key, run in plain.items()]


@given(st.lists(st.tuples(st.integers(1, 15), st.binary(max_size=300)), max_size=10))
def test_fields_are_read_as_they_were_written(written: list[tuple[int, bytes]]) -> None:
    assert list(fields(b"".join(field(number, data) for number, data in written))) == written
