"""The contract of FileBlobs, on a real S3 server."""

from __future__ import annotations

import hashlib
import os
from datetime import timedelta
from pathlib import Path

import pytest

from runspine.ids import new_ulid
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs, FileChangedError
from tests.kit.servers.s3 import S3Server

PART = 5 << 20
LARGE = 3 * PART + 4321


@pytest.fixture
async def blobs(s3_server: S3Server) -> FileBlobs:
    await s3_server.ready()
    blobs = FileBlobs(s3_server.settings())
    blobs.part_bytes = PART
    return blobs


@pytest.fixture
def key() -> str:
    return f"tests/{new_ulid()}"


def made(path: Path, size: int) -> tuple[Path, str]:
    data = os.urandom(size)
    path.write_bytes(data)
    return path, hashlib.sha256(data).hexdigest()


def counted_parts(blobs: FileBlobs, monkeypatch: pytest.MonkeyPatch, fail_after: int) -> list[int]:
    """The numbers of the parts that travel; after so many the line is cut."""
    sent: list[int] = []
    real = blobs._requests.upload_part

    def upload(key: str, upload_id: str, number: int, data: bytes) -> str:
        if len(sent) == fail_after:
            raise ConnectionResetError("cut")
        etag = real(key, upload_id, number, data)
        sent.append(number)
        return etag

    monkeypatch.setattr(blobs._requests, "upload_part", upload)
    return sent


@pytest.mark.parametrize("size", [0, 1000, LARGE])
async def test_a_file_is_stored_once_and_comes_back_as_it_went(
    blobs: FileBlobs, key: str, tmp_path: Path, size: int
) -> None:
    path, digest = made(tmp_path / "file", size)
    assert await blobs.store(path, key, digest)
    assert await blobs.digest(key) == digest
    assert not await blobs.store(path, key, digest)
    assert await blobs.store(path, key, digest, replace=True)
    assert await blobs.digest(key) == digest


async def test_what_is_damaged_under_the_same_name_is_replaced(
    blobs: FileBlobs, key: str, tmp_path: Path
) -> None:
    path, digest = made(tmp_path / "file", 1000)
    for damaged in (b"x" * 1000, b"short"):
        await blobs.put(key, damaged)
        assert await blobs.store(path, key, digest)
        assert await blobs.digest(key) == digest


@pytest.mark.parametrize("size", [1000, LARGE])
async def test_a_file_that_is_not_what_it_promises_leaves_nothing(
    blobs: FileBlobs, key: str, tmp_path: Path, size: int
) -> None:
    path, _ = made(tmp_path / "file", size)
    with pytest.raises(FileChangedError):
        await blobs.store(path, key, "0" * 64)
    assert await blobs.digest(key) is None
    assert await blobs.abort_uploads(key) == 0


async def test_a_missing_file_is_an_error_of_the_caller(blobs: FileBlobs, key: str, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        await blobs.store(tmp_path / "absent", key, "0" * 64)


async def test_an_interrupted_upload_goes_on_with_the_parts_that_are_missing(
    blobs: FileBlobs, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = made(tmp_path / "file", LARGE)
    with monkeypatch.context() as cut:
        assert counted_parts(blobs, cut, fail_after=2) == []
        with pytest.raises(BlobsUnavailableError, match="cut"):
            await blobs.store(path, key, digest)
    assert await blobs.digest(key) is None
    sent = counted_parts(blobs, monkeypatch, fail_after=-1)
    assert await blobs.store(path, key, digest)
    assert sent == [3, 4]
    assert await blobs.digest(key) == digest
    assert await blobs.abort_uploads(key) == 0


async def test_uploads_that_nobody_completes_are_aborted_when_they_are_old_enough(
    blobs: FileBlobs, key: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, digest = made(tmp_path / "file", LARGE)
    counted_parts(blobs, monkeypatch, fail_after=1)
    with pytest.raises(BlobsUnavailableError):
        await blobs.store(path, key, digest)
    assert await blobs.abort_uploads(key, timedelta(days=1)) == 0
    assert await blobs.abort_uploads(key) == 1
    assert await blobs.abort_uploads(key) == 0
