"""Damage: an S3 server that is away, one that has just come back, and one flipped byte."""

from __future__ import annotations

import os
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from functools import partial
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.services.worker.artifacts.resume import AttemptStart, CheckpointUnconfirmedError, find_start
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.missing import MissingObjects, write_probe
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.artifacts import Rig, artifact_of, key_of, rig_on
from tests.kit.servers.s3 import S3Server, flip_in_volume
from tests.kit.waiting import eventually


@pytest.fixture
async def own_s3(nats_server: Any, connect: Any, tmp_path: Path) -> AsyncIterator[Rig]:
    """With an S3 server that the test may kill and damage."""
    folder = tmp_path / "own-s3"
    folder.mkdir()
    server = S3Server(folder)
    server.start()
    connected = await connect("test")
    try:
        async with rig_on(nats_server.url, connected.log, server, tmp_path) as made:
            yield made
    finally:
        server.stop()


async def corrupt(rig: Rig, run: str, seconds: float = 30.0) -> Fact:
    async def probe() -> Fact | None:
        return next(iter(await rig.facts(run, "artifact_corrupt")), None)

    return await eventually(probe, seconds)


async def test_a_server_that_is_away_or_has_just_come_back_proves_nothing(own_s3: Rig) -> None:
    rig = own_s3
    run = await rig.run()
    service = rig.service(gone_seconds="4")
    service.stub()
    digests = {await rig.produce(run, f"data {n}".encode(), step=n) for n in range(5)}
    await rig.indexed(run, 5)
    rig.s3.stop()
    data = b"stored before the server died"
    fact = await rig.produce(run, data, store=False, step=9)
    with pytest.raises(grpc.RpcError) as refused:
        list(service.stub().Verify(wire.VerifyRequest(reference="nothing")))
    assert refused.value.code() == grpc.StatusCode.NOT_FOUND
    answers = list(service.stub().Verify(wire.VerifyRequest(reference=run), timeout=60))
    assert answers
    assert all(answer.unknown for answer in answers)
    rig.s3.start()
    await rig.s3.ready()
    await rig.blobs.put(key_of(data), data)
    await rig.indexed(run, 6, seconds=60)
    assert await rig.facts(run, "artifact_corrupt") == []
    found = {f.artifact_indexed.artifact.digest for f in await rig.facts(run, "artifact_indexed")}
    assert found == {*digests, fact}


Spoil = Callable[[bytes], Awaitable[None]]


async def with_damage(stub: Any, run: str, digest: str) -> dict[str, wire.CheckpointCard] | None:
    """Checkpoints by digest, once this one is known to be corrupt."""
    cards = stub.ListCheckpoints(wire.ListCheckpointsRequest(run=run)).cards
    shown = {card.artifact.digest: card for card in cards}
    return shown if shown[digest].artifact.integrity == wire.CORRUPT else None


async def check_one_flipped_byte(rig: Rig, spoil: Spoil) -> None:
    """It is found by the scrub, shown by the registry, never loaded, and resume falls back."""
    run = await rig.run(ended=False)
    # Not text, which the server would compress: the byte must be found on its disk.
    good, bad = (random.Random(seed).randbytes(16_000) for seed in (1, 2))
    older = await rig.produce(run, good, step=100, score=1.0)
    newer = await rig.produce(run, bad, step=200, score=5.0)
    service = rig.service(scrub_hours="0.0005")
    await rig.indexed(run, 2)
    stub = service.stub()
    assert artifact_of(stub, f"{run}:best").digest == newer
    await spoil(bad)
    emitted = (await corrupt(rig, run, 60)).artifact_corrupt
    assert (emitted.digest, emitted.found_by) == (newer, "scrub")
    # The registry shows it when it has read that; names that stand for the best and the latest skip it.
    shown = await eventually(lambda: with_damage(stub, run, newer), 30)
    assert "corrupt" in shown[newer].obstacle
    assert set(shown[older].aliases) >= {"best", "latest"}
    assert artifact_of(stub, f"{run}:latest").digest == older
    # Loading is refused with the reason.
    for call, request in (
        (stub.GetUrl, wire.GetUrlRequest(reference=newer)),
        (stub.Activate, wire.ActivateRequest(reference=newer)),
    ):
        with pytest.raises(grpc.RpcError) as refused:
            call(request)
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
        assert emitted.flaw in (refused.value.details() or "")
    # And the next attempt of the run goes on from the one before it.
    missing = MissingObjects(partial(write_probe, rig.blobs, "probes/w"), 0.5, stale_seconds=30)
    start = await eventually(lambda: second_start(rig, missing, run), 60)
    assert start.source is not None
    assert (start.source.digest, start.source.step) == (older, 100)
    assert start.path is not None
    assert start.path.read_bytes() == good
    assert any("step 200 is not used" in line for line in start.notes)


async def second_start(rig: Rig, missing: MissingObjects, run: str) -> AttemptStart | None:
    """Where the second attempt begins, once the worker is sure of it."""
    about = Run(id=run, spec=RunSpec(runner="builtin"))
    runner = RunnerInfo(name="builtin", resumes=True)
    try:
        return await find_start(FactWriter(rig.log), rig.blobs, missing, about, 2, rig.folder / "run", runner)
    except (CheckpointUnconfirmedError, BlobsUnavailableError):
        return None


@pytest.mark.skipif(
    not os.environ.get("RUNSPINE_TEST_DISK_FLIP"),
    reason="the server takes 13 s to give up on each read; RUNSPINE_TEST_DISK_FLIP=1 runs it",
)
async def test_one_byte_flipped_on_the_disk_is_found_shown_and_never_loaded(own_s3: Rig) -> None:
    rig = own_s3

    async def spoil(data: bytes) -> None:
        rig.s3.stop()
        flip_in_volume(rig.s3.directory, data)
        rig.s3.start()
        await rig.s3.ready()

    await check_one_flipped_byte(rig, spoil)


async def test_an_object_overwritten_with_as_many_bytes_is_found_too(rig: Rig) -> None:
    async def spoil(data: bytes) -> None:
        await rig.blobs.put(key_of(data), data[:8000] + b"?" + data[8001:])

    await check_one_flipped_byte(rig, spoil)
