"""What every store of blobs promises, on a real S3 server."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runspine.blobs import BlobsUnavailable, Changed, NotWritten, S3Blobs
from runspine.ids import new_ulid
from runspine.settings import ServiceSettings
from tests.fixtures.nats import free_port
from tests.fixtures.s3 import S3Server


@pytest.fixture
async def blobs(s3_server: S3Server) -> S3Blobs:
    return await s3_server.ready()


@pytest.fixture
def key() -> str:
    return f"tests/{new_ulid()}"


def made(path: Path, size: int) -> tuple[Path, str]:
    data = os.urandom(size)
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


# The last one travels in parts.
@pytest.mark.parametrize("size", [0, 1000, (16 << 20) + 4321])
async def test_a_file_comes_back_as_it_went(blobs: S3Blobs, key: str, tmp_path: Path, size: int) -> None:
    path, digest = made(tmp_path / "file", size)
    await blobs.put_file(path, key, digest)
    assert await blobs.stat(key) == size
    assert await blobs.get_file(key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == path.read_bytes()
    await blobs.delete(key)
    assert await blobs.stat(key) is None


async def test_what_is_not_there_is_no_error(blobs: S3Blobs, key: str, tmp_path: Path) -> None:
    assert await blobs.stat(key) is None
    assert await blobs.get(key) is None
    assert not await blobs.get_file(key, tmp_path / "back")
    await blobs.delete(key)


async def test_a_file_that_is_not_what_it_promises_leaves_nothing(
    blobs: S3Blobs, key: str, tmp_path: Path
) -> None:
    path, digest = made(tmp_path / "file", 1000)
    path.write_bytes(b"changed meanwhile")
    with pytest.raises(Changed):
        await blobs.put_file(path, key, digest)
    assert await blobs.stat(key) is None


async def test_a_missing_file_is_the_callers_trouble_not_the_servers(
    blobs: S3Blobs, key: str, tmp_path: Path
) -> None:
    with pytest.raises(FileNotFoundError):
        await blobs.put_file(tmp_path / "absent", key, "0" * 64)


async def test_a_disk_that_cannot_be_written_is_told_apart(blobs: S3Blobs, key: str, tmp_path: Path) -> None:
    await blobs.put(key, b"data")
    with pytest.raises(NotWritten):
        await blobs.get_file(key, tmp_path / "no" / "such" / "folder")


@pytest.mark.parametrize(
    "call",
    [
        lambda blobs, path: blobs.stat("key"),
        lambda blobs, path: blobs.put_file(path, "key", hashlib.sha256(b"").hexdigest()),
        lambda blobs, path: blobs.get_file("key", path),
    ],
    ids=["stat", "put_file", "get_file"],
)
async def test_a_server_that_is_away_is_unavailable(call: Callable[..., object], tmp_path: Path) -> None:
    away = S3Blobs(ServiceSettings(s3_endpoint=f"127.0.0.1:{free_port()}"))
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(BlobsUnavailable):
        await call(away, path)  # type: ignore[misc]


async def test_a_synced_store_has_its_bytes_on_disk(s3_server: S3Server, key: str, tmp_path: Path) -> None:
    await s3_server.ready()
    synced = S3Blobs(s3_server.settings().model_copy(update={"s3_sync_dir": s3_server.directory}))
    path, digest = made(tmp_path / "file", 1000)
    await synced.put_file(path, key, digest)
    wrong = S3Blobs(s3_server.settings().model_copy(update={"s3_sync_dir": tmp_path / "absent"}))
    with pytest.raises(BlobsUnavailable, match="absent"):
        await wrong.put_file(path, key, digest)
