"""Retention on real NATS and S3: what a dry run shows is what goes, and it can be had back."""

from __future__ import annotations

import asyncio
from typing import Any

import grpc
import pytest

from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile
from tests.kit.artifacts import Rig, Service, key_of, now, produced
from tests.kit.waiting import eventually

RUNS, VIDEOS = 50, 10
HOUR = 3600 * 1_000_000
# Nothing is too young, and a prune can be taken back.
AT_ONCE = {"grace_seconds": 0.0, "undo_seconds": 3600.0, "automatic": False}


def rule(stub: Any, scope: str = "default", **limits: Any) -> None:
    profile = RetentionProfile(**limits)
    stub.SetRetention(wire.SetRetentionRequest(scope=scope, profile=profile))


def places(items: Any) -> list[tuple[str, str, str]]:
    return [(item.artifact.run_id, item.artifact.digest, item.rule) for item in items]


async def there(rig: Rig, prefix: str = "artifacts/") -> set[str]:
    return {key.rpartition("/")[2] for key in await rig.blobs.keys(prefix)}


async def gone(rig: Rig, digest: str, prefix: str = "artifacts/") -> bool:
    return digest not in await there(rig, prefix)


async def a_round_later(rig: Rig, stub: Any) -> None:
    """The janitor has finished a round that began after this call: it erased what is pruned here."""
    run = await rig.run()
    marker = await rig.produce(run, f"marker {run}".encode(), kind="video")
    await rig.indexed(run)
    rule(stub, f"run:{run}", grace_seconds=0.0, undo_seconds=0.0)
    stub.Prune(wire.PruneRequest(reference=f"{run}:{marker}"))
    await eventually(lambda: rig.facts(run, "artifact_erased"))


async def all_indexed(rig: Rig, service: Service, count: int) -> Any:
    stub = service.stub()

    async def probe() -> bool:
        found = stub.List(wire.ListArtifactsRequest(page_size=5000)).artifacts
        return sum(a.integrity == wire.GOOD for a in found) == count

    await eventually(probe, 120)
    return stub


async def test_a_dry_run_lists_exactly_what_is_then_pruned(rig: Rig) -> None:
    """50 runs of 10 videos and 2 checkpoints, with 2 videos a run and 20 runs an agent allowed."""
    videos: dict[str, list[str]] = {}
    checkpoints: dict[str, list[str]] = {}
    begun = now() - RUNS * HOUR
    for number in range(RUNS):
        at = begun + number * HOUR
        run = await rig.run(at=at)
        made = [
            (f"{run} video {n}".encode(), {"kind": "video", "step": n, "at": at + n}) for n in range(VIDEOS)
        ]
        # The third run did best, and the second best was its first checkpoint.
        score = 100.0 if number == 2 else float(number)
        made += [
            (f"{run} checkpoint {n}".encode(), {"step": n, "at": at + 100 + n, "score": score - n})
            for n in range(2)
        ]
        facts = [produced(data, **about) for data, about in made]  # type: ignore[arg-type]
        await asyncio.gather(*(rig.blobs.put(key_of(data), data) for data, _ in made))
        await rig.append(f"attempts.{run}", facts)
        digests = [fact.artifact_produced.digest for fact in facts]
        videos[run], checkpoints[run] = digests[:VIDEOS], digests[VIDEOS:]
    service = rig.service(index_parallel="16", janitor_seconds="1000")
    stub = await all_indexed(rig, service, RUNS * (VIDEOS + 2))
    rule(stub, max_videos_per_run=2, max_runs_per_agent=20, **AT_ONCE)  # type: ignore[arg-type]
    runs = list(videos)
    old, new = runs[: RUNS - 20], runs[RUNS - 20 :]
    pinned_old, pinned_new, pinned_run = videos[old[0]][0], videos[new[0]][0], old[1]
    for reference in (pinned_old, pinned_new, pinned_run):
        stub.Pin(wire.PinRequest(reference=reference))

    expected = {(run, digest) for run in new for digest in videos[run][:-2]}
    expected -= {(new[0], pinned_new)}
    expected |= {(new[0], videos[new[0]][-2])}  # the pinned one takes a place of the two
    expected |= {(run, digest) for run in old for digest in [*videos[run], *checkpoints[run]]}
    expected -= {(pinned_run, digest) for digest in [*videos[pinned_run], *checkpoints[pinned_run]]}
    expected -= {(old[0], pinned_old), (old[2], checkpoints[old[2]][0])}  # pinned, and best of all
    # The pinned run keeps its own; rules do not touch it.
    plan = stub.GetPrunePlan(wire.GetPrunePlanRequest())
    assert {(run, digest) for run, digest, _ in places(plan.items)} == expected
    assert plan.freed_bytes == sum(item.artifact.size for item in plan.items)
    assert not await rig.facts(old[3], "artifact_pruned")

    answer = stub.Prune(wire.PruneRequest(token=plan.token))
    assert places(answer.pruned) == places(plan.items)
    assert answer.left == []
    received = {
        (run, fact.artifact_pruned.digest, fact.artifact_pruned.rule)
        for run in runs
        for fact in await rig.facts(run, "artifact_pruned")
    }
    assert received == set(places(plan.items))
    # Asking again changes nothing, and an old plan is not carried out.
    assert stub.GetPrunePlan(wire.GetPrunePlanRequest()).items == []
    with pytest.raises(grpc.RpcError, match="has changed since"):
        stub.Prune(wire.PruneRequest(token=plan.token))
    # The bytes follow: to the trash, and nothing else does.
    pruned = {digest for _, digest in expected}

    async def moved() -> bool:
        return await there(rig, "trash/") == pruned

    await eventually(moved, 120)
    everything = {digest for made in (videos, checkpoints) for all_ in made.values() for digest in all_}
    assert await there(rig) == everything - pruned
    status = stub.GetRetention(wire.GetRetentionRequest(run=new[1])).statuses[0]
    shown = {kind.kind: f"{kind.retained}/{kind.total}" for kind in status.kinds}
    assert shown == {"video": "2/10", "checkpoint": "2/2"}
    best = stub.Get(wire.GetArtifactRequest(reference="CartPole-v1/ppo:best")).artifact
    assert best.digest == checkpoints[old[2]][0]
    # One video, and then the whole batch, come back.
    one = videos[new[2]][0]
    stub.UndoPrune(wire.UndoPruneRequest(reference=one))
    assert one in await there(rig)
    back = stub.UndoPrune(wire.UndoPruneRequest(batch=answer.batch), timeout=120)
    assert (len(back.restored), list(back.lost)) == (len(pruned) - 1, [])
    assert await there(rig) == everything


async def test_shared_bytes_are_erased_with_the_last_who_keeps_them(rig: Rig) -> None:
    one, two = await rig.run(), await rig.run()
    data = b"the same video"
    digest = await rig.produce(one, data, kind="video")
    await rig.produce(two, data, kind="video")
    named = await rig.produce(two, b"star", step=1)
    service = rig.service(janitor_seconds="0.2")
    await rig.indexed(one)
    await rig.indexed(two, 2)
    stub = service.stub()
    rule(stub, grace_seconds=0.0, undo_seconds=0.0)
    stub.SetAlias(wire.SetAliasRequest(alias="star", reference=named))
    with pytest.raises(grpc.RpcError, match="stays: alias star") as refused:
        stub.Prune(wire.PruneRequest(reference=named))
    assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    first = stub.Prune(wire.PruneRequest(reference=f"{one}:{digest}"))
    assert first.freed_bytes == 0
    await a_round_later(rig, stub)
    assert digest in await there(rig)
    assert await rig.facts(one, "artifact_erased") == []
    second = stub.Prune(wire.PruneRequest(reference=f"{two}:{digest}"))
    assert second.freed_bytes == len(data)
    await eventually(lambda: gone(rig, digest))
    for run in (one, two):

        async def erased(run: str = run) -> list[Any]:
            return await rig.facts(run, "artifact_erased")

        assert len(await eventually(erased)) == 1
    # The fact comes first, then the object is deleted.
    await eventually(lambda: gone(rig, digest, "trash/"))
    for what in (wire.UndoPruneRequest(batch=second.batch), wire.UndoPruneRequest(reference=digest)):
        with pytest.raises(grpc.RpcError):
            stub.UndoPrune(what)
    with pytest.raises(grpc.RpcError, match="and erased"):
        stub.GetUrl(wire.GetUrlRequest(reference=digest))
    # The same bytes produced again are stored and kept again.
    await rig.produce(one, data, kind="video", attempt=2)
    await rig.indexed(one, 2)
    assert digest in await there(rig)


async def test_the_janitor_prunes_by_itself_and_spares_what_a_running_run_needs(rig: Rig) -> None:
    old = now() - 2 * HOUR
    running = await rig.run(ended=False, at=old)
    steps = [await rig.produce(running, f"ck {n}".encode(), step=n, at=old + n) for n in range(4)]
    service = rig.service(janitor_seconds="0.2")
    await rig.indexed(running, 4)
    stub = service.stub()
    rule(stub, max_checkpoints_per_run=1, max_age_seconds=60.0, grace_seconds=0.0)

    async def pruned() -> list[Any] | None:
        found = await rig.facts(running, "artifact_pruned")
        return found if len(found) >= 2 else None

    facts = await eventually(pruned)
    assert {fact.artifact_pruned.digest for fact in facts} == set(steps[:2])
    assert {fact.artifact_pruned.pruned_by for fact in facts} == {"janitor"}
    await rig.end(running)

    async def one_more() -> bool:
        return len(await rig.facts(running, "artifact_pruned")) == 3

    await eventually(one_more)
    assert stub.Get(wire.GetArtifactRequest(reference=f"{running}:latest")).artifact.digest == steps[3]


async def test_orphans_are_reported_on_both_sides_and_removed_only_when_asked(rig: Rig) -> None:
    run = await rig.run()
    lost = await rig.produce(run, b"will be lost")
    kept = await rig.produce(run, b"kept")
    service = rig.service(janitor_seconds="0.2")
    await rig.indexed(run, 2)
    stray = b"not a word about this on the log"
    await rig.blobs.put(key_of(stray), stray)
    await rig.blobs.delete(key_of(b"will be lost"))
    stub = service.stub()
    found = stub.ListOrphans(wire.ListOrphansRequest())
    assert [item.key for item in found.objects] == [key_of(stray)]
    assert [artifact.digest for artifact in found.missing] == [lost]
    await a_round_later(rig, stub)
    assert await rig.blobs.get(key_of(stray)) == stray
    answer = stub.RemoveOrphans(wire.RemoveOrphansRequest(keys=[key_of(stray), key_of(b"kept")]))
    assert [item.key for item in answer.removed] == [key_of(stray)]
    assert "not an orphan" in answer.left[0]
    assert await rig.blobs.get(key_of(stray)) is None
    assert kept in await there(rig)
    # A run claims the bytes after all: they come back from the trash.
    claimed = await rig.produce(run, stray, store=False)
    await rig.indexed(run, 3)
    assert await rig.blobs.get(key_of(stray)) == stray
    assert claimed in await there(rig)


async def test_a_prune_survives_a_kill_at_any_point(rig: Rig) -> None:
    run = await rig.run()
    videos = [await rig.produce(run, f"v{n}".encode(), kind="video", step=n) for n in range(30)]
    first, second = rig.service(janitor_seconds="0.2"), rig.service(janitor_seconds="0.3")
    await rig.indexed(run, 30)
    rule(first.stub(), max_videos_per_run=5, grace_seconds=0.0, undo_seconds=1.0)
    for number in range(4):
        victim = (first, second)[number % 2]
        await asyncio.sleep(0.35)
        victim.kill()
        victim.start()

    async def settled() -> bool:
        erased = await rig.facts(run, "artifact_erased")
        return len(erased) == 25 and await there(rig) == set(videos[-5:]) and not await there(rig, "trash/")

    await eventually(settled, 90)
    received = [fact.artifact_pruned.digest for fact in await rig.facts(run, "artifact_pruned")]
    assert sorted(received) == sorted(videos[:-5])
