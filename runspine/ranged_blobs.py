"""Objects in S3, read in ranges and written on the condition that they do not exist yet."""

from __future__ import annotations

from datetime import datetime
from typing import NamedTuple, Protocol

import urllib3
from minio.error import MinioException, S3Error

from runspine.blobs import GONE, Blobs, BlobsUnavailable, S3Blobs


class Aged(NamedTuple):
    """An object's name, and when it was written."""

    key: str
    modified: datetime


class RangedBlobs(Blobs, Protocol):
    async def put_new(self, key: str, data: bytes) -> bool:
        """Store an object that must not exist yet, durably; False when there is one already."""

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        """Part of an object, or None when there is none. Blocks: call it from a thread."""

    async def aged(self, prefix: str) -> list[Aged]:
        """Names that begin with the prefix, and their age."""


class RangedS3Blobs(S3Blobs):
    async def put_new(self, key: str, data: bytes) -> bool:
        return await self._call(self._put_new, key, data)

    async def aged(self, prefix: str) -> list[Aged]:
        return await self._call(self._aged, prefix)

    def read_range(self, key: str, start: int, length: int) -> bytes | None:
        try:
            return self._read_range(key, start, length)
        except (MinioException, urllib3.exceptions.HTTPError, OSError) as error:
            raise BlobsUnavailable(f"S3 at {self._endpoint}, {key}: {error}") from error

    def _put_new(self, key: str, data: bytes) -> bool:
        try:
            # minio's own put_object has no place for a condition.
            self._client._put_object(self._bucket, key, data, headers={"If-None-Match": "*"})
        except S3Error as error:
            if error.code not in ("PreconditionFailed", "ConditionalRequestConflict"):
                raise
            # An answer that was lost makes the client ask again and meet its own object.
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
