"""Log lines come in their order, and a reader that resumes misses none, however batches were resent."""

from __future__ import annotations

import random

import hypothesis.strategies as st
from hypothesis import given

from runspine.services.telemetry.core.line_order import MAX_AHEAD, LineOrder
from runspine.services.telemetry.core.rows import Arrival
from runspine.wire.v1.telemetry_pb2 import Batch, LogBatch, LogLine


def arrival(position: int, first: int, count: int = 10, attempt: int = 1) -> Arrival:
    lines = [LogLine(number=number) for number in range(first, first + count)]
    return Arrival(position, Batch(attempt=attempt, logs=LogBatch(lines=lines)))


def numbers(arrivals: list[Arrival]) -> list[tuple[int, int]]:
    return [(each.batch.attempt, line.number) for each in arrivals for line in each.batch.logs.lines]


def stored(seed: int, batches: int, attempts: int = 1) -> list[Arrival]:
    """Batches of attempts as a worker ships them: each may be stored up to MAX_AHEAD - 1 too late."""
    chance = random.Random(seed)
    order: list[tuple[int, int]] = []
    for attempt in range(1, attempts + 1):
        keyed = [
            (n + (chance.randrange(MAX_AHEAD) if chance.random() < 0.2 else 0), n) for n in range(batches)
        ]
        order += [(attempt, n) for _, n in sorted(keyed)]
    return [arrival(position, 1 + 3 * n, 3, attempt) for position, (attempt, n) in enumerate(order, start=1)]


def read(arrivals: list[Arrival], after: int = 0, most: int = 1 << 30) -> list[Arrival]:
    """What a caller receives, up to `most` messages."""
    order = LineOrder(after)
    received: list[Arrival] = []
    for each in arrivals:
        if each.position <= after:
            order.note(each)
        else:
            received += order.add(each)
    return [*received, *order.rest()][:most]


def test_a_resent_batch_comes_before_those_that_overtook_it() -> None:
    order = LineOrder()
    assert numbers(order.add(arrival(7, 51, 2))) == []
    assert numbers(order.add(arrival(8, 53, 1))) == []
    first, second, third = order.add(arrival(9, 1, 50))
    assert numbers([first, second, third]) == [(1, number) for number in range(1, 54)]
    # A caller that was cut off after the first message gets it again, and none is missing.
    assert [first.position, second.position, third.position] == [0, 0, 9]


def test_lines_in_order_are_not_held() -> None:
    order = LineOrder()
    assert [order.add(arrival(n, 1 + 10 * n))[0].position for n in range(3)] == [0, 1, 2]


def test_lines_that_do_not_exist_are_not_waited_for_longer_than_a_worker_is_ahead() -> None:
    order = LineOrder()
    received = [order.add(arrival(n, 100 + 10 * n)) for n in range(MAX_AHEAD + 1)]
    assert not any(received[:-1])
    assert len(received[-1]) == MAX_AHEAD + 1
    assert order.add(arrival(99, 100 + 10 * (MAX_AHEAD + 1)))


def test_what_is_held_comes_at_the_end_of_the_stream() -> None:
    order = LineOrder()
    assert not order.add(arrival(3, 20))
    assert numbers(order.rest())[0] == (1, 20)


@given(seed=st.integers(0, 10_000), attempts=st.integers(1, 3))
def test_every_line_comes_once_and_in_order(seed: int, attempts: int) -> None:
    found = numbers(read(stored(seed, 60, attempts)))
    assert found == [(attempt, n) for attempt in range(1, attempts + 1) for n in range(1, 181)]


@given(seed=st.integers(0, 10_000), cut=st.integers(0, 130), attempts=st.integers(1, 2))
def test_a_caller_that_resumes_misses_no_line_and_knows_which_come_again(
    seed: int, cut: int, attempts: int
) -> None:
    batches = stored(seed, 60, attempts)
    before = read(batches, most=cut)
    after = before[-1].position if before else 0
    # A message that does not advance the position comes again, unless a later one does.
    advancing = [n for n, each in enumerate(before) if each.position > (before[n - 1].position if n else 0)]
    closed = before[: advancing[-1] + 1] if advancing else []
    later = read(batches, after)
    found = numbers(later)
    assert numbers(closed) + found == [(a, n) for a in range(1, attempts + 1) for n in range(1, 181)]
