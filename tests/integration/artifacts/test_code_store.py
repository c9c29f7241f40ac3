"""Code through the artifacts service: stored once, verified on arrival, kept while a run refers to it."""

from __future__ import annotations

import asyncio
import hashlib
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.code.download import read_object, read_tree, write_tree
from runspine.code.snapshot import CodeSnapshot, take_snapshot
from runspine.code.tree import make_tree
from runspine.code.upload import code_of, store_snapshot
from runspine.errors import RefusedError
from runspine.storage.keys import code_key
from runspine.wire.v1 import artifacts_pb2 as wire
from tests.kit.artifacts import Rig, Service
from tests.kit.code import entry_of
from tests.kit.waiting import eventually, until

GRACE = {"orphan_grace_seconds": "3600"}


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def project(folder: Path, count: int, text: str = "") -> CodeSnapshot:
    for number in range(count):
        path = folder / f"p{number % 10}" / f"{number}.py"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(f"{text}{number}")
    return take_snapshot(folder)


def pieces(*objects: tuple[str, bytes, bool]) -> Iterator[wire.StoreCodeRequest]:
    for digest, data, tree in objects:
        yield wire.StoreCodeRequest(digest=digest, data=data, end=True, tree=tree)


def digest_of(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


async def test_only_what_is_missing_is_sent_and_all_of_it_can_be_read_back(rig: Rig, tmp_path: Path) -> None:
    service = rig.service(**GRACE)
    service.stub()
    folder = tmp_path / "project"
    with service.client() as client:
        first = await asyncio.to_thread(store_snapshot, client, project(folder, 30))
        assert first.files == 30
        assert (await asyncio.to_thread(store_snapshot, client, take_snapshot(folder))).files == 0
        (folder / "p0" / "0.py").write_text("changed")
        (folder / "p1" / "run.sh").write_text("#!/bin/sh\n")
        (folder / "p1" / "run.sh").chmod(0o755)
        (folder / "link").symlink_to("p0/0.py")
        snapshot = take_snapshot(folder)
        assert (await asyncio.to_thread(store_snapshot, client, snapshot)).files == 2
        tree = read_tree(client, snapshot.tree.digest)
        assert tree == snapshot.tree
        write_tree(client, tree, tmp_path / "copy")
        assert take_snapshot(tmp_path / "copy").tree == tree
        with pytest.raises(RefusedError, match="exists already"):
            write_tree(client, tree, tmp_path / "copy")


@pytest.mark.alone
async def test_a_thousand_unchanged_files_take_half_a_second_and_send_nothing(
    rig: Rig, tmp_path: Path
) -> None:
    service = rig.service(**GRACE)
    service.stub()
    folder = tmp_path / "project"
    with service.client() as client:
        first = project(folder, 1000)
        assert (await asyncio.to_thread(store_snapshot, client, first)).files == 1000
        newest = max(path.lstat().st_ctime_ns for path in folder.rglob("*"))
        until(lambda: time.time_ns() - newest > 2_100_000_000, 30)
        take_snapshot(folder)
        began = time.perf_counter()
        again = take_snapshot(folder)
        sent = store_snapshot(client, again)
        took = time.perf_counter() - began
    assert (again.read_files, sent.files, sent.bytes) == (0, 0, 0)
    assert took < 0.5, took


async def test_bytes_of_another_digest_are_refused_and_not_stored(rig: Rig) -> None:
    stub = rig.service().stub()
    for digest in ("ab" * 32, "../" + "a" * 61, ""):
        with pytest.raises(grpc.RpcError) as refused:
            stub.StoreCode(pieces((digest, b"other", False)))
        assert refused.value.code() == grpc.StatusCode.FAILED_PRECONDITION
    assert await rig.blobs.keys("code/") == []


async def test_a_tree_is_refused_until_all_its_files_are_stored(rig: Rig) -> None:
    stub = rig.service(**GRACE).stub()
    tree = make_tree([entry_of("a.py", b"a"), entry_of("b.py", b"b")])
    with pytest.raises(grpc.RpcError, match="1 files of the tree are not stored"):
        stub.StoreCode(pieces((digest_of(b"a"), b"a", False), (tree.digest, tree.data, True)))
    assert await rig.blobs.keys("code/trees") == []
    missing = stub.FindMissingCode(
        wire.FindMissingCodeRequest(tree=tree.digest, digests=[digest_of(b"a"), digest_of(b"b")])
    )
    assert (missing.tree_missing, list(missing.digests)) == (True, [digest_of(b"b")])
    stub.StoreCode(pieces((digest_of(b"b"), b"b", False), (tree.digest, tree.data, True)))
    assert not stub.FindMissingCode(wire.FindMissingCodeRequest(tree=tree.digest)).tree_missing


async def test_a_hostile_tree_is_refused_on_arrival(rig: Rig) -> None:
    stub = rig.service().stub()
    data = b'{"format": "runspine code tree 1"}\n["file", "../../x", 1, "' + b"ab" * 32 + b'"]\n'
    with pytest.raises(grpc.RpcError, match="not a path below the tree's root"):
        stub.StoreCode(pieces((digest_of(data), data, True)))
    assert await rig.blobs.keys("code/") == []


async def test_code_of_a_run_is_no_orphan_and_other_code_is_one_after_its_grace(
    rig: Rig, tmp_path: Path
) -> None:
    service = rig.service()
    stub = service.stub()
    used, unused = project(tmp_path / "used", 5), project(tmp_path / "unused", 5, "other")
    with service.client() as client:
        store_snapshot(client, used)
        store_snapshot(client, unused)
    await rig.run(code=code_of(used, ""))
    expected = {code_key(digest) for digest in unused.sources} | {code_key(unused.tree.digest, tree=True)}

    async def listed() -> bool:
        found = {orphan.key for orphan in stub.ListOrphans(wire.ListOrphansRequest()).objects}
        return found == expected

    await eventually(listed)
    kept = [code_key(digest) for digest in used.sources]
    answer = stub.RemoveOrphans(wire.RemoveOrphansRequest(keys=[*expected, *kept]))
    assert {orphan.key for orphan in answer.removed} == expected
    assert len(answer.left) == len(kept)
    assert set(await rig.blobs.keys("code/")) == {*kept, code_key(used.tree.digest, tree=True)}
    # After a restart the service knows it again from the log.
    service.kill()
    again = rig.service()
    stub = again.stub()
    assert not stub.FindMissingCode(
        wire.FindMissingCodeRequest(tree=used.tree.digest, digests=list(used.sources))
    ).digests
    await eventually(lambda: not stub.ListOrphans(wire.ListOrphansRequest()).objects)


async def test_an_unused_object_past_half_its_grace_is_sent_again(rig: Rig, tmp_path: Path) -> None:
    stub = rig.service(orphan_grace_seconds="4").stub()
    data = b"nobody's"
    stub.StoreCode(pieces((digest_of(data), data, False)))

    def missing() -> list[str]:
        request = wire.FindMissingCodeRequest(tree="ab" * 32, digests=[digest_of(data)])
        return list(stub.FindMissingCode(request).digests)

    assert missing() == []
    until(lambda: missing() == [digest_of(data)], 30)


async def store_through_kills(rig: Rig, folder: Path, kills: int) -> None:
    """Kill the service while a snapshot is stored; the client ends with all of it stored."""
    service = rig.service(**GRACE)
    service.stub()
    snapshot = project(folder, 400)
    storing = asyncio.create_task(asyncio.to_thread(_store, service, snapshot))
    for number in range(kills):
        stored = 5 + number * 350 // max(1, kills)

        async def so_many(least: int = stored) -> bool:
            return storing.done() or len(await rig.blobs.keys("code/files")) >= least

        await eventually(so_many)
        service.kill()
        service.start()
    await storing
    with service.client() as client:
        tree = read_tree(client, snapshot.tree.digest)
        for entry in tree.files:
            assert digest_of(read_object(client, entry.digest)) == entry.digest


def _store(service: Service, snapshot: CodeSnapshot) -> Any:
    with service.client() as client:
        return store_snapshot(client, snapshot)


async def test_a_service_that_is_killed_leaves_no_half_tree(rig: Rig, tmp_path: Path) -> None:
    await store_through_kills(rig, tmp_path / "project", 2)


@pytest.mark.long
async def test_a_service_that_is_killed_thirty_times_leaves_no_half_tree(rig: Rig, tmp_path: Path) -> None:
    for number in range(6):
        await store_through_kills(rig, tmp_path / f"project-{number}", 5)
