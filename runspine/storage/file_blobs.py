"""Files in S3 under their digest: stored once, verified, and resumed after an outage.

The key names the content, so parts that any process has uploaded before are used.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, ClassVar

import urllib3

from runspine.storage.blobs import CHUNK, GONE, S3Blobs
from runspine.storage.minio_py import S3Error
from runspine.storage.s3_requests import UploadedPart

# Larger files are uploaded in parts of this size.
PART_BYTES = 16 << 20
MAX_PARTS = 9_000
_EXISTS = ("PreconditionFailed", "ConditionalRequestConflict")


class FileChangedError(Exception):
    """The file does not have its digest: it was changed while it was read."""


class FileBlobs(S3Blobs):
    """S3Blobs with files under their digest."""

    # S3 requires at least 5 MiB for each part but the last.
    part_bytes = PART_BYTES

    async def store(self, source: Path | BinaryIO, key: str, digest: str, *, replace: bool = False) -> bool:
        """Store a file, or one that is open, under its SHA-256, durably; False when it is there and whole.

        Raises FileChangedError when the file is not of this digest, and OSError when it cannot be read.
        """
        if isinstance(source, Path):
            with await asyncio.to_thread(source.open, "rb") as file:
                return await self.store(file, key, digest, replace=replace)
        return await self._call(self._store, source, key, digest, replace)

    def for_attempt(self, run_id: str, attempt: int) -> FileBlobs:
        """The same for what an attempt has made."""
        return self

    async def digest(self, key: str) -> str | None:
        """SHA-256 of a stored object by reading it; None when there is none."""
        return await self._call(self._digest, key)

    async def abort_uploads(self, prefix: str, older_than: timedelta = timedelta(0)) -> int:
        """Abort incomplete multipart uploads; returns how many."""
        return await self._call(self._abort_uploads, prefix, older_than)

    def _store(self, file: BinaryIO, key: str, digest: str, replace: bool) -> bool:
        size = os.fstat(file.fileno()).st_size
        if replace:
            self._clear(key)
        # After a power loss a listing is no proof that the bytes are there: read them.
        if not replace and self._stat(key) == size and self._is_whole(key, digest):
            self._sync()  # its writer may have stopped before its sync
            return False
        if size > self.part_bytes:
            self._send_parts(file, size, key, digest)
        else:
            self._send_whole(file, key, digest)
        self._sync()
        return True

    def _send_whole(self, file: BinaryIO, key: str, digest: str) -> None:
        data = file.read()
        if hashlib.sha256(data).hexdigest() != digest:
            raise _changed(key)
        named = {"x-amz-meta-sha256": digest, **self._checksum(digest)}
        try:
            self._requests.put(key, data, {**named, "If-None-Match": "*"})
        except S3Error as error:
            if error.code not in _EXISTS:
                raise
            # Another worker was first, or a reply was lost. A damaged object is replaced.
            if not self._is_whole(key, digest):
                self._clear(key)
                self._requests.put(key, data, {**named, **self._condition})

    def _send_parts(self, file: BinaryIO, size: int, key: str, digest: str) -> None:
        """Upload the parts that are missing; parts are compared by the MD5 that S3 keeps."""
        upload, sent = self._upload_of(key, digest)
        part_size = max(self.part_bytes, size // MAX_PARTS)
        whole, etags, number = hashlib.sha256(), [], 0
        while data := file.read(part_size):
            number += 1
            whole.update(data)
            etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if sent.get(number) != UploadedPart(etag, len(data)):
                etag = self._requests.upload_part(key, upload, number, data)
            etags.append(etag)
        if whole.hexdigest() != digest:
            self._requests.abort_upload(key, upload)
            raise _changed(key)
        self._complete(key, upload, etags, digest)

    def _complete(self, key: str, upload: str, etags: list[str], digest: str) -> None:
        try:
            self._requests.complete_upload(key, upload, etags, self._condition)
        except S3Error as error:
            if error.code not in _EXISTS:
                raise
            if self._is_whole(key, digest):
                self._requests.abort_upload(key, upload)
            else:
                self._clear(key)
                self._requests.complete_upload(key, upload, etags, self._condition)

    # Who has a key of S3 may replace a damaged object, and does so in one request.
    _condition: ClassVar[dict[str, str]] = {}

    def _clear(self, key: str) -> None:
        """Make room for a whole object where a damaged one may be."""

    def _checksum(self, digest: str) -> dict[str, str]:
        """A header by which S3 refuses a body that does not have the digest."""
        return {}

    def _upload_of(self, key: str, digest: str) -> tuple[str, dict[int, UploadedPart]]:
        """An interrupted upload of this key with its parts, or a new upload."""
        begun = [upload for upload in self._requests.uploads(key) if upload.object_name == key]
        for upload in begun:
            sent = self._sent(key, upload.upload_id)
            if sent is not None:
                return upload.upload_id, sent
        return self._requests.create_upload(key, {"x-amz-meta-sha256": digest}), {}

    def _sent(self, key: str, upload: str) -> dict[int, UploadedPart] | None:
        try:
            return self._requests.parts(key, upload)
        except S3Error as error:
            if error.code == "NoSuchUpload":
                return None
            raise

    def _abort_uploads(self, prefix: str, older_than: timedelta) -> int:
        before = datetime.now(UTC) - older_than
        old = [each for each in self._requests.uploads(prefix) if each.begun is None or each.begun <= before]
        for upload in old:
            try:
                self._requests.abort_upload(upload.object_name, upload.upload_id)
            except S3Error as error:
                if error.code != "NoSuchUpload":
                    raise
        return len(old)

    def _is_whole(self, key: str, digest: str) -> bool:
        """Whether an object can be read and has this digest. A server replies 500 for a damaged one."""
        try:
            return self._digest(key) == digest
        except (S3Error, urllib3.exceptions.HTTPError):
            return False

    def _digest(self, key: str) -> str | None:
        try:
            response = self._client.get_object(self._bucket, key)
        except S3Error as error:
            if error.code in GONE:
                return None
            raise
        try:
            whole = hashlib.sha256()
            for chunk in response.stream(CHUNK):
                whole.update(chunk)
            return whole.hexdigest()
        finally:
            response.close()
            response.release_conn()


def _changed(key: str) -> FileChangedError:
    return FileChangedError(f"the file for {key} was changed while it was stored")
