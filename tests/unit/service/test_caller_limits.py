"""Limits per caller: each error names the limit, the use and the remedy, and no caller harms another."""

from __future__ import annotations

import asyncio

import pytest

from runspine.eventlog import Recorded
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Version
from runspine.eventlog.subjects import RUNS
from runspine.rpc.call_rate import MAX_CALLERS, CallRate
from runspine.rpc.errors import LimitError
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.caller_limits import CallerLimits
from runspine.services.telemetry.edges.fair_slots import FairSlots
from runspine.wire.v1.facts_pb2 import Fact, RunCancelled, RunQueued, RunSubmitted
from runspine.wire.v1.run_pb2 import Worker
from runspine.wire.v1.spec_pb2 import RunSpec


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_caller_that_calls_too_often_is_refused_and_others_are_not() -> None:
    clock = Clock()
    rate = CallRate(10, clock)
    assert [rate.refusal("anna") for _ in range(20)] == [""] * 20
    text = rate.refusal("anna")
    assert "token 'anna' makes more than 10 calls a second" in text
    assert "RUNSPINE_MAX_CALLS_PER_SECOND" in text
    assert rate.refusal("ben") == ""
    clock.now += 0.1
    assert [bool(rate.refusal("anna")) for _ in range(2)] == [False, True]
    assert [CallRate(0, clock).refusal("anna") for _ in range(3)] == [""] * 3


def test_the_memory_of_callers_is_bounded() -> None:
    rate = CallRate(1, Clock())
    for number in range(MAX_CALLERS + 100):
        rate.refusal(str(number))
    assert len(rate._left) == MAX_CALLERS


class BoardOfRuns:
    """A board that is fed as the projector feeds it."""

    def __init__(self) -> None:
        self.board = Board()
        self._position = 0
        self._heads: dict[str, Version] = {}

    def append(self, run_id: str, *facts: Fact) -> None:
        self._position += 1
        subject, head = f"runs.{run_id}", self._heads.get(run_id, Version())
        data = seal(head, facts, run_id, "test")
        recorded = Recorded(RUNS, self._position, subject, data, digest_of(data), 0)
        self._heads[run_id] = recorded.version()
        self.board.apply(recorded)

    def submit(self, run_id: str, by: str, pool: str = "default") -> None:
        spec = RunSpec(runner="script", pool=pool)
        submitted = RunSubmitted(run_id=run_id, name=run_id, spec=spec, submitted_by=by)
        self.append(run_id, Fact(at=1, run_submitted=submitted), Fact(at=1, run_queued=RunQueued(attempt=1)))

    def cancel(self, run_id: str) -> None:
        self.append(run_id, Fact(at=2, run_cancelled=RunCancelled()))


def test_runs_in_flight_are_counted_by_who_submitted_them() -> None:
    runs, limits = BoardOfRuns(), CallerLimits(max_active_runs=2)
    for run_id in ("a", "b"):
        assert limits.active_problem(runs.board, "anna") == ""
        runs.submit(run_id, "anna")
    problem = limits.active_problem(runs.board, "anna")
    assert "token 'anna' has 2 runs that have not ended, and 2 are allowed" in problem
    assert "RUNSPINE_MAX_ACTIVE_RUNS" in problem
    assert limits.active_problem(runs.board, "ben") == ""
    runs.cancel("a")
    runs.cancel("a")
    assert limits.active_problem(runs.board, "anna") == ""
    restored = Board()
    restored.load(runs.board.dump())
    assert restored.active_by["anna"] == runs.board.active_by["anna"] == 1
    assert CallerLimits().active_problem(runs.board, "anna") == ""


def test_only_admins_make_new_pools_and_those_in_use_go_on() -> None:
    runs, limits = BoardOfRuns(), CallerLimits(pools=frozenset({"declared"}))
    runs.submit("a", "admin", pool="launched")
    runs.board.fleet.update(Worker(id="w", pools=["gpu"]))
    for pool in ("", "default", "declared", "launched", "gpu"):
        assert limits.pool_violations(runs.board, pool, "run") == []
    [violation] = limits.pool_violations(runs.board, "gpuu", "run")
    assert violation.field == "pool"
    assert "gpu" in violation.message
    assert "RUNSPINE_POOLS" in violation.message
    assert limits.pool_violations(runs.board, "gpuu", "admin") == []
    restored = Board()
    restored.load(runs.board.dump())
    assert limits.pool_violations(restored, "launched", "run") == []


async def held(slots: FairSlots, caller: str, order: list[str], until: asyncio.Event) -> None:
    async with slots.slot(caller):
        order.append(caller)
        await until.wait()


async def test_a_slow_query_of_one_caller_does_not_block_another() -> None:
    slots, order, until = FairSlots(2, 3), list[str](), asyncio.Event()
    slow = [asyncio.create_task(held(slots, "slow", order, until)) for _ in range(3)]
    await asyncio.sleep(0)
    other = asyncio.create_task(held(slots, "other", order, until))
    await asyncio.sleep(0.01)
    assert order == ["slow", "other"], "one slot each, although two of the first wait"
    extra = asyncio.create_task(held(slots, "slow", order, until))
    await asyncio.sleep(0.01)
    with pytest.raises(LimitError, match=r"3 queries of yours wait already, and 3 may.*RUNSPINE_SQL_WAITING"):
        async with slots.slot("slow"):
            pass
    until.set()
    await asyncio.gather(*slow, other, extra)
    assert (slots._free, dict(slots._held), dict(slots._waiting)) == (2, {}, {})


async def test_callers_take_turns_and_one_that_leaves_frees_its_place() -> None:
    slots, order, until = FairSlots(1, 10), list[str](), asyncio.Event()
    first = asyncio.create_task(held(slots, "a", order, until))
    await asyncio.sleep(0)
    later = [asyncio.create_task(held(slots, caller, order, until)) for caller in "aaabbc"]
    await asyncio.sleep(0)
    later[5].cancel()
    until.set()
    await asyncio.gather(first, *later, return_exceptions=True)
    assert order == ["a", "a", "b", "a", "b", "a"] or order == ["a", "b", "a", "b", "a", "a"]
    assert (slots._free, dict(slots._waiting)) == (1, {})
