"""A failing schedule is shrunk to what its failure needs."""

from __future__ import annotations

from tests.simulation.plan import Plan, parse_plan, shrink
from tests.simulation.swarm import Mix

PARTS = [f"f{number}" for number in range(7)] + [f"p1.{number}" for number in range(50)]


def test_only_what_a_failure_needs_is_left() -> None:
    needed = {"f3", "p1.7", "p1.41"}
    small = shrink(Plan("log", 9), PARTS, lambda plan: all(plan.has(part) for part in needed), 1000)
    assert small.only == frozenset(needed)


def test_a_failure_that_needs_another_timing_is_shrunk_with_it() -> None:
    def fails(plan: Plan) -> bool:
        return plan.has("f3") and (plan.only is None or plan.salt == 2)

    assert shrink(Plan("log", 9), PARTS, fails, 1000) == Plan("log", 9, 2, frozenset({"f3"}))


def test_a_failure_without_any_fault_or_call_is_shrunk_to_nothing() -> None:
    assert shrink(Plan("log", 9), PARTS, lambda _: True, 1000).only == frozenset()


def test_shrinking_ends_with_its_budget() -> None:
    runs: list[Plan] = []

    def fails(plan: Plan) -> bool:
        runs.append(plan)
        return False

    assert shrink(Plan("log", 9), PARTS, fails, 20) == Plan("log", 9)
    assert len(runs) <= 20


def test_a_plan_is_read_back_as_it_was_written() -> None:
    for plan in (
        Plan("log", 9),
        Plan("control", 4, 2, frozenset({"f0", "c.1"})),
        Plan("log", 1, 0, frozenset()),
    ):
        assert parse_plan(str(plan)) == plan


def test_schedules_are_short_and_long() -> None:
    short = sum(Plan("log", seed).short for seed in range(400))
    assert 300 < short < 370


def test_schedules_differ_in_the_kinds_of_faults_that_are_on() -> None:
    kinds = [*range(12), 3, 3]
    drawn = [Mix(Plan("log", seed)).faults(kinds) for seed in range(200)]
    assert all(drawn)
    assert all(3 not in some or some.count(3) == 3 for some in drawn)
    assert {len(set(some)) for some in drawn} >= {1, 4, 8, 12}
    assert drawn == [Mix(Plan("log", seed, salt=2)).faults(kinds) for seed in range(200)]


def test_faults_and_calls_do_not_depend_on_the_timing() -> None:
    assert Plan("log", 9).random("f0").random() == Plan("log", 9, 3).random("f0").random()
    assert Plan("log", 9).timing().random() != Plan("log", 9, 3).timing().random()
