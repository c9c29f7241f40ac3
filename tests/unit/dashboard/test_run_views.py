"""The list of runs as the page's client asks for it: filters, sorted views, pages."""

from __future__ import annotations

import asyncio
import time
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.errors import InvalidError
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.core.runs.columns import FIXED, column
from runspine.services.dashboard.core.runs.filters import Filter, parse_filter
from runspine.services.dashboard.core.runs.groups import Grouping
from runspine.services.dashboard.core.runs.sorted_blocks import SortedBlocks
from runspine.services.dashboard.core.runs.view import SortedRuns
from runspine.services.dashboard.edges.api.run_views import SharedViews
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, RUNNING, Run
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from runspine.wire.v1.trainer_pb2 import RunSummary

HOUR = 3_600_000_000


def run(number: int, **fields: Any) -> Run:
    rate = fields.pop("rate", None)
    spec = RunSpec(env=fields.pop("env", "CartPole-v1"), algo=fields.pop("algo", "ppo"), runner="builtin")
    if rate is not None:
        spec.params["learning_rate"].CopyFrom(Value(number=rate))
    phase = fields.pop("phase", COMPLETED)
    fields["submitted_at"] = number
    return Run(id=f"{number:026}", name=f"run-{number}", spec=spec, phase=phase, **fields)


def table_of(*runs: tuple[Run, float | None]) -> RunTable:
    table = RunTable()
    for one, value in runs:
        progress = Progress(mean_return=value) if value is not None else Progress()
        table.apply_summary(RunSummary(run=one, progress=progress))
    return table


@pytest.fixture
def table() -> RunTable:
    return table_of(
        (run(1, rate=1e-3, phase=FAILED, reason="out of memory", labels={"study": "lr"}), None),
        (run(2, rate=3e-4, algo="dqn", submitted_by="ada"), 250.0),
        (run(3, rate=1e-4, phase=RUNNING, env="LunarLander-v3"), 120.0),
        (run(4, started_at=HOUR, ended_at=3 * HOUR), 500.0),
    )


def matching(table: RunTable, text: str) -> list[int]:
    accepted = parse_filter(text, table.params, table.labels)
    return sorted(int(entry.run.id) for entry in table.entries() if accepted.accepts(entry))


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", [1, 2, 3, 4]),
        ("lr<1e-3 return>200", [2]),
        ("learning_rate<=0.001", [1, 2, 3]),
        ("params.learning_rate:3e-4", [2]),
        ("state:failed", [1]),
        ("state:failed,running", [1, 3]),
        ("state:active", [3]),
        ("-state:active return>=250", [2, 4]),
        ("env:cartpole*", [1, 2, 4]),
        ("lunar", [3]),
        ('"study=lr"', [1]),
        ("study:lr", [1]),
        ("study:", [2, 3, 4]),
        ("algo!=ppo", [2]),
        ("owner:ada", [2]),
        ("duration>1.5h", [4]),
        ("return>0.4k", [4]),
        ("user:ada status:completed", [2]),
    ],
)
def test_terms_of_a_filter_all_hold(table: RunTable, text: str, found: list[int]) -> None:
    assert matching(table, text) == found


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("retrun>200", "Did you mean 'return'"),
        ("lr<fast", "'fast' is no number"),
        ("submitted>yesterday", "is no number"),
        ("x" * 2000, "longer than"),
        ("a " * 40, "more than 32 terms"),
    ],
)
def test_a_filter_that_cannot_be_read_is_refused_with_its_reason(
    table: RunTable, text: str, reason: str
) -> None:
    with pytest.raises(InvalidError, match=reason):
        parse_filter(text, table.params, table.labels)


@given(st.text(max_size=60))
def test_any_line_is_a_filter_or_is_refused(text: str) -> None:
    try:
        found = parse_filter(text, {"lr"}, {"study"})
    except InvalidError:
        return
    for entry in table_of((run(1, rate=1.0), 5.0)).entries():
        assert found.accepts(entry) in (True, False)


@given(st.lists(st.integers(0, 3000), unique=True, max_size=3000), st.integers(0, 3000), st.integers(0, 400))
@settings(max_examples=30)
def test_sorted_blocks_are_a_sorted_list(keys: list[int], first: int, count: int) -> None:
    blocks = SortedBlocks()
    for key in keys:
        blocks.add(key)
    for key in keys[::3]:
        blocks.remove(key)
    expected = sorted(set(keys) - set(keys[::3]))
    assert list(blocks) == expected
    assert len(blocks) == len(expected)
    assert blocks.slice(first, count) == expected[first : first + count]


CHANGES = st.lists(
    st.tuples(st.integers(1, 40), st.none() | st.floats(-1e6, 1e6), st.sampled_from([FAILED, COMPLETED])),
    max_size=80,
)


@given(CHANGES, st.sampled_from(["return", "-return", "state", "-name", "-submitted"]), st.integers(0, 45))
@settings(max_examples=60)
def test_a_view_that_took_in_changes_is_the_list_sorted_again(
    changes: list[tuple[int, float | None, Any]], sort: str, first: int
) -> None:
    table, view = RunTable(), SortedRuns(parse_filter("state:failed"), sort)
    for number, value, phase in changes:
        summary = RunSummary(run=run(number, phase=phase))
        if value is not None:
            summary.progress.mean_return = value
        table.apply_summary(summary)
        view.apply(table.changed_since(view.version))
        view.version = table.version
    fresh = SortedRuns(parse_filter("state:failed"), sort)
    fresh.apply(list(table.entries()))
    found = view.ids(0, 100)
    assert found == fresh.ids(0, 100)
    assert view.ids(first, 7) == found[first : first + 7]
    read = column(sort.removeprefix("-"))
    assert read is not None
    values = [read.read(entry) for run_id in found if (entry := table.get(run_id)) is not None]
    known: list[Any] = [value for value in values if value is not None]
    assert known == sorted(known, reverse=sort.startswith("-"))
    assert values[len(known) :] == [None] * (len(values) - len(known))


def test_runs_without_a_value_come_last_in_both_directions(table: RunTable) -> None:
    for sort, order in (("return", [3, 2, 4, 1]), ("-return", [4, 2, 3, 1])):
        view = SortedRuns(Filter(), sort)
        view.apply(list(table.entries()))
        assert [int(one) for one in view.ids(0, 10)] == order


def test_groups_count_their_runs_and_state_best_and_mean(table: RunTable) -> None:
    grouping = Grouping(FIXED["algo"], FIXED["return"])
    grouping.take(table.entries())
    [ppo, dqn] = grouping.largest(10)
    assert (ppo.value, ppo.runs, ppo.active, ppo.failed, ppo.best, ppo.mean) == ("ppo", 3, 1, 1, 500.0, 310.0)
    assert (dqn.value, dqn.runs, dqn.best) == ("dqn", 1, 250.0)


@pytest.mark.alone
async def test_a_view_of_many_runs_is_built_while_others_have_their_turn() -> None:
    table = table_of(*((run(number, rate=number / 1e6), number % 997) for number in range(20_000)))
    held: list[float] = []

    async def another_visitor() -> None:
        while True:
            # CPU time of this thread: what others take from the machine is not counted.
            before = time.thread_time()
            await asyncio.sleep(0)
            held.append(time.thread_time() - before)

    other = asyncio.create_task(another_visitor())
    view = await SharedViews(table).get("lr<0.5 run", "-return")
    other.cancel()
    assert len(view) == 20_000
    assert len(held) > 5
    assert max(held) < 0.05


async def test_a_view_is_shared_and_takes_in_only_what_changed(table: RunTable) -> None:
    views = SharedViews(table)
    first = await views.get("state:completed", "-return")
    assert [int(one) for one in first.ids(0, 9)] == [4, 2]
    table.apply_summary(RunSummary(run=run(3, position=9), progress=Progress(mean_return=900.0)))
    second = await views.get(" state:completed ", "-return")
    assert second is first
    assert [int(one) for one in second.ids(0, 9)] == [3, 4, 2]
