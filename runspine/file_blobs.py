"""Files in S3 under the name of their digest: stored once, verified, and gone on with after an outage.

The name is the content, so whatever part of it lies on the server is ours to use, whoever has sent it.
"""

from __future__ import annotations

import asyncio
import hashlib
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, NamedTuple

import urllib3
from minio.datatypes import Part
from minio.error import S3Error

from runspine.blobs import CHUNK, GONE, MOST_PARTS, PART_BYTES, Changed, S3Blobs

Headers = dict[str, str | list[str] | tuple[str]]
_TAKEN = ("PreconditionFailed", "ConditionalRequestConflict")


class Sent(NamedTuple):
    """A part that the server has already."""

    etag: str
    size: int | None


class FileBlobs(S3Blobs):
    # S3 takes no parts below 5 MiB, but for the last.
    part_bytes = PART_BYTES

    async def store(self, path: Path, key: str, digest: str, *, replace: bool = False) -> bool:
        """Store a file under its SHA-256, durably; False when it was there already, and is whole.

        Raises Changed when the file is not of this digest, and OSError when it cannot be read.
        """
        file = await asyncio.to_thread(path.open, "rb")
        with file:
            return await self._call(self._store, file, key, digest, replace)

    async def digest(self, key: str) -> str | None:
        """SHA-256 of what is stored, by reading all of it; None when there is nothing."""
        return await self._call(self._digest, key)

    async def abort_uploads(self, prefix: str, older_than: timedelta = timedelta(0)) -> int:
        """Let go of the parts of uploads that nobody will complete; how many uploads."""
        return await self._call(self._abort_uploads, prefix, older_than)

    def _store(self, file: BinaryIO, key: str, digest: str, replace: bool) -> bool:
        size = os.fstat(file.fileno()).st_size
        # A listing proves nothing after a loss of power: only bytes that were read do.
        if not replace and self._stat(key) == size and self._is_whole(key, digest):
            self._sync()  # whoever has stored it may have died before
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
        headers: Headers = {"x-amz-meta-sha256": digest, "If-None-Match": "*"}
        try:
            self._client._put_object(self._bucket, key, data, headers=headers)
        except S3Error as error:
            if error.code not in _TAKEN:
                raise
            # Another worker was faster, or an answer was lost. What is damaged is replaced.
            if not self._is_whole(key, digest):
                del headers["If-None-Match"]
                self._client._put_object(self._bucket, key, data, headers=headers)

    def _send_parts(self, file: BinaryIO, size: int, key: str, digest: str) -> None:
        """Only parts that are missing travel; parts are compared by their MD5, which S3 keeps."""
        upload, sent = self._upload_of(key, digest)
        part_size = max(self.part_bytes, size // MOST_PARTS)
        whole, parts, number = hashlib.sha256(), [], 0
        while data := file.read(part_size):
            number += 1
            whole.update(data)
            etag = hashlib.md5(data, usedforsecurity=False).hexdigest()
            if sent.get(number) != Sent(etag, len(data)):
                etag = self._client._upload_part(self._bucket, key, data, None, upload, number)
            parts.append(Part(number, etag))
        if whole.hexdigest() != digest:
            self._client._abort_multipart_upload(self._bucket, key, upload)
            raise _changed(key)
        self._client._complete_multipart_upload(self._bucket, key, upload, parts)

    def _upload_of(self, key: str, digest: str) -> tuple[str, dict[int, Sent]]:
        """An upload of this key that an outage has interrupted, with its parts; or a new one."""
        begun = [upload for upload in self._uploads(key) if upload.object_name == key]
        for upload in begun:
            sent = self._sent(key, upload.upload_id)
            if sent is not None:
                return upload.upload_id, sent
        return self._client._create_multipart_upload(self._bucket, key, {"x-amz-meta-sha256": digest}), {}

    def _sent(self, key: str, upload: str) -> dict[int, Sent] | None:
        found: dict[int, Sent] = {}
        marker = None
        while True:
            try:
                answer = self._client._list_parts(self._bucket, key, upload, part_number_marker=marker)
            except S3Error as error:
                if error.code == "NoSuchUpload":
                    return None
                raise
            found |= {part.part_number: Sent(part.etag.strip('"'), part.size) for part in answer.parts}
            marker = str(answer.next_part_number_marker or "")
            if not answer.is_truncated or not answer.parts:
                return found

    def _uploads(self, prefix: str) -> list[Upload]:
        found: list[Upload] = []
        marker = None
        while True:
            answer = self._client._list_multipart_uploads(self._bucket, prefix=prefix, key_marker=marker)
            found += [
                Upload(each.object_name, str(each.upload_id), each.initiated_time) for each in answer.uploads
            ]
            marker = answer.next_key_marker
            if not answer.is_truncated or not answer.uploads:
                return found

    def _abort_uploads(self, prefix: str, older_than: timedelta) -> int:
        before = datetime.now(UTC) - older_than
        old = [each for each in self._uploads(prefix) if each.begun is None or each.begun <= before]
        for upload in old:
            try:
                self._client._abort_multipart_upload(self._bucket, upload.object_name, upload.upload_id)
            except S3Error as error:
                if error.code != "NoSuchUpload":
                    raise
        return len(old)

    def _is_whole(self, key: str, digest: str) -> bool:
        """Whether what is stored can be read. A server that finds it damaged on its disk only says 500."""
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


class Upload(NamedTuple):
    """An upload in parts that was begun and not completed."""

    object_name: str
    upload_id: str
    begun: datetime | None


def _changed(key: str) -> Changed:
    return Changed(f"the file for {key} was written to while it was being stored")
