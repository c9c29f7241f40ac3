"""One janitor at a time on real NATS and S3: elected on the log, replaced when silent, fenced after that."""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import aclosing
from typing import Any

import pytest
from minio.commonconfig import CopySource

from runspine.domain.janitor import JANITOR, DeposedError, apply_term, elect
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, artifacts_subject
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.pruner import Pruner
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.storage.keys import trash_key
from runspine.tasks import cancel_and_wait
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2 import JanitorTerm
from runspine.wire.v1.facts_pb2 import RetentionProfile
from tests.kit.artifacts import Rig, Service, key_of, now
from tests.kit.waiting import eventually

QUICK = {"janitor_seconds": "0.2"}


def holder_pid(term: JanitorTerm) -> int:
    return int(term.holder.split(":")[1]) if term.holder else 0


async def term_of(rig: Rig) -> JanitorTerm:
    term = JanitorTerm()
    for fact in await rig.facts(JANITOR):
        apply_term(term, fact)
    return term


async def elected(rig: Rig, *, after: int = 0) -> JanitorTerm:
    async def probe() -> JanitorTerm | None:
        term = await term_of(rig)
        return term if term.holder and term.term > after else None

    return await eventually(probe, 60)


def rule(service: Service, **limits: Any) -> None:
    profile = RetentionProfile(grace_seconds=0.0, **limits)
    service.stub().SetRetention(wire.SetRetentionRequest(scope="default", profile=profile))


async def films(rig: Rig, count: int, word: str) -> str:
    run = await rig.run()
    for number in range(count):
        await rig.produce(run, f"{word} {run} {number}".encode(), kind="video", step=number)
    return run


async def pruned(rig: Rig, run: str, count: int) -> None:
    async def probe() -> bool:
        return len(await rig.facts(run, "artifact_pruned")) == count

    await eventually(probe, 60)


async def terms_of_prunes(rig: Rig) -> list[tuple[int, int]]:
    """For every prune in the order of the log: its term, and the newest term elected before it."""
    found, term = [], JanitorTerm()
    async with aclosing(rig.log.follow(ARTIFACTS, live=False)) as records:
        async for recorded in records:
            for fact in recorded.commit.facts:
                apply_term(term, fact)
                if fact.HasField("artifact_pruned"):
                    found.append((fact.artifact_pruned.term, term.term))
    return found


def by_pid(pid: int, *services: Service) -> tuple[Service, Service]:
    """The service of this process, and the other."""
    first, second = services
    assert first.process
    assert second.process
    assert pid in (first.process.pid, second.process.pid)
    return (first, second) if first.process.pid == pid else (second, first)


async def test_of_two_services_one_prunes_and_the_other_takes_over_when_it_is_killed(rig: Rig) -> None:
    one = await films(rig, 5, "first")
    services = rig.service(**QUICK), rig.service(**QUICK)
    await rig.indexed(one, 5)
    first = await elected(rig)
    holder, other = by_pid(holder_pid(first), *services)
    rule(other, max_videos_per_run=2)
    await pruned(rig, one, 3)
    assert {number for number, _ in await terms_of_prunes(rig)} == {first.term}
    shown = other.stub().GetRetention(wire.GetRetentionRequest()).janitor
    assert (shown.term, shown.holder) == (first.term, first.holder)

    holder.kill()
    two = await films(rig, 5, "second")
    second = await elected(rig, after=first.term)
    assert other.process
    assert (second.term, holder_pid(second)) == (first.term + 1, other.process.pid)
    await pruned(rig, two, 3)
    assert all(number == newest for number, newest in await terms_of_prunes(rig))
    # One that is stopped in an orderly way resigns, so that nobody has to wait.
    other.stop()
    assert (await term_of(rig)).holder == ""


async def test_a_candidate_that_was_frozen_does_not_take_its_own_pause_for_the_holders_silence(
    rig: Rig,
) -> None:
    services = rig.service(**QUICK), rig.service(**QUICK)
    first = await elected(rig)
    _, other = by_pid(holder_pid(first), *services)
    other.stub()  # it serves, so it follows the log and listens
    assert other.process
    os.kill(other.process.pid, signal.SIGSTOP)
    await asyncio.sleep(5)  # longer than the lease of four seconds
    os.kill(other.process.pid, signal.SIGCONT)
    await asyncio.sleep(1)  # the time of a pulse, after which it would have stood
    other.stub().GetRetention(wire.GetRetentionRequest())
    assert await term_of(rig) == first


async def test_a_janitor_that_was_frozen_prunes_nothing_under_its_old_term(rig: Rig) -> None:
    """It is frozen in the middle of a long prune, replaced, and resumed."""
    runs = [await films(rig, 2, "long") for _ in range(60)]
    services = rig.service(**QUICK, index_parallel="16"), rig.service(**QUICK, index_parallel="16")
    for run in runs:
        await rig.indexed(run, 2)
    first = await elected(rig)
    holder, other = by_pid(holder_pid(first), *services)
    assert holder.process
    rule(other, max_videos_per_run=1)

    async def begun() -> bool:
        return len(await terms_of_prunes(rig)) >= 3

    await eventually(begun, 60)
    os.kill(holder.process.pid, signal.SIGSTOP)
    try:
        second = await elected(rig, after=first.term)
        assert holder_pid(second) != holder.process.pid
        runs.append(await films(rig, 2, "meanwhile"))
    finally:
        os.kill(holder.process.pid, signal.SIGCONT)

    async def all_pruned() -> bool:
        return len(await terms_of_prunes(rig)) == len(runs)

    await eventually(all_pruned, 60)
    found = await terms_of_prunes(rig)
    assert [each for each in found if each[0] != each[1]] == []
    assert {number for number, _ in found} == {first.term, second.term}
    # The deposed one goes on as a candidate: it serves, and takes over in turn.
    other.kill()
    third = await elected(rig, after=second.term)
    assert holder_pid(third) == holder.process.pid


async def test_the_server_refuses_a_prune_of_a_term_whose_end_was_not_read_yet(
    rig: Rig, connect: Any
) -> None:
    """The janitor has planned, another was elected, and it knows nothing of it: the fence is the server's."""
    run = await films(rig, 3, "fenced")
    service = rig.service(janitor="apart")
    await rig.indexed(run, 3)
    rule(service, max_videos_per_run=1)
    connected = await connect("janitor")
    catalog = ArtifactCatalog()
    projector = Projector(connected.log, None, catalog)
    lease = JanitorLease(connected.link, connected.log, catalog, projector, 60.0)
    await rig.append(artifacts_subject(JANITOR), elect(JanitorTerm(), lease.holder, 0, now()))
    await projector.start()
    pruner = Pruner(catalog, CommandHandler(connected.log, projector))
    term = lease.held()
    assert term is not None
    plan = await pruner.plan_automatic()
    assert len(plan.items) == 2
    await rig.append(artifacts_subject(JANITOR), elect(catalog.janitor, "another", term.number, now()))
    refused = await pruner.carry_out(plan, "janitor", term)
    assert (refused.items, await rig.facts(run, "artifact_pruned")) == ([], [])
    assert "has grown" in refused.left[0]
    # Once it has read the election it knows by itself.
    await projector.start()
    with pytest.raises(DeposedError, match="another holds term 2"):
        await pruner.carry_out(plan, "janitor", term)
    assert lease.held() is None
    # A person's prune is nobody's term.
    following = asyncio.create_task(projector.follow(ARTIFACTS))
    assert len((await pruner.carry_out(plan, "anna")).items) == 2
    await cancel_and_wait(following)
    assert await terms_of_prunes(rig) == [(0, 2), (0, 2)]


async def test_a_janitor_apart_prunes_what_the_service_leaves_to_it(rig: Rig) -> None:
    run = await films(rig, 4, "apart")
    service = rig.service(janitor="apart", **QUICK)
    await rig.indexed(run, 4)
    rule(service, max_videos_per_run=1, undo_seconds=3600.0)
    await asyncio.sleep(1)  # the service had time to do what it must not
    assert (await term_of(rig)).term == 0
    janitor = rig.janitor(**QUICK)
    await pruned(rig, run, 3)
    assert janitor.process
    assert holder_pid(await term_of(rig)) == janitor.process.pid

    async def in_trash() -> bool:
        return len(await rig.blobs.keys("trash/")) == 3

    await eventually(in_trash, 30)
    # An undo is the service's; the copies in the trash are the janitor's to remove.
    stub = service.stub()
    rule(service, max_videos_per_run=0, undo_seconds=3600.0)
    batch = stub.GetRetention(wire.GetRetentionRequest()).undoable[0].batch
    assert len(stub.UndoPrune(wire.UndoPruneRequest(batch=batch)).restored) == 3

    async def back() -> bool:
        return not await rig.blobs.keys("trash/") and len(await rig.blobs.keys("artifacts/")) == 4

    await eventually(back, 30)
    status = stub.GetRetention(wire.GetRetentionRequest(run=run)).statuses[0]
    assert status.pruned_bytes == 0
    assert status.last_pruned_at > 0


class SharedBlobs(ArtifactS3Blobs):
    """S3 with another process that restores an object after this one has found it in the trash."""

    def _stat(self, key: str) -> int | None:
        found = super()._stat(key)
        if found is not None and key.startswith("trash/"):
            self._copied_elsewhere(key)
        return found

    def _copied_elsewhere(self, key: str) -> None:
        target = key.replace("trash/", "artifacts/", 1)
        self._client.copy_object(self._bucket, target, CopySource(self._bucket, key))
        self._client.remove_object(self._bucket, key)


async def test_two_processes_that_restore_the_same_object_both_succeed(rig: Rig, connect: Any) -> None:
    data = b"wanted by two"
    digest = key_of(data).rpartition("/")[2]
    await rig.blobs.put(trash_key(digest), data)
    blobs = SharedBlobs(rig.s3.settings().model_copy(update={"s3_bucket": rig.bucket}))
    log = (await connect("test-restore")).log
    catalog = ArtifactCatalog()
    store = ObjectStore(blobs, catalog, CommandHandler(log, Projector(log, None, catalog)))
    assert await store.restore(digest, key_of(data))
    assert await rig.blobs.get(key_of(data)) == data
    assert not await store.restore("0" * 64, "artifacts/sha256/00/" + "0" * 64)
