"""How long a queued run rests before its next attempt."""

from __future__ import annotations

from runspine.domain.run.rest import rests
from runspine.wire.v1.run_pb2 import Run

DAY, NOW = 86_400_000_000, 1_000_000_000_000


def test_a_run_rests_until_its_time() -> None:
    run = Run(queued_at=NOW, not_before=NOW + 5)
    assert rests(run, NOW + 4)
    assert not rests(run, NOW + 5)


def test_a_clock_a_little_ahead_still_grants_the_rest() -> None:
    assert rests(Run(queued_at=NOW + 2_000_000, not_before=NOW + 7_000_000), NOW)


def test_a_run_queued_by_a_clock_that_was_a_day_ahead_does_not_rest_for_a_day() -> None:
    assert not rests(Run(queued_at=NOW + DAY, not_before=NOW + DAY + 5), NOW)
