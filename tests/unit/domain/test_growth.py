"""The cost of an event does not grow with the fleet: CPU time, compared within one process."""

from __future__ import annotations

import pytest

from runspine.bench.fleet import answers
from runspine.bench.fleet.answers import measure_heartbeat, measure_queue, measure_submit

# A fold over everything costs fifty times as much at fifty times the size.
MAX_GROWTH = 5.0
SMALL, LARGE = 20, 1_000


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "MIN_SECONDS", 0.02)


@pytest.mark.parametrize("measure", [measure_submit, measure_heartbeat, measure_queue])
def test_an_event_costs_the_same_in_a_fleet_that_is_fifty_times_as_large(measure: object) -> None:
    assert callable(measure)
    (_, small), (fold, large) = measure(SMALL), measure(LARGE)
    assert large < small * MAX_GROWTH
    if fold is not None:
        assert large * 5 < fold
