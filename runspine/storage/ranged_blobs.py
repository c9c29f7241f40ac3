"""Objects in S3 with range reads and conditional writes."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

import urllib3

from runspine.storage.blobs import GONE, Blobs, BlobsUnavailableError, S3Blobs
from runspine.storage.minio_py import MinioException, S3Error


class Aged(NamedTuple):
    """An object's key and modification time."""

    key: str
    modified: datetime


class RangedBlobs(Blobs, Protocol):
    """Blobs with what the telemetry service needs."""

    async def put_new(self, key: str, data: bytes) -> bool:
        """Store a new object durably; False when the key exists."""

    async def sync(self) -> None:
        """Make durable what other processes have stored: one may have been killed before it could."""

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """A range of an object, or None when there is none. Blocks: call it from a thread."""

    async def aged(self, prefix: str) -> list[Aged]:
        """Objects whose keys begin with the prefix, with their modification times."""


class RangedS3Blobs(S3Blobs):
    """RangedBlobs on S3."""

    async def put_new(self, key: str, data: bytes) -> bool:
        return await self._call(self._put_new, key, data)

    async def sync(self) -> None:
        await self._call(self._sync)

    async def aged(self, prefix: str) -> list[Aged]:
        return await self._call(self._aged, prefix)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        try:
            return self._read_range(key, start, length)
        except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
            raise BlobsUnavailableError(f"S3 at {self._endpoint}, {key}: {error}") from error

    def _put_new(self, key: str, data: bytes) -> bool:
        try:
            self._requests.put(key, data, {"If-None-Match": "*"})
        except S3Error as error:
            if error.code not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            # After a lost reply the client retries and finds its own object.
            if self._get(key) != data:
                return False
        self._sync()
        return True

    def _read_range(self, key: str, start: int, length: int) -> bytes | None:
        try:
            response = self._client.get_object(self._bucket, key, start, length)
        except S3Error as error:
            if error.code in GONE:
                return None
            raise
        try:
            return response.read()
        finally:
            response.close()
            response.release_conn()

    def _aged(self, prefix: str) -> list[Aged]:
        found = self._client.list_objects(self._bucket, prefix, recursive=True)
        return [
            Aged(item.object_name, item.last_modified)
            for item in found
            if item.object_name and item.last_modified
        ]
