"""Backups of a log that moves, and restores through a server that is killed."""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runspine.backup import streams
from runspine.backup.creation import save
from runspine.backup.restoration import compare, restore
from runspine.backup.site import OpenSite, open_site
from runspine.backup.target import Folder
from runspine.backup.verification import fact_problems, object_problems
from runspine.errors import InvalidError, RefusedError, UnreachableError
from runspine.eventlog.port import Version
from runspine.eventlog.streams import ensure_streams
from runspine.settings import ServiceSettings
from runspine.wire.v1.facts_pb2 import ArtifactProduced, Fact
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server


def quiet(what: str, done: int, total: int) -> None:
    """Nobody looks."""


@pytest.fixture
def servers(tmp_path: Path) -> Iterator[list[NatsServer]]:
    made = []
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        made.append(NatsServer(tmp_path / name))
        made[-1].start()
    yield made
    for server in made:
        server.stop()


@asynccontextmanager
async def site(server: NatsServer, s3: S3Server, bucket: str) -> AsyncIterator[OpenSite]:
    await s3.ready()
    received = {**s3.settings().model_dump(), "nats_url": server.url, "s3_bucket": bucket}
    async with open_site(ServiceSettings.model_validate(received)) as found:
        await found.blobs.ensure_bucket()
        yield found


def bucket_of(tmp_path: Path, name: str) -> str:
    """A bucket of this test's own on the session's server."""
    return f"{name}-{hashlib.sha256(str(tmp_path).encode()).hexdigest()[:12]}"


async def grow(there: OpenSite, subjects: int, commits: int) -> None:
    """Facts of many runs, each in a chain of its own."""

    async def one(subject: str) -> None:
        version = (await there.log.read(subject))[1]
        for _ in range(commits):
            version = await there.log.append(subject, [Fact(at=1)], expected=version)

    await asyncio.gather(*(one(f"runs.r{n}") for n in range(subjects)))


async def keep(there: OpenSite, folder: Path, content: bytes) -> str:
    """An artifact as a worker stores it: bytes, then the fact."""
    digest = hashlib.sha256(content).hexdigest()
    path = folder / digest
    path.write_bytes(content)
    await there.blobs.store(path, f"artifacts/sha256/{digest[:2]}/{digest}", digest)
    fact = Fact(at=1, artifact_produced=ArtifactProduced(digest=digest, size=len(content)))
    await there.log.append(f"attempts.{digest[:8]}", [fact], expected=Version())
    return digest


async def test_a_restore_goes_on_through_a_server_that_is_killed_and_every_position_is_the_same(
    tmp_path: Path, servers: list[NatsServer], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(streams, "MAX_RECORDS", 300)
    folder = Folder(tmp_path / "backup")
    folder.path.mkdir()
    async with site(servers[0], s3_server, bucket_of(tmp_path, "old")) as old:
        await ensure_streams(old.link)
        await grow(old, 40, 25)
        await keep(old, tmp_path, b"weights" * 1000)
        for number in range(50):
            await old.publisher.publish(f"telemetry.r{number}.1.steps", b"%d" % number, {})
        index = await save(old, folder, quiet)
        assert fact_problems(folder, index, quiet) + object_problems(folder, index, quiet) == []
        assert (index.facts["RUNS"], index.tail_first, index.tail_last) == (1000, 1, 50)
    killed = asyncio.Event()

    def kill_in_the_middle(what: str, done: int, total: int) -> None:
        if what == "RUNS" and 200 < done < 900 and not killed.is_set():
            killed.set()
            servers[1].kill()
            servers[1].start()

    async with site(servers[1], s3_server, bucket_of(tmp_path, "new")) as new:
        await restore(new, folder, index, kill_in_the_middle)
        assert killed.is_set()
        assert await compare(new, folder, index, quiet) == []
        # All of it is there: nothing is done twice.
        await restore(new, folder, index, quiet)
        assert (await new.log.extent("RUNS")).last == 1000


async def test_a_backup_is_brought_up_to_date_while_the_log_grows(
    tmp_path: Path, servers: list[NatsServer], s3_server: S3Server
) -> None:
    folder = Folder(tmp_path / "backup")
    folder.path.mkdir()
    async with site(servers[0], s3_server, bucket_of(tmp_path, "old")) as old:
        await ensure_streams(old.link)
        await grow(old, 5, 4)
        first = await save(old, folder, quiet)
        growing = asyncio.create_task(grow(old, 5, 40))
        digest = await keep(old, tmp_path, b"new")
        second = await save(old, folder, quiet)
        await growing
    assert first.facts["RUNS"] == 20 <= second.facts["RUNS"]
    assert set(first.chunks) <= set(second.chunks)
    assert any(kept.sha256 == digest for kept in second.objects)
    assert fact_problems(folder, second, quiet) == []
    # The log of another system, and one that has something in it already.
    async with site(servers[1], s3_server, bucket_of(tmp_path, "new")) as new:
        await ensure_streams(new.link)
        with pytest.raises(RefusedError, match="another log"):
            await save(new, folder, quiet)
        await grow(new, 1, 1)
        with pytest.raises(RefusedError, match="not of this backup"):
            await restore(new, folder, second, quiet)


async def test_bytes_that_the_log_keeps_and_s3_lost_are_named_and_changed_ones_are_not_restored(
    tmp_path: Path, servers: list[NatsServer], s3_server: S3Server
) -> None:
    folder = Folder(tmp_path / "backup")
    folder.path.mkdir()
    async with site(servers[0], s3_server, bucket_of(tmp_path, "old")) as old:
        await ensure_streams(old.link)
        kept, lost = [await keep(old, tmp_path, content) for content in (b"kept", b"lost")]
        await old.blobs.delete(f"artifacts/sha256/{lost[:2]}/{lost}")
        index = await save(old, folder, quiet)
    assert index.missing == (lost,)
    path = folder.path_of(f"objects/artifacts/sha256/{kept[:2]}/{kept}")
    path.write_bytes(b"kepT")
    assert any(kept in problem for problem in object_problems(folder, index, quiet))
    async with site(servers[1], s3_server, bucket_of(tmp_path, "new")) as new:
        with pytest.raises(InvalidError, match="was changed"):
            await restore(new, folder, index, quiet)
        assert (await new.log.extent("ATTEMPTS")).last == 0


async def test_an_unreachable_server_is_reported_at_once(
    servers: list[NatsServer], s3_server: S3Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("runspine.backup.site.CONNECT_SECONDS", 0.5)
    servers[0].stop()
    received = {**s3_server.settings().model_dump(), "nats_url": servers[0].url}
    with pytest.raises(UnreachableError, match="NATS at"):
        async with open_site(ServiceSettings.model_validate(received)):
            pass
