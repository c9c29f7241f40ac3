"""The port of object storage, and its adapter for S3 with the minio client."""

from __future__ import annotations

import asyncio
import ctypes
import io
import os
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import ParamSpec, Protocol, TypeVar

import urllib3

from runspine.settings import ServiceSettings
from runspine.storage.minio_py import Minio, MinioException, S3Error
from runspine.storage.s3_requests import REGION, S3Requests

P = ParamSpec("P")
T = TypeVar("T")

CHUNK = 1 << 20
PUT_THREADS = 8
GONE = ("NoSuchKey", "NotFound")


class BlobsUnavailableError(Exception):
    """The S3 server does not answer or refuses the request."""


class NotWrittenError(BlobsUnavailableError):
    """The object could not be written to this machine's disk."""


class Blobs(Protocol):
    """Objects by key. Every method raises BlobsUnavailableError."""

    async def put(self, key: str, data: bytes) -> None:
        """Store an object; it is durable when this returns."""

    async def put_all(self, objects: Mapping[str, bytes]) -> None:
        """Store objects by key, several at a time; all are durable when this returns."""

    async def get(self, key: str) -> bytes | None:
        """An object's bytes, or None when there is none."""

    async def get_file(self, key: str, path: Path) -> bool:
        """Write an object to a file; False when there is none. Raises NotWrittenError too."""

    async def stat(self, key: str) -> int | None:
        """An object's size, or None when there is none."""

    async def keys(self, prefix: str) -> list[str]:
        """Names that begin with the prefix, sorted."""

    async def delete(self, key: str) -> None:
        """Remove an object; no error when there is none."""


class S3Blobs:
    """Blobs on any S3 server. With `s3_sync_dir`, that directory is synced after each put.

    SeaweedFS acknowledges before the bytes are on disk; without the sync a power loss would lose
    acknowledged objects.
    """

    def __init__(self, settings: ServiceSettings) -> None:
        self._bucket = settings.s3_bucket
        self._sync_dir = settings.s3_sync_dir
        self._endpoint = settings.s3_endpoint
        self._http = http = urllib3.PoolManager(
            timeout=urllib3.Timeout(connect=2, read=30),
            retries=urllib3.Retry(total=1, backoff_factor=0.1),
            maxsize=16,
        )
        self._client = Minio(
            settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            secure=settings.s3_secure,
            region=REGION,
            http_client=http,
        )
        self._requests = S3Requests(settings, self._client, http)

    async def put(self, key: str, data: bytes) -> None:
        await self._call(self._put, key, data)

    async def put_all(self, objects: Mapping[str, bytes]) -> None:
        await self._call(self._put_all, objects)

    async def get(self, key: str) -> bytes | None:
        return await self._call(self._get, key)

    async def get_file(self, key: str, path: Path) -> bool:
        return await self._call(self._get_file, key, path)

    async def stat(self, key: str) -> int | None:
        return await self._call(self._stat, key)

    async def keys(self, prefix: str) -> list[str]:
        return await self._call(lambda: sorted(self._list(prefix)))

    async def delete(self, key: str) -> None:
        await self._call(self._client.remove_object, self._bucket, key)

    async def ensure_bucket(self) -> None:
        """Create the bucket if it does not exist."""
        await self._call(self._make_bucket)

    async def _call(self, function: Callable[P, T], *args: P.args, **named: P.kwargs) -> T:
        """Call a function in a thread; errors of S3 and the network become BlobsUnavailableError."""
        try:
            return await asyncio.to_thread(function, *args, **named)
        except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
            raise BlobsUnavailableError(f"S3 at {self._endpoint}, bucket {self._bucket}: {error}") from error

    def _put(self, key: str, data: bytes) -> None:
        self._client.put_object(self._bucket, key, io.BytesIO(data), len(data))
        self._sync()

    def _put_all(self, objects: Mapping[str, bytes]) -> None:
        def put(key: str) -> None:
            self._client.put_object(self._bucket, key, io.BytesIO(objects[key]), len(objects[key]))

        with ThreadPoolExecutor(PUT_THREADS) as threads:
            for _ in threads.map(put, objects):
                pass
        self._sync()

    def _sync(self) -> None:
        if self._sync_dir is not None:
            sync_filesystem(self._sync_dir)

    def _stat(self, key: str) -> int | None:
        try:
            return self._client.stat_object(self._bucket, key).size
        except S3Error as error:
            if error.code in GONE:
                return None
            raise

    def _get_file(self, key: str, path: Path) -> bool:
        try:
            response = self._client.get_object(self._bucket, key)
        except S3Error as error:
            if error.code in GONE:
                return False
            raise
        try:
            _write(path, response.stream(CHUNK))
        finally:
            response.close()
            response.release_conn()
        return True

    def _get(self, key: str) -> bytes | None:
        try:
            response = self._client.get_object(self._bucket, key)
        except S3Error as error:
            if error.code in GONE:
                return None
            raise
        try:
            return response.read()
        finally:
            response.close()
            response.release_conn()

    def _list(self, prefix: str) -> Iterator[str]:
        for found in self._client.list_objects(self._bucket, prefix, recursive=True):
            if found.object_name:
                yield found.object_name

    def _make_bucket(self) -> None:
        if not self._client.bucket_exists(self._bucket):
            try:
                self._client.make_bucket(self._bucket)
            except S3Error as error:
                if error.code not in ("BucketAlreadyOwnedByYou", "BucketAlreadyExists"):
                    raise


def _write(path: Path, chunks: Iterator[bytes]) -> None:
    try:
        with path.open("wb") as file:
            for chunk in chunks:
                file.write(chunk)
    except OSError as error:
        raise NotWrittenError(f"{path}: {error}") from error


def sync_filesystem(directory: Path) -> None:
    """Flush the file system that holds a directory, as syncfs(2) does."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        if ctypes.CDLL(None, use_errno=True).syncfs(descriptor) != 0:
            raise OSError(ctypes.get_errno(), f"syncfs {directory}")
    finally:
        os.close(descriptor)
