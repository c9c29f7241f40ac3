"""Objects of artifacts in S3: read whole to be checked, copied, signed for, counted."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

from minio import Minio
from minio.commonconfig import ComposeSource, CopySource
from minio.error import S3Error

from runspine.blobs import CHUNK, GONE, Blobs
from runspine.file_blobs import FileBlobs
from runspine.settings import ServiceSettings

# S3 copies objects up to here in one request.
COPY_LIMIT = 5 << 30


class Fingerprint(NamedTuple):
    """What an object turned out to be."""

    size: int
    digest: str


class Listed(NamedTuple):
    """An object as the bucket's list has it."""

    key: str
    size: int
    modified: datetime


class ArtifactBlobs(Blobs, Protocol):
    async def store(self, path: Path, key: str, digest: str, *, replace: bool = False) -> bool:
        """Store a file under its SHA-256, durably; False when it was there already, and is whole."""

    async def fingerprint(self, key: str, pace: Callable[[int], float]) -> Fingerprint | None:
        """Size and SHA-256 by reading, or None when there is no such object.

        `pace` is told how much was read and answers how long to wait before reading on.
        """

    async def copy(self, source: str, target: str) -> bool:
        """Copy an object inside the bucket, durably; False when there is none."""

    async def listed(self, prefix: str) -> list[Listed]:
        """Every object that begins with the prefix."""

    def url(self, key: str, seconds: int, name: str) -> str:
        """A link that lets whoever has it read this object for so long. Needs no server."""


class ArtifactS3Blobs(FileBlobs):
    def __init__(self, settings: ServiceSettings, public_endpoint: str = "") -> None:
        super().__init__(settings)
        self._signing = Minio(
            public_endpoint or settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            secure=settings.s3_secure,
            region="us-east-1",
        )

    async def fingerprint(self, key: str, pace: Callable[[int], float]) -> Fingerprint | None:
        return await self._call(self._fingerprint, key, pace)

    async def copy(self, source: str, target: str) -> bool:
        return await self._call(self._copy, source, target)

    async def listed(self, prefix: str) -> list[Listed]:
        return await self._call(self._listed, prefix)

    def url(self, key: str, seconds: int, name: str) -> str:
        shown = f"attachment; filename*=UTF-8''{quote(name)}"
        return self._signing.presigned_get_object(
            self._bucket,
            key,
            expires=timedelta(seconds=seconds),
            response_headers={"response-content-disposition": shown},
        )

    def _fingerprint(self, key: str, pace: Callable[[int], float]) -> Fingerprint | None:
        try:
            response = self._client.get_object(self._bucket, key)
        except S3Error as error:
            if error.code in GONE:
                return None
            raise
        digest, size = hashlib.sha256(), 0
        try:
            for chunk in response.stream(CHUNK):
                digest.update(chunk)
                size += len(chunk)
                if (wait := pace(len(chunk))) > 0:
                    time.sleep(wait)  # in a thread of its own
        finally:
            response.close()
            response.release_conn()
        return Fingerprint(size, digest.hexdigest())

    def _copy(self, source: str, target: str) -> bool:
        size = self._stat(source)
        if size is None:
            return False
        if size < COPY_LIMIT:
            self._client.copy_object(self._bucket, target, CopySource(self._bucket, source))
        else:
            self._client.compose_object(self._bucket, target, [ComposeSource(self._bucket, source)])
        self._sync()
        return True

    def _listed(self, prefix: str) -> list[Listed]:
        found = self._client.list_objects(self._bucket, prefix, recursive=True)
        return [
            Listed(item.object_name, item.size or 0, item.last_modified)
            for item in found
            if item.object_name and item.last_modified
        ]
