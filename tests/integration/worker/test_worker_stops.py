"""Runs and workers that are stopped: cancelled, over a limit, superseded, terminated or killed."""

from __future__ import annotations

import asyncio
import os
import signal
import time

import pytest

from runspine.eventlog.subjects import worker_subject
from runspine.wire.v1.facts_pb2 import HANDED_BACK, LIMIT, LOST, STOPPED
from runspine.wire.v1.spec_pb2 import Limits
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually
from tests.kit.worker import FAMILY, Rig, all_gone, family, forgotten, is_alive, parent_of


async def test_a_run_cancelled_before_it_is_taken_never_starts(rig: Rig) -> None:
    run_id = await rig.python("open('ran', 'w')")
    await rig.cancel(run_id)
    rig.worker()

    async def none_left() -> bool:
        return await rig.waiting_offers() == 0

    await eventually(none_left)
    assert await rig.attempts(run_id) == []


@pytest.mark.alone
async def test_a_cancelled_run_is_stopped_with_all_its_children(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    await rig.cancel(run_id)
    await all_gone(pids, 5)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.reason) == (STOPPED, "cancelled: enough")


@pytest.mark.alone
async def test_a_deaf_trainer_is_killed_after_the_grace_of_its_spec(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "print('deaf', flush=True); time.sleep(600)",
        limits=Limits(grace_seconds=0.5),
    )

    async def deaf() -> bool:
        return await rig.texts(run_id) == ["deaf"]

    await eventually(deaf)
    began = time.monotonic()
    await rig.cancel(run_id)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.signal) == (STOPPED, signal.SIGKILL)
    assert 0.5 <= time.monotonic() - began < 4


async def test_a_run_over_its_time_limit_is_stopped(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.submit("sleep", "600", limits=Limits(wall_seconds=0.5))
    exited = await rig.exited(run_id)
    assert exited.outcome == LIMIT
    assert exited.reason.startswith("wall-clock limit of 0.5 s reached. Raise limits.wall_seconds")


async def test_a_killed_worker_leaves_no_trainer_and_its_restart_reports_lost(rig: Rig) -> None:
    worker = rig.worker(slots=1)
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    worker.kill()
    await all_gone(pids, 30)
    again = await rig.python("print('next')")
    rig.worker(slots=1)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.worker_id) == (LOST, "w1")
    assert exited.reason == "the worker was restarted; its trainer ended with it"
    assert (await rig.exited(again)).exit_code == 0
    lost, begun = (await rig.attempts(run_id))[-1], (await rig.started(again))
    assert lost.at <= begun.at


@pytest.mark.alone
async def test_a_terminated_worker_hands_its_runs_back(rig: Rig) -> None:
    worker = rig.worker()
    runs = [await rig.python(FAMILY), await rig.python(FAMILY)]
    pids = [pid for run_id in runs for pid in await family(rig, run_id)]
    began = time.monotonic()
    worker.term()
    await asyncio.sleep(0.1)
    worker.term()
    assert await asyncio.to_thread(worker.process.wait, 60) == 0
    assert time.monotonic() - began < 8
    assert not any(is_alive(pid) for pid in pids)
    for run_id in runs:
        assert (await rig.exited(run_id)).outcome == HANDED_BACK
    await forgotten(rig)
    assert (await rig.received(worker_subject("w1")))[-1].HasField("worker_offline")


async def test_a_terminated_worker_leaves_even_when_the_server_is_away(
    rig: Rig, nats_server: NatsServer
) -> None:
    worker = rig.worker(RUNSPINE_DRAIN_SECONDS="2")
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    nats_server.kill()
    worker.term()
    assert await asyncio.to_thread(worker.process.wait, 60) == 0
    assert not any(is_alive(pid) for pid in pids)
    nats_server.start()
    rig.worker()
    assert (await rig.exited(run_id)).outcome == LOST


async def test_an_attempt_that_was_superseded_is_stopped_and_reports_nothing_more(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    await rig.requeue(run_id, 2)
    await all_gone(pids, 30)
    await forgotten(rig)
    assert [fact.WhichOneof("kind") for fact in await rig.attempts(run_id)] == ["attempt_started"]


async def test_a_killed_reaper_costs_the_attempt_not_the_worker(rig: Rig) -> None:
    worker = rig.worker()
    run_id = await rig.python(FAMILY)
    pids = await family(rig, run_id)
    os.kill(parent_of(pids[0]), signal.SIGKILL)
    await all_gone(pids, 30)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.reason) == (
        LOST,
        "the trainer's reaper was killed, and the trainer with it",
    )
    assert worker.process.poll() is None
