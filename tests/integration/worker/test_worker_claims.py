"""What may happen between an offer and a trainer, made to happen at the worst moment."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runspine.eventlog.subjects import attempts_subject
from runspine.runners import Launch, NotReadyError, Runner
from runspine.services.worker.artifacts.pending import PendingArtifacts
from runspine.services.worker.artifacts.uploads import Uploads
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.claim.capacity import CapacityPool, measure
from runspine.services.worker.claim.claim import Claim, Claimer
from runspine.services.worker.claim.offers import OfferLease, OfferQueue
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.facts.journal import Journal
from runspine.services.worker.process.sandbox import find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.storage.file_blobs import FileBlobs
from runspine.wire.v1.facts_pb2 import (
    NOT_STARTED,
    STOPPED,
    AttemptExited,
    AttemptStarted,
    Fact,
)
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.servers.nats import NatsServer
from tests.kit.worker import Rig

Meanwhile = Callable[[], Awaitable[None]]


class SlowRunner:
    """Its preflight takes just long enough for something else to happen."""

    def __init__(self, meanwhile: Meanwhile) -> None:
        self._meanwhile = meanwhile
        self._loop = asyncio.get_running_loop()

    def info(self) -> RunnerInfo:
        return RunnerInfo(name="script")

    def launch(self, spec: RunSpec, run_dir: Path, python: str) -> Launch:
        future = asyncio.run_coroutine_threadsafe(_run(self._meanwhile), self._loop)
        future.result(10)
        return Launch(["touch", str(run_dir / "ran")], run_dir)


async def _run(meanwhile: Meanwhile) -> None:
    await meanwhile()


@pytest.fixture
async def rig(nats_server: NatsServer, connect: Any, tmp_path: Path) -> Rig:
    mine = await connect("rig")
    rig = Rig(nats_server.url, tmp_path, mine.link, mine.publisher, mine.log)
    await rig.consumer(ack_wait=1)
    return rig


class Bench:
    """The parts of a worker, taken one by one."""

    def __init__(self, rig: Rig, runner: Runner) -> None:
        self.rig = rig
        self.settings = WorkerSettings(worker_id="w1", worker_dir=rig.folder / "w1")
        self.fact_writer = FactWriter(rig.log)
        self.offers = OfferQueue(rig.link, ["default"])
        self.journal = Journal(self.settings.worker_dir)
        self.blobs = blobs = FileBlobs(self.settings)
        self.spools = SpoolDirectory(self.settings.worker_dir, 64 << 20)
        precedence = Precedence(self.spools, self.fact_writer, "w1")
        self.uploads = Uploads(self.settings.worker_dir / "uploads", blobs, self.fact_writer, precedence)
        self.sandbox = find_sandbox("off", SandboxPolicy(self.settings.worker_dir))
        self.claimer = Claimer(
            self.settings,
            self.fact_writer,
            self.offers,
            self.journal,
            {"script": runner},
            capacity=CapacityPool(measure([]), []),
            blobs=blobs,
            uploads=self.uploads,
            sandbox=self.sandbox,
        )

    async def lease(self) -> OfferLease:
        return await asyncio.wait_for(self.offers.next(), 60)

    async def live(self, claim: Claim) -> None:
        attempt = Attempt(
            claim,
            self.settings,
            self.rig.link,
            self.rig.log,
            self.fact_writer,
            self.rig.publisher,
            self.spools,
            self.blobs,
            self.uploads,
            PendingArtifacts(self.settings.worker_dir / "announced", claim.entry.name),
            self.sandbox,
        )
        await asyncio.wait_for(attempt.run(), 60)


async def add(rig: Rig, run_id: str, fact: Fact) -> None:
    _, version = await rig.log.read(attempts_subject(run_id))
    await rig.log.append(attempts_subject(run_id), [fact], expected=version)


def ran(claim: Claim) -> bool:
    return (claim.prepared.run_dir / "ran").exists()


async def nothing() -> None:
    """The quiet case, to show that the runner of these tests does start."""


async def test_a_claim_without_trouble_runs(rig: Rig) -> None:
    bench = Bench(rig, SlowRunner(nothing))
    run_id = await rig.submit("x")
    claim = await bench.claimer.claim(await bench.lease())
    assert claim
    assert [entry.run_id for entry in bench.journal.entries()] == [run_id]
    await bench.live(claim)
    assert ran(claim)
    assert await rig.waiting_offers() == 0


async def test_a_cancel_between_claim_and_spawn_is_obeyed(rig: Rig) -> None:
    run_id = await rig.submit("x")
    bench = Bench(rig, SlowRunner(lambda: rig.cancel(run_id)))
    claim = await bench.claimer.claim(await bench.lease())
    assert claim
    await bench.live(claim)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.reason) == (STOPPED, "cancelled: enough")
    assert not ran(claim)


async def test_the_worker_that_starts_second_drops_the_offer(rig: Rig) -> None:
    run_id = await rig.submit("x")
    other = Fact(attempt_started=AttemptStarted(attempt=1, worker_id="w2"))
    bench = Bench(rig, SlowRunner(lambda: add(rig, run_id, other)))
    assert await bench.claimer.claim(await bench.lease()) is None
    assert bench.journal.entries() == []
    assert await rig.waiting_offers() == 0
    assert [fact.attempt_started.worker_id for fact in await rig.attempts(run_id)] == ["w2"]


async def test_the_same_offer_in_two_slots_of_one_worker_is_claimed_once(rig: Rig) -> None:
    run_id = await rig.submit("x", offers=2)
    bench = Bench(rig, SlowRunner(lambda: asyncio.sleep(0.2)))
    first, second = await bench.lease(), await bench.lease()
    claims = await asyncio.gather(bench.claimer.claim(first), bench.claimer.claim(second))
    assert [claim is not None for claim in claims] == [True, False]
    assert [entry.run_id for entry in bench.journal.entries()] == [run_id]
    assert await bench.claimer.claim(await bench.lease()) is None
    assert [entry.run_id for entry in bench.journal.entries()] == [run_id]
    assert await rig.waiting_offers() == 0


async def test_a_late_word_on_an_earlier_attempt_does_not_cost_the_next(rig: Rig) -> None:
    run_id = await rig.submit("x", offers=0)
    await add(rig, run_id, Fact(attempt_started=AttemptStarted(attempt=1, worker_id="w2")))
    await rig.requeue(run_id, 2)
    await rig.offer(run_id, 2)
    late = Fact(attempt_exited=AttemptExited(attempt=1, worker_id="w2"))
    bench = Bench(rig, SlowRunner(lambda: add(rig, run_id, late)))
    claim = await bench.claimer.claim(await bench.lease())
    assert claim
    assert claim.attempt == 2
    assert (await rig.attempts(run_id))[-1].attempt_started.worker_id == "w1"


async def test_an_offer_ahead_of_the_run_is_given_back_not_dropped(rig: Rig) -> None:
    run_id = await rig.submit("x", offers=0)
    await rig.offer(run_id, 2)
    bench = Bench(rig, SlowRunner(nothing))
    assert await bench.claimer.claim(await bench.lease()) is None
    assert await rig.waiting_offers() == 1
    await rig.requeue(run_id, 2)
    assert (await bench.claimer.claim(await bench.lease())) is not None


async def test_an_offer_that_cannot_be_read_is_taken_off_the_queue(rig: Rig) -> None:
    await rig.publisher.publish("work.default.50", b"\xff\xff", {})
    await rig.offer("../../etc", 1)
    run_id = await rig.submit("x")
    bench = Bench(rig, SlowRunner(nothing))
    assert (await bench.lease()).offer.run_id == run_id
    assert await rig.waiting_offers() == 1


@pytest.mark.alone
async def test_a_pull_that_is_given_up_strands_no_offer(rig: Rig) -> None:
    bench = Bench(rig, SlowRunner(nothing))
    for _ in range(5):
        waiting = asyncio.create_task(bench.offers.next())
        await asyncio.sleep(0.05)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
    run_id = await rig.submit("x")
    lease = await asyncio.wait_for(bench.offers.next(), 0.9)
    assert lease.offer.run_id == run_id


async def fail() -> None:
    raise KeyError("algo")


async def refuse() -> None:
    raise NotReadyError("torch is missing: pip install torch")


@pytest.mark.parametrize(
    ("meanwhile", "reason"),
    [
        (fail, "runner 'script' failed: KeyError: 'algo'"),
        (refuse, "torch is missing: pip install torch"),
    ],
)
async def test_a_runner_that_fails_ends_its_run_with_a_reason(
    rig: Rig, meanwhile: Meanwhile, reason: str
) -> None:
    bench = Bench(rig, SlowRunner(meanwhile))
    run_id = await rig.submit("x")
    claim = await bench.claimer.claim(await bench.lease())
    assert claim
    await bench.live(claim)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.reason) == (NOT_STARTED, reason)
