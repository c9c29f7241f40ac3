"""The artifacts service on real NATS and S3: what is stored is read, and what is reported is true."""

from __future__ import annotations

import asyncio
import hashlib
import json
import math
import random
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest

from runspine.errors import RefusedError
from runspine.eventlog.subjects import attempts_subject
from runspine.rpc.artifact_client import ArtifactClient
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import (
    AttemptProgressed,
    CheckpointImported,
    EvaluationSummary,
    Fact,
    Progress,
)
from tests.kit.artifacts import Rig, artifact_of, key_of, now
from tests.kit.waiting import eventually


def url_of(stub: Any, reference: str, seconds: int = 0) -> str:
    answer: wire.GetUrlResponse = stub.GetUrl(wire.GetUrlRequest(reference=reference, seconds=seconds))
    return answer.url


def fetch(url: str) -> bytes:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with opener.open(url, timeout=60) as answer:
        data: bytes = answer.read()
    return data


def status(url: str) -> int:
    try:
        fetch(url)
    except urllib.error.HTTPError as error:
        return error.code
    return 200


async def test_what_a_worker_stored_is_read_before_it_is_indexed(rig: Rig) -> None:
    run = await rig.run()
    digest = await rig.produce(run, b"weights", step=10, score=3.0)
    lie = await rig.produce(run, b"longer than other", step=20)
    await rig.blobs.put(key_of(b"longer than other"), b"other")
    never = await rig.produce(run, b"never stored", store=False, step=30)
    service = rig.service()
    facts = await rig.indexed(run)
    assert facts[0].artifact_indexed.artifact.digest == digest

    async def both() -> dict[str, str] | None:
        found = {
            f.artifact_corrupt.digest: f.artifact_corrupt.flaw
            for f in await rig.facts(run, "artifact_corrupt")
        }
        return found if len(found) == 2 else None

    found_problems = await eventually(both)
    assert "5 bytes in S3 instead of 17" in found_problems[lie]
    assert "gone" in found_problems[never]
    stub = service.stub()
    assert artifact_of(stub, digest[:10]).integrity == wire.GOOD
    assert artifact_of(stub, f"{run}:latest").digest == digest
    # The worker stores it after all, and reports it again.
    await rig.produce(run, b"never stored", step=30, attempt=2)
    await rig.indexed(run, 2)
    assert artifact_of(stub, f"{run}:latest").digest == never


async def test_links_are_short_lived_and_in_no_log(rig: Rig) -> None:
    run = await rig.run()
    digest = await rig.produce(run, b"a video", kind="video", name="videos/ünï ✓.mp4")
    service = rig.service(log_level="debug")
    await rig.indexed(run)
    stub = service.stub()
    url = url_of(stub, digest)
    assert fetch(url) == b"a video"
    short = url_of(stub, digest, 1)
    deadline = time.monotonic() + 60
    while status(short) == 200:
        assert time.monotonic() < deadline, "the link does not expire"
        await asyncio.sleep(0.3)
    assert status(short) == 403
    with pytest.raises(grpc.RpcError, match="too long"):
        url_of(stub, digest, 86_400)
    assert "Signature" not in service.output()
    target = rig.folder / "got.mp4"
    with service.client() as client:
        ArtifactClient(client).download(digest[:8], target)
        assert target.read_bytes() == b"a video"
        with pytest.raises(RefusedError, match="exists already"):
            ArtifactClient(client).download(digest[:8], target)


def safetensors(seed: int) -> bytes:
    """A small network as CleanRL's dqn has it, in the format's own words."""
    header, data = {}, b""
    for name, shape in (
        ("network.0.weight", [120, 8]), ("network.0.bias", [120]), ("network.2.weight", [84, 120]),
        ("network.2.bias", [84]), ("network.4.weight", [4, 84]), ("network.4.bias", [4]),
    ):  # fmt: skip
        size = 4 * math.prod(shape)
        header[name] = {"dtype": "F32", "shape": shape, "data_offsets": [len(data), len(data) + size]}
        data += random.Random(seed).randbytes(size)
    words = json.dumps(header).encode()
    return len(words).to_bytes(8, "little") + words + data


def parts(about: CheckpointImported, data: bytes, piece: int = 1 << 16) -> Iterator[wire.ImportRequest]:
    yield wire.ImportRequest(about=about)
    for start in range(0, len(data), piece):
        yield wire.ImportRequest(data=data[start : start + piece])


async def test_the_same_file_imported_twice_is_one_checkpoint(rig: Rig) -> None:
    service = rig.service(import_mib="1")
    stub = service.stub()
    data = safetensors(1)
    about = CheckpointImported(
        source="/old/model.safetensors", name="model.safetensors", env="LunarLander-v3", algo="dqn", seed=7
    )
    first = stub.Import(parts(about, data))
    again = stub.Import(parts(about, data))
    assert (first.created, again.created, first.import_id) == (True, False, again.import_id)
    await rig.indexed(first.import_id)
    card = stub.ListCheckpoints(wire.ListCheckpointsRequest(env="LunarLander-v3")).cards[0]
    assert (card.algo, card.seed, card.source) == ("dqn", 7, "/old/model.safetensors")
    assert fetch(url_of(stub, "LunarLander-v3/dqn:latest")) == data
    for wrong, field in (
        (parts(CheckpointImported(name="x", algo="a"), b"x"), "about.env"),
        (parts(about, b""), "data"),
        (parts(CheckpointImported(name="x", env="e", algo="a", size=3), b"xx"), "about.size"),
        (parts(CheckpointImported(name="x", env="e", algo="a", digest="0" * 64), b"xx"), "about.digest"),
        (iter([wire.ImportRequest(data=b"x")]), "about"),
    ):
        with pytest.raises(grpc.RpcError, match=field) as refused:
            stub.Import(wrong)
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError, match="RUNSPINE_IMPORT_MIB"):
        stub.Import(parts(about, b"x" * (2 << 20)))
    assert len(stub.ListCheckpoints(wire.ListCheckpointsRequest(all=True)).cards) == 1


async def test_cards_state_the_score_the_origin_and_who_plays(rig: Rig) -> None:
    run = await rig.run()
    low = await rig.produce(run, b"one", step=1, score=10.0)
    high = await rig.produce(run, b"two", step=2, score=20.0)
    evaluator = await rig.run(env="CartPole-v1")
    summary = EvaluationSummary(digest=low, batches=1, episodes=50, mean=99.0, std=2.0, env="CartPole-v1")
    progressed = AttemptProgressed(attempt=1, progress=Progress(evaluation=summary))
    service = rig.service()
    stub = service.stub()
    await rig.indexed(run, 2)
    assert artifact_of(stub, f"{run}:best").digest == high
    await rig.append(attempts_subject(evaluator), [Fact(at=now(), attempt_progressed=progressed)])

    async def evaluated() -> wire.CheckpointCard | None:
        card = stub.Get(wire.GetArtifactRequest(reference=f"{run}:best")).card
        return card if card.artifact.digest == low else None

    card = await eventually(evaluated)
    assert (card.score.mean, card.score.source, card.score.episodes) == (99.0, "evaluation", 50)
    stub.SetAlias(wire.SetAliasRequest(alias="star", reference=high))
    assert artifact_of(stub, "star").digest == high
    stub.SetAlias(wire.SetAliasRequest(alias="star", reference=low))
    assert artifact_of(stub, "star").digest == low
    for name in ("best", "a b", "x" * 65, ""):
        with pytest.raises(grpc.RpcError) as refused:
            stub.SetAlias(wire.SetAliasRequest(alias=name, reference=low))
        assert refused.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    with pytest.raises(grpc.RpcError, match="is for CartPole-v1"):
        stub.Activate(wire.ActivateRequest(reference=low, env="Other-v0"))
    assert stub.ListActors(wire.ListActorsRequest()).actors == []
    stub.Activate(wire.ActivateRequest(reference=high))
    answer = stub.Activate(wire.ActivateRequest(reference=low, env="CartPole-v1"))
    assert answer.previous.digest == high
    assert [a.card.artifact.digest for a in stub.ListActors(wire.ListActorsRequest()).actors] == [low]


async def test_two_services_and_kills_index_everything_exactly_once(rig: Rig) -> None:
    runs = [await rig.run() for _ in range(3)]
    first, second = rig.service(snapshot_seconds="1"), rig.service(snapshot_seconds="1")
    expected: dict[str, set[str]] = {run: set() for run in runs}
    for number in range(60):
        run = runs[number % 3]
        expected[run].add(await rig.produce(run, f"{run} {number}".encode(), step=number))
        if number in (15, 30, 45):
            victim = first if number == 30 else second
            victim.kill()
            victim.start()
    for run in runs:
        await rig.indexed(run, len(expected[run]), seconds=60)
    # Both services index in the order of the log: what either would index twice is there with the marker.
    first.stub(), second.stub()
    for run in runs:
        expected[run].add(await rig.produce(run, f"{run} marker".encode(), step=60))
        await rig.indexed(run, len(expected[run]), seconds=60)
    for run in runs:
        received = [f.artifact_indexed.artifact.digest for f in await rig.facts(run, "artifact_indexed")]
        assert sorted(received) == sorted(expected[run])
    # A process that begins from a snapshot knows the same.
    second.stop()
    second.start()

    def everything(stub: Any) -> list[wire.Artifact]:
        return list(stub.List(wire.ListArtifactsRequest()).artifacts)

    assert everything(second.stub()) == everything(first.stub())
    assert len(everything(second.stub())) == 63


async def test_a_token_allows_what_its_scope_covers_and_no_more(rig: Rig) -> None:
    tokens = rig.folder / "tokens.json"
    entries = [
        {"name": scope, "sha256": hashlib.sha256(f"my-{scope}".encode()).hexdigest(), "scope": scope}
        for scope in ("read", "run", "admin")
    ]
    tokens.write_text(json.dumps(entries))
    stub = rig.service(tokens_file=str(tokens)).stub()

    def refusal(call: Any, request: Any, scope: str) -> str:
        try:
            call(request, metadata=[("authorization", f"Bearer my-{scope}")])
        except grpc.RpcError as error:
            if error.code() == grpc.StatusCode.PERMISSION_DENIED:
                return str(error.details())
        return ""

    for_admins = (
        (stub.Prune, wire.PruneRequest()),
        (stub.UndoPrune, wire.UndoPruneRequest(batch="x")),
        (stub.SetRetention, wire.SetRetentionRequest(scope="default")),
        (stub.RemoveOrphans, wire.RemoveOrphansRequest()),
    )
    for call, request in for_admins:
        assert "'read' may only read; " in refusal(call, request, "read")
        assert "'run' may run and read; " in refusal(call, request, "run")
        assert refusal(call, request, "run").endswith("needs the scope 'admin'")
        assert not refusal(call, request, "admin")
    assert refusal(stub.Pin, wire.PinRequest(reference="x"), "read").endswith("Pin needs the scope 'run'")
    assert not refusal(stub.Pin, wire.PinRequest(reference="x"), "run")
    assert not refusal(stub.GetPrunePlan, wire.GetPrunePlanRequest(), "read")
    assert not refusal(stub.ListCheckpoints, wire.ListCheckpointsRequest(), "read")
    with pytest.raises(grpc.RpcError) as unknown:
        stub.GetUrl(wire.GetUrlRequest(reference="x"))
    assert unknown.value.code() == grpc.StatusCode.UNAUTHENTICATED
