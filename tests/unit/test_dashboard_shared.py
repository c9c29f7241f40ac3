"""The same question of many pages."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from runspine.errors import NotFound
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import RUNNING
from runspine.wire.v1.trainer_pb2 import RunSummary, WatchResponse
from services.dashboard.core.runbook import RunBook
from services.dashboard.edges.shared import (
    LEAST_SECONDS,
    LONGEST_SECONDS,
    STEADY_SECONDS,
    Held,
    Shared,
    is_good,
    rest_after,
)
from services.dashboard.pages.heart import SLOWEST, Pace
from tests.unit.test_dashboard import a_run


async def test_what_ten_pages_ask_at_once_is_asked_once() -> None:
    shared, asked = Shared(), []

    async def make() -> str:
        asked.append(1)
        await asyncio.sleep(0.01)
        return "answer"

    answers = await asyncio.gather(*(shared.get("question", 1, make) for _ in range(10)))
    assert answers == ["answer"] * 10
    assert len(asked) == 1


async def test_a_refusal_is_told_to_whoever_asked_and_is_not_kept() -> None:
    shared, answers = Shared(), iter([NotFound("not yet"), None])

    async def make() -> str:
        if error := next(answers):
            raise error
        return "answer"

    with pytest.raises(NotFound):
        await shared.get("question", 1, make)
    assert await shared.get("question", 1, make) == "answer"


def test_an_answer_is_good_until_its_run_changes_but_rests_as_long_as_it_was_dear() -> None:
    held = Held("answer", version=3, at=100.0, due=101.0)
    assert is_good(held, 3, 102.0)
    assert is_good(held, 4, 100.5)
    assert not is_good(held, 4, 101.5)
    assert not is_good(held, 3, 200.0)
    assert rest_after(0.001) == LEAST_SECONDS
    assert rest_after(0.1) == pytest.approx(4.0)
    assert rest_after(60.0) == LONGEST_SECONDS


async def test_what_stays_the_same_is_asked_for_less_and_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    now, answer, asked = 0.0, ["loss"], []
    monkeypatch.setattr("services.dashboard.edges.shared.time.monotonic", lambda: now)
    shared = Shared()

    async def make() -> list[str]:
        asked.append(now)
        return list(answer)

    for version in range(1000):
        now = version / 10
        await shared.get("names", version, make, steady=True)
    pauses = [round(later - earlier, 6) for earlier, later in pairwise(asked)]
    assert pauses == sorted(pauses)
    assert pauses[0] < 1.5
    assert max(pauses) == pytest.approx(STEADY_SECONDS, abs=0.2)
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
    monkeypatch.setattr("services.dashboard.pages.heart.time.monotonic", lambda: now["passed"])
    monkeypatch.setattr("services.dashboard.pages.heart.time.process_time", lambda: now["used"])
    pace = Pace()

    def after(used: float) -> float:
        now["passed"] += 2.0
        now["used"] += 2.0 * used
        return pace.stretch()

    assert after(0.05) == 1.0
    assert after(0.2) == pytest.approx(2.0)
    # At half the pace the budget is kept: it stays there.
    assert after(0.1) == pytest.approx(2.0)
    assert after(1.0) == SLOWEST
    assert after(0.001) == 1.0


def test_a_row_is_made_into_text_once_for_each_change() -> None:
    book = RunBook()
    book.take_summary(RunSummary(run=a_run(phase=RUNNING)))
    entry = book.get("r1")
    assert entry is not None
    first = entry.as_json()
    assert entry.as_json() is first
    book.take_watch(WatchResponse(run_id="r1", progress=Progress(step=7)))
    assert '"step":7' in entry.as_json()
