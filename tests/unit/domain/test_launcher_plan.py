"""Which runs get a worker of their own, and which workers are taken away."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.core.plan import MAX_PAUSE_SECONDS, LaunchHistory, pause_after, plan_launches
from runspine.services.launcher.core.runs import OpenRuns
from runspine.wire.v1.facts_pb2 import CANCELLED_BY_OPERATOR, EngineStop
from runspine.wire.v1.run_pb2 import QUEUED, RUNNING, Run

LIVE = (PlacementState.WAITING, PlacementState.RUNNING)


def run(name: str, attempt: int = 1, phase: int = QUEUED, priority: int = 50) -> Run:
    return Run(id=name, attempt=attempt, phase=phase, priority=priority)  # type: ignore[arg-type]


def placement(name: str, attempt: int = 1, state: PlacementState = PlacementState.RUNNING) -> Placement:
    return Placement(f"{name}-{attempt}", name, attempt, state)


def test_a_waiting_run_is_launched_once_and_not_beyond_the_limit() -> None:
    waiting = [run("a"), run("b"), run("c"), run("d")]
    history = LaunchHistory()
    placed = [placement("b", state=PlacementState.WAITING)]
    opened = {r.id: r for r in waiting}
    todo = plan_launches(waiting, opened, placed, history, limit=3, grace=60, now=0)
    assert [r.id for r in todo.launch] == ["a", "c"]
    assert todo.cancel == []


def test_a_run_whose_worker_vanished_before_it_began_is_launched_again_after_a_pause() -> None:
    history = LaunchHistory()
    history.note(("a", 1), 100.0)
    over = [placement("a", state=PlacementState.OVER)]
    early = plan_launches([run("a")], {"a": run("a")}, over, history, limit=3, grace=60, now=101)
    late = plan_launches([run("a")], {"a": run("a")}, over, history, limit=3, grace=60, now=106)
    assert (early.launch, [r.id for r in late.launch]) == ([], ["a"])


def test_pauses_grow_and_have_an_end() -> None:
    pauses = [pause_after(tries) for tries in range(1, 50)]
    assert pauses == sorted(pauses)
    assert pauses[-1] == MAX_PAUSE_SECONDS


def test_a_cancelled_run_loses_a_waiting_placement_at_once_and_a_working_one_after_its_grace() -> None:
    history = LaunchHistory()
    placements = [placement("gone", state=PlacementState.WAITING), placement("done")]
    first = plan_launches([], {}, placements, history, limit=3, grace=60, now=0)
    later = plan_launches([], {}, placements, history, limit=3, grace=60, now=61)
    assert [s.run_id for s in first.cancel] == ["gone"]
    assert [s.run_id for s in later.cancel] == ["gone", "done"]


def test_a_placement_of_a_superseded_attempt_is_cancelled() -> None:
    history = LaunchHistory()
    opened = {"a": run("a", attempt=2, phase=RUNNING)}
    todo = plan_launches(
        [],
        opened,
        [placement("a", 1, PlacementState.WAITING), placement("a", 2)],
        history,
        limit=3,
        grace=60,
        now=0,
    )
    assert [(s.run_id, s.attempt) for s in todo.cancel] == [("a", 1)]


states = st.sampled_from(list(PlacementState))
ids = st.sampled_from("abcd")


@given(
    st.lists(st.builds(run, ids, st.integers(1, 3)), unique_by=lambda r: r.id),
    st.lists(st.builds(placement, ids, st.integers(1, 3), states), unique_by=lambda s: s.name),
    st.integers(1, 4),
)
def test_no_attempt_ever_gets_a_second_live_placement_and_no_needed_placement_is_cancelled(
    waiting: list[Run], placements: list[Placement], limit: int
) -> None:
    opened = {r.id: r for r in waiting}
    todo = plan_launches(waiting, opened, placements, LaunchHistory(), limit=limit, grace=0, now=0)
    live = {(s.run_id, s.attempt) for s in placements if s.state in LIVE}
    assert not live & {(r.id, r.attempt) for r in todo.launch}
    assert not {(r.id, r.attempt) for r in waiting} & {
        (s.run_id, s.attempt) for s in todo.cancel if s.state in LIVE
    }
    assert len(todo.launch) <= max(0, limit - len(live))


def test_runs_wait_by_priority_and_only_until_somebody_has_begun_them() -> None:
    runs = OpenRuns()
    runs.open = {"a": run("a"), "b": run("b", priority=90), "c": run("c", phase=RUNNING)}
    assert [r.id for r in runs.waiting("default", 0)] == ["b", "a"]
    runs.started["b"] = 1
    assert [r.id for r in runs.waiting("default", 0)] == ["a"]
    assert runs.waiting("gpu", 0) == []


def requeued(name: str, attempt: int = 1) -> Placement:
    return placement(name, attempt, PlacementState.REQUEUED)


def test_a_requeued_placement_is_kept_for_its_run_and_cancelled_when_that_needs_none() -> None:
    history = LaunchHistory()
    run_a, run_b = run("a", attempt=2), run("b", attempt=2, phase=RUNNING)
    placed = [requeued("a"), requeued("b"), placement("b", attempt=2), requeued("gone")]
    todo = plan_launches([run_a], {"a": run_a, "b": run_b}, placed, history, limit=9, grace=60, now=0)
    assert [each.id for each in todo.launch] == ["a"]
    assert [(each.run_id, each.state) for each in todo.cancel] == [
        ("b", PlacementState.REQUEUED),
        ("gone", PlacementState.REQUEUED),
    ]


def test_a_run_whose_placement_an_operator_cancelled_is_not_launched_again() -> None:
    stop = EngineStop(cause=CANCELLED_BY_OPERATOR)
    cancelled = Placement("a-1", "a", 1, PlacementState.OVER, stop=stop, worker_id="w")
    waiting = [run("a"), run("b")]
    opened = {each.id: each for each in waiting}
    todo = plan_launches(waiting, opened, [cancelled], LaunchHistory(), limit=9, grace=60, now=0)
    assert [each.id for each in todo.launch] == ["b"]
