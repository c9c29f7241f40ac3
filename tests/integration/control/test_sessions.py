"""A session goes forward, and one damaged run stops no other (docs/consistency.md)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

import grpc
import pytest

from runspine.eventlog.api import ask
from runspine.eventlog.projection import Projector
from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.subjects import RUNS, run_subject
from runspine.notice.book import NoticeBook
from runspine.runners import installed_runners
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.leases import LeaseTimeouts
from runspine.services.orchestrator.edges.cache_requests import CacheRequests
from runspine.services.orchestrator.edges.launch_checks import LaunchChecks
from runspine.services.orchestrator.edges.notice_calls import NoticeCalls
from runspine.services.orchestrator.edges.offers import OfferStream
from runspine.services.orchestrator.edges.run_processes import RunProcesses
from runspine.services.orchestrator.edges.scheduler import Scheduler
from runspine.services.orchestrator.edges.trainer_service import TrainerCalls, TrainerServicer
from runspine.tasks import run_together
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, QUARANTINED, RUNNING
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub, add_TrainerServiceServicer_to_server
from tests.kit.orchestrator import Orchestrator
from tests.kit.played_worker import PlayedWorker, phase_is, spec, submit
from tests.kit.waiting import eventually

Connect = Callable[..., Awaitable[Any]]


@dataclass
class Served:
    """An orchestrator's calls without its loops: its board stands still until the test lets it follow."""

    stub: Any
    projector: Projector
    scheduler: Scheduler


@asynccontextmanager
async def serving(client: Any) -> AsyncIterator[Served]:
    board = Board()
    projector = Projector(client.log, None, board)
    offers = OfferStream(client.link, client.publisher, 30.0)
    scheduler = Scheduler(
        client.log, client.link, board, projector, offers, timeouts=LeaseTimeouts(60, 90), window=8
    )
    installed = {name: runner.info() for name, runner in installed_runners().items()}
    server = grpc.aio.server()
    checks, caches = (
        LaunchChecks(client.link, board),
        CacheRequests(client.link, client.log, board, projector),
    )
    book = NoticeBook()
    notices = NoticeCalls(client.log, book, Projector(client.log, None, book))
    servicer = TrainerServicer(
        TrainerCalls(
            client.log,
            board,
            projector,
            scheduler,
            installed,
            checks,
            caches,
            notices,
            RunProcesses(client.link),
        )
    )
    add_TrainerServiceServicer_to_server(servicer, server)
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield Served(TrainerServiceStub(channel), projector, scheduler)
    await server.stop(0)


async def test_an_orchestrator_that_lags_acknowledges_nothing_it_would_not_show(connect: Connect) -> None:
    async with serving(await connect("o1")) as served:
        request = wire.SubmitRequest(spec=spec(), idempotency_key="k")
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await served.stub.Submit(request)
        assert refused.value.code() == grpc.StatusCode.UNAVAILABLE
        assert "repeat the call" in str(refused.value.details())
        following = asyncio.create_task(served.projector.follow(RUNS))
        again = await served.stub.Submit(request)
        got = await served.stub.Get(wire.GetRequest(run_id=again.run.id))
        assert got.run.position >= again.run.position
        following.cancel()


async def test_the_reply_to_a_known_key_is_not_newer_than_the_next_get(connect: Connect) -> None:
    async with serving(await connect("o1")) as first, serving(await connect("o2")) as second:
        following = [asyncio.create_task(first.projector.follow(RUNS))]
        request = wire.SubmitRequest(spec=spec(), idempotency_key="k")
        run_id = (await first.stub.Submit(request)).run.id
        # The second orchestrator has read the submission and not what came after it.
        await second.projector.start()
        changed = await first.stub.SetPriority(wire.SetPriorityRequest(run_id=run_id, priority=77))
        assert changed.run.priority == 77
        asking = asyncio.ensure_future(second.stub.Submit(request))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        if not done:
            following.append(asyncio.create_task(second.projector.follow(RUNS)))
        shown = (await asking).run.priority
        got = await second.stub.Get(wire.GetRequest(run_id=run_id))
        assert (shown, got.run.priority) == (77, 77)
        for task in following:
            task.cancel()


async def test_a_refusal_is_not_newer_than_the_next_get(connect: Connect) -> None:
    async with serving(await connect("o1")) as first, serving(await connect("o2")) as second:
        following = [asyncio.create_task(first.projector.follow(RUNS))]
        run_id = (await first.stub.Submit(wire.SubmitRequest(spec=spec()))).run.id
        # The second orchestrator has read the submission and not the end.
        await second.projector.start()
        await first.stub.Cancel(wire.CancelRequest(run_id=run_id))
        request = wire.SetPriorityRequest(run_id=run_id, priority=77)
        asking = asyncio.ensure_future(second.stub.SetPriority(request))
        done, _ = await asyncio.wait([asking], timeout=0.3)
        if not done:
            following.append(asyncio.create_task(second.projector.follow(RUNS)))
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await asking
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        got = await second.stub.Get(wire.GetRequest(run_id=run_id))
        assert got.run.phase == CANCELLED
        for task in following:
            task.cancel()


async def test_a_run_with_a_damaged_history_is_quarantined_and_the_others_go_on(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    damaged, whole = submit(stub), submit(stub)
    stray = Commit(id="stray", number=99).SerializeToString()
    await worker.client.publisher.publish(run_subject(damaged.id), stray, {MESSAGE_ID: "stray"})
    await worker.start(damaged.id)
    await worker.start(whole.id)
    await eventually(phase_is(stub, whole.id, RUNNING))
    await eventually(phase_is(stub, damaged.id, QUARANTINED))
    assert "events release" in stub.Get(wire.GetRequest(run_id=damaged.id)).run.reason
    await worker.exit(whole.id)
    await eventually(phase_is(stub, whole.id, COMPLETED))
    assert served.process is not None
    assert served.process.poll() is None, served.output()


async def test_a_pool_that_the_server_refuses_does_not_stop_the_others(connect: Connect) -> None:
    client = await connect("o1")
    async with serving(client) as served:
        # Somebody has taken the offers of this pool: a queue of work has one consumer for each part.
        config = {"durable_name": "stranger", "filter_subject": "work.odd.>", "ack_policy": "explicit"}
        verb = "CONSUMER.DURABLE.CREATE.WORK.stranger"
        await ask(client.link, verb, {"stream_name": "WORK", "config": config})
        loops = run_together(served.projector.follow(RUNS), served.scheduler.run_offers())
        working = asyncio.create_task(loops)
        try:
            await served.stub.Submit(wire.SubmitRequest(spec=spec(pool="odd")))
            run = (await served.stub.Submit(wire.SubmitRequest(spec=spec()))).run
            played = PlayedWorker(client)
            async with asyncio.timeout(30):
                while run.id not in {offer.run_id for offer in await played.offers()}:
                    assert not working.done(), working.exception()
                    await asyncio.sleep(0.05)
        finally:
            working.cancel()
            await asyncio.wait([working])
