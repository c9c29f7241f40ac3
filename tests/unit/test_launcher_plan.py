"""Which runs get a worker of their own, and which workers are taken away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.wire.v1.run_pb2 import QUEUED, RUNNING, Run
from services.launcher.core.plan import LONGEST_PAUSE, Memory, pause_after, plan
from services.launcher.core.runs import Runs
from services.launcher.core.seats import Seat, State


def run(name: str, attempt: int = 1, phase: int = QUEUED, priority: int = 50) -> Run:
    return Run(id=name, attempt=attempt, phase=phase, priority=priority)


def seat(name: str, attempt: int = 1, state: State = State.RUNNING) -> Seat:
    return Seat(f"{name}-{attempt}", name, attempt, state)


def test_a_waiting_run_is_launched_once_and_not_beyond_the_limit() -> None:
    waiting = [run("a"), run("b"), run("c"), run("d")]
    memory = Memory()
    todo = plan(waiting, {r.id: r for r in waiting}, [seat("b", state=State.WAITING)], memory,
                limit=3, grace=60, now=0)  # fmt: skip
    assert [r.id for r in todo.launch] == ["a", "c"]
    assert todo.cancel == []


def test_a_run_whose_worker_vanished_before_it_began_is_launched_again_after_a_pause() -> None:
    memory = Memory()
    memory.note(("a", 1), 100.0)
    over = [seat("a", state=State.OVER)]
    early = plan([run("a")], {"a": run("a")}, over, memory, limit=3, grace=60, now=101)
    late = plan([run("a")], {"a": run("a")}, over, memory, limit=3, grace=60, now=106)
    assert (early.launch, [r.id for r in late.launch]) == ([], ["a"])


def test_pauses_grow_and_have_an_end() -> None:
    pauses = [pause_after(tries) for tries in range(1, 50)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LONGEST_PAUSE


def test_a_cancelled_run_loses_a_seat_that_waits_at_once_and_one_that_works_after_its_grace() -> None:
    memory = Memory()
    seats = [seat("gone", state=State.WAITING), seat("done")]
    first = plan([], {}, seats, memory, limit=3, grace=60, now=0)
    later = plan([], {}, seats, memory, limit=3, grace=60, now=61)
    assert [s.run_id for s in first.cancel] == ["gone"]
    assert [s.run_id for s in later.cancel] == ["gone", "done"]


def test_a_seat_of_an_attempt_that_was_overtaken_is_taken_away() -> None:
    memory = Memory()
    opened = {"a": run("a", attempt=2, phase=RUNNING)}
    todo = plan([], opened, [seat("a", 1, State.WAITING), seat("a", 2)], memory, limit=3, grace=60, now=0)
    assert [(s.run_id, s.attempt) for s in todo.cancel] == [("a", 1)]


states = st.sampled_from(list(State))
ids = st.sampled_from("abcd")


@given(
    st.lists(st.builds(run, ids, st.integers(1, 3)), unique_by=lambda r: r.id),
    st.lists(st.builds(seat, ids, st.integers(1, 3), states), unique_by=lambda s: s.name),
    st.integers(1, 4),
)
def test_no_attempt_ever_gets_a_second_live_seat_and_no_needed_seat_is_cancelled(
    waiting: list[Run], seats: list[Seat], limit: int
) -> None:
    opened = {r.id: r for r in waiting}
    todo = plan(waiting, opened, seats, Memory(), limit=limit, grace=0, now=0)
    live = {(s.run_id, s.attempt) for s in seats if s.state is not State.OVER}
    assert not live & {(r.id, r.attempt) for r in todo.launch}
    assert not {(r.id, r.attempt) for r in waiting} & {(s.run_id, s.attempt) for s in todo.cancel}
    assert len(todo.launch) <= max(0, limit - len(live))


def test_runs_wait_by_priority_and_only_until_somebody_has_begun_them() -> None:
    runs = Runs()
    runs.open = {"a": run("a"), "b": run("b", priority=90), "c": run("c", phase=RUNNING)}
    assert [r.id for r in runs.waiting("default", 0)] == ["b", "a"]
    runs.begun["b"] = 1
    assert [r.id for r in runs.waiting("default", 0)] == ["a"]
    assert runs.waiting("gpu", 0) == []
