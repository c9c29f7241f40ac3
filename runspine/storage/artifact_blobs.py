"""Objects of artifacts in S3: fingerprints, copies, listings and presigned URLs."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from pathlib import Path
from typing import NamedTuple, Protocol
from urllib.parse import quote

from runspine.settings import ServiceSettings
from runspine.storage.blobs import CHUNK, GONE, Blobs
from runspine.storage.file_blobs import FileBlobs
from runspine.storage.minio_py import ComposeSource, CopySource, Minio, S3Error
from runspine.storage.s3_requests import REGION

# S3 copies objects up to this size in one request.
MAX_COPY_BYTES = 5 << 30


class Fingerprint(NamedTuple):
    """Size and SHA-256 of an object as it was read."""

    size: int
    digest: str


class Listed(NamedTuple):
    """An object in a listing of the bucket."""

    key: str
    size: int
    modified: datetime


class ArtifactBlobs(Blobs, Protocol):
    """Blobs with what the artifacts service needs."""

    async def store(self, path: Path, key: str, digest: str, *, replace: bool = False) -> bool:
        """Store a file under its SHA-256, durably; False when it is there already and whole."""

    async def fingerprint(self, key: str, pace: Callable[[int], float]) -> Fingerprint | None:
        """Size and SHA-256 by reading, or None when there is no such object.

        `pace` is called with the bytes read and returns the seconds to wait before the next read.
        """

    async def copy(self, source: str, target: str) -> bool:
        """Copy an object inside the bucket, durably; False when there is none."""

    async def listed(self, prefix: str) -> list[Listed]:
        """Every object that begins with the prefix."""

    def url(self, key: str, seconds: int, name: str) -> str:
        """A presigned URL that allows to read this object for so many seconds. Sends no request."""

    def sign(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], payload: str
    ) -> dict[str, str]:
        """The headers of a request that a worker sends, with a signature. Sends no request."""

    async def is_damaged(self, key: str, digest: str) -> bool:
        """Whether there is an object that does not have this digest, by reading it."""

    async def abort_uploads(self, prefix: str, older_than: timedelta) -> int:
        """Abort incomplete multipart uploads; returns how many."""


class ArtifactS3Blobs(FileBlobs):
    """ArtifactBlobs on S3. URLs are signed for `public_endpoint` when it is given."""

    def __init__(self, settings: ServiceSettings, public_endpoint: str = "") -> None:
        super().__init__(settings)
        self._signing = Minio(
            public_endpoint or settings.s3_endpoint,
            access_key=settings.s3_access_key,
            secret_key=settings.s3_secret_key.get_secret_value(),
            secure=settings.s3_secure,
            region=REGION,
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

    def sign(
        self, method: str, key: str, query: Mapping[str, str], headers: Mapping[str, str], payload: str
    ) -> dict[str, str]:
        return self._requests.sign(method, key, query, headers, payload)

    async def is_damaged(self, key: str, digest: str) -> bool:
        return await self._call(lambda: self._stat(key) is not None and not self._is_whole(key, digest))

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
                    time.sleep(wait)  # runs in its own thread
        finally:
            response.close()
            response.release_conn()
        return Fingerprint(size, digest.hexdigest())

    def _copy(self, source: str, target: str) -> bool:
        size = self._stat(source)
        if size is None:
            return False
        try:
            if size < MAX_COPY_BYTES:
                self._client.copy_object(self._bucket, target, CopySource(self._bucket, source))
            else:
                self._client.compose_object(self._bucket, target, [ComposeSource(self._bucket, source)])
        except S3Error as error:
            if error.code in GONE:
                return False  # removed since it was found
            raise
        self._sync()
        return True

    def _listed(self, prefix: str) -> list[Listed]:
        found = self._client.list_objects(self._bucket, prefix, recursive=True)
        return [
            Listed(item.object_name, item.size or 0, item.last_modified)
            for item in found
            if item.object_name and item.last_modified
        ]
