"""Queries that many pages share, and the pace at which pages refresh."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from runspine.errors import RunNotFoundError
from runspine.services.dashboard.core.run_table import RunTable
from runspine.services.dashboard.edges.shared_query import (
    MAX_HOLD_SECONDS,
    MAX_STEADY_HOLD_SECONDS,
    MIN_HOLD_SECONDS,
    SharedAnswer,
    SharedQuery,
    hold_seconds,
    is_fresh,
)
from runspine.services.dashboard.pages.elements.refresh import MAX_SLOWDOWN, RefreshPace
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import RUNNING
from runspine.wire.v1.trainer_pb2 import RunSummary, WatchResponse
from tests.kit.samples.runs import a_run


async def test_what_ten_pages_ask_at_once_is_asked_once() -> None:
    shared, asked = SharedQuery(), []

    async def make() -> str:
        asked.append(1)
        await asyncio.sleep(0.01)
        return "answer"

    answers = await asyncio.gather(*(shared.get("question", 1, make) for _ in range(10)))
    assert answers == ["answer"] * 10
    assert len(asked) == 1


async def test_an_error_goes_to_the_caller_and_is_not_cached() -> None:
    shared, answers = SharedQuery(), iter([RunNotFoundError("not yet"), None])

    async def make() -> str:
        if error := next(answers):
            raise error
        return "answer"

    with pytest.raises(RunNotFoundError):
        await shared.get("question", 1, make)
    assert await shared.get("question", 1, make) == "answer"


def test_an_answer_is_good_until_its_run_changes_but_rests_as_long_as_it_was_dear() -> None:
    held = SharedAnswer("answer", version=3, at=100.0, due=101.0)
    assert is_fresh(held, 3, 102.0)
    assert is_fresh(held, 4, 100.5)
    assert not is_fresh(held, 4, 101.5)
    assert not is_fresh(held, 3, 200.0)
    assert hold_seconds(0.001) == MIN_HOLD_SECONDS
    assert hold_seconds(0.1) == pytest.approx(4.0)
    assert hold_seconds(60.0) == MAX_HOLD_SECONDS


async def test_what_stays_the_same_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answer, asked = 0.0, ["loss"], []
    monkeypatch.setattr("runspine.services.dashboard.edges.shared_query.time.monotonic", lambda: now)
    shared = SharedQuery()

    async def make() -> list[str]:
        asked.append(now)
        return list(answer)

    for version in range(1000):
        now = version / 10
        await shared.get("names", version, make, steady=True)
    pauses = [round(later - earlier, 6) for earlier, later in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1.5
    assert max(pauses) == pytest.approx(MAX_STEADY_HOLD_SECONDS, abs=0.2)
    # Something new, and it is looked at closely again.
    answer.append("entropy")
    for version in range(1000, 1400):
        now = version / 10
        await shared.get("names", version, make, steady=True)
    assert await shared.get("names", 1400, make, steady=True) == ["loss", "entropy"]
    found = next(place for place, at in enumerate(asked) if at > 100)
    assert asked[found + 1] - asked[found] < 1.5


def test_the_beat_slows_down_with_what_pages_cost_and_never_stops(monkeypatch: pytest.MonkeyPatch) -> None:
    now = {"passed": 0.0, "used": 0.0}
    monkeypatch.setattr(
        "runspine.services.dashboard.pages.elements.refresh.time.monotonic", lambda: now["passed"]
    )
    monkeypatch.setattr(
        "runspine.services.dashboard.pages.elements.refresh.time.process_time", lambda: now["used"]
    )
    pace = RefreshPace()

    def after(used: float) -> float:
        now["passed"] += 2.0
        now["used"] += 2.0 * used
        return pace.stretch()

    assert after(0.05) == 1.0
    assert after(0.2) == pytest.approx(2.0)
    # At half the pace the budget is kept: it stays there.
    assert after(0.1) == pytest.approx(2.0)
    assert after(1.0) == MAX_SLOWDOWN
    assert after(0.001) == 1.0


def test_a_row_is_made_into_text_once_for_each_change() -> None:
    table = RunTable()
    table.apply_summary(RunSummary(run=a_run(phase=RUNNING)))
    entry = table.get("r1")
    assert entry is not None
    first = entry.as_json()
    assert entry.as_json() is first
    table.apply_watch(WatchResponse(run_id="r1", progress=Progress(step=7)))
    assert '"step":7' in entry.as_json()
