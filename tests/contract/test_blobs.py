"""The contract of Blobs, on a real S3 server."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from runspine.ids import new_ulid
from runspine.settings import ServiceSettings
from runspine.storage.blobs import BlobsUnavailableError, NotWrittenError, S3Blobs
from tests.kit.servers.nats import free_port
from tests.kit.servers.s3 import S3Server


@pytest.fixture
async def blobs(s3_server: S3Server) -> S3Blobs:
    return await s3_server.ready()


@pytest.fixture
def key() -> str:
    return f"tests/{new_ulid()}"


# The last one is uploaded in parts.
@pytest.mark.parametrize("size", [0, 1000, (16 << 20) + 4321])
async def test_an_object_comes_back_as_it_went(blobs: S3Blobs, key: str, tmp_path: Path, size: int) -> None:
    data = os.urandom(size)
    await blobs.put(key, data)
    assert await blobs.stat(key) == size
    assert await blobs.get_file(key, tmp_path / "back")
    assert (tmp_path / "back").read_bytes() == await blobs.get(key) == data
    await blobs.delete(key)
    assert await blobs.stat(key) is None


async def test_what_is_not_there_is_no_error(blobs: S3Blobs, key: str, tmp_path: Path) -> None:
    assert await blobs.stat(key) is None
    assert await blobs.get(key) is None
    assert not await blobs.get_file(key, tmp_path / "back")
    await blobs.delete(key)


async def test_a_disk_that_cannot_be_written_has_its_own_error(
    blobs: S3Blobs, key: str, tmp_path: Path
) -> None:
    await blobs.put(key, b"data")
    with pytest.raises(NotWrittenError):
        await blobs.get_file(key, tmp_path / "no" / "such" / "folder")


@pytest.mark.parametrize(
    "call",
    [
        lambda blobs, path: blobs.stat("key"),
        lambda blobs, path: blobs.put("key", b"data"),
        lambda blobs, path: blobs.get_file("key", path),
    ],
    ids=["stat", "put", "get_file"],
)
async def test_a_server_that_is_away_is_unavailable(call: Callable[..., object], tmp_path: Path) -> None:
    away = S3Blobs(ServiceSettings(s3_endpoint=f"127.0.0.1:{free_port()}"))
    path = tmp_path / "file"
    path.touch()
    with pytest.raises(BlobsUnavailableError):
        await call(away, path)  # type: ignore[misc]


async def test_a_synced_store_has_its_bytes_on_disk(s3_server: S3Server, key: str, tmp_path: Path) -> None:
    await s3_server.ready()
    synced = S3Blobs(s3_server.settings().model_copy(update={"s3_sync_dir": s3_server.directory}))
    await synced.put(key, b"data")
    wrong = S3Blobs(s3_server.settings().model_copy(update={"s3_sync_dir": tmp_path / "absent"}))
    with pytest.raises(BlobsUnavailableError, match="absent"):
        await wrong.put(key, b"data")
