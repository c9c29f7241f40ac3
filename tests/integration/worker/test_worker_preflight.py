"""A worker's answers to launch checks, over a real NATS server; the test plays the orchestrator."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from pathlib import Path

from nats.aio.msg import Msg

from runspine.eventlog.permissions import PREFLIGHT_REPLIES
from runspine.eventlog.subjects import preflight_subject
from runspine.services.worker.claim.preflight import MAX_CHECKS, MAX_WAITING
from runspine.wire.v1.preflight_pb2 import PreflightReply, PreflightRequest
from runspine.wire.v1.spec_pb2 import Dataset, RunSpec
from tests.kit.waiting import eventually
from tests.kit.worker import Rig
from tests.kit.worker_with_s3 import Bay

INBOX = f"{PREFLIGHT_REPLIES}.0123abcd"
SCRIPT = RunSpec(runner="script", command=["true"])


@contextlib.asynccontextmanager
async def replies(rig: Rig) -> AsyncIterator[asyncio.Queue[tuple[str, PreflightReply]]]:
    arrived: asyncio.Queue[tuple[str, PreflightReply]] = asyncio.Queue()

    async def keep(message: Msg) -> None:
        if message.headers is None:
            arrived.put_nowait((message.subject, PreflightReply.FromString(message.data)))

    subscription = await rig.link.client.subscribe(f"{INBOX}.*", cb=keep)
    yield arrived
    await subscription.unsubscribe()


async def ask(rig: Rig, spec: RunSpec, reply: str = f"{INBOX}.1") -> None:
    payload = PreflightRequest(spec=spec).SerializeToString()
    await rig.link.client.publish(preflight_subject("w1"), payload, reply=reply)


async def answer(rig: Rig, spec: RunSpec) -> PreflightReply:
    """The reply; asked again while the worker does not listen yet."""
    async with replies(rig) as arrived:

        async def first() -> PreflightReply | None:
            await ask(rig, spec)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(5):
                    return (await arrived.get())[1]
            return None

        return await eventually(first)


async def test_a_reply_goes_to_the_inbox_of_launch_checks_and_nowhere_else(rig: Rig) -> None:
    worker = rig.worker()
    await answer(rig, SCRIPT)
    seen: list[str] = []

    async def keep(message: Msg) -> None:
        if message.headers is None:
            seen.append(message.subject)

    others = ["attempts.forged", "workers.w1", "_INBOX_orchestrator.ask.0123.1", "_INBOX_dashboard.x.1"]
    others += [f"{PREFLIGHT_REPLIES}.a.b.c", f"{INBOX}.x", ""]
    subscriptions = [await rig.link.client.subscribe(each, cb=keep) for each in others if each]
    for subject in others:
        await ask(rig, SCRIPT, subject)
    await rig.link.client.publish(preflight_subject("w1"), b"\xff junk", reply=f"{INBOX}.9")
    # Requests are taken in order: after the answer to this one all before it were taken.
    assert list((await answer(rig, SCRIPT)).command)
    assert [subject for subject in seen if subject != "workers.w1"] == []
    for subscription in subscriptions:
        await subscription.unsubscribe()
    assert worker.process.poll() is None


async def test_more_checks_than_a_worker_takes_are_answered_as_unknown(rig: Rig, tmp_path: Path) -> None:
    rig.worker()
    await answer(rig, SCRIPT)
    # An env whose making takes a while keeps both places.
    (tmp_path / "slow_envs.py").write_text("import time; time.sleep(3)")
    slow = RunSpec(
        runner="builtin", algo="ppo", env="slow_envs:X-v0", variables={"PYTHONPATH": str(tmp_path)}
    )
    asked = MAX_CHECKS + MAX_WAITING + 5
    async with replies(rig) as arrived:
        for number in range(MAX_CHECKS):
            await ask(rig, slow, f"{INBOX}.{number}")
        for number in range(MAX_CHECKS, asked):
            await ask(rig, SCRIPT, f"{INBOX}.{number}")
        async with asyncio.timeout(120):
            found = dict([await arrived.get() for _ in range(asked)])
    busy = [each for each in found.values() if "busy" in each.unknown]
    assert len(busy) == 5
    assert len(found) == asked
    assert [len(each.problems) for each in found.values() if each.problems] == [1] * MAX_CHECKS


async def test_without_s3_a_dataset_is_not_known_and_the_rest_is(bay: Bay) -> None:
    bay.worker(RUNSPINE_S3_ENDPOINT="127.0.0.1:9")
    learner = RunSpec(
        runner="corl", algo="bc", env="Pendulum-v1", total_steps=1, dataset=Dataset(digest="ab" * 32)
    )
    found = await answer(bay, learner)
    assert "S3" in found.unknown
    assert not found.command
    assert (await answer(bay, SCRIPT)).command[0].endswith("true")


async def test_scratch_directories_of_a_killed_worker_are_removed(rig: Rig) -> None:
    left = rig.folder / "w1" / "preflight" / "left"
    left.mkdir(parents=True)
    rig.worker()
    await answer(rig, SCRIPT)
    assert not left.exists()
