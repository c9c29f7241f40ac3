"""Uploads without a key of S3: the artifacts service signs each request, for one attempt and one object."""

from __future__ import annotations

import asyncio
import contextlib
import copy
import itertools
from collections.abc import AsyncIterator, Mapping
from datetime import timedelta
from functools import partial
from typing import ClassVar

from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import UPLOAD_REPLIES
from runspine.eventlog.subjects import uploads_subject
from runspine.settings import ServiceSettings
from runspine.storage.file_blobs import FileBlobs
from runspine.storage.keys import checksum
from runspine.storage.s3_requests import NotSignedError, S3Requests
from runspine.wire.v1.uploads_pb2 import SignUploadReply, SignUploadRequest

ANSWER_SECONDS = 10.0
# Reading a large object that may be damaged takes longer.
READ_SECONDS = 600.0


class UploadSignatures:
    """Asks the artifacts service for signatures, while it is open."""

    def __init__(self, link: NatsConnection, worker_id: str) -> None:
        self._link = link
        self._subject = uploads_subject(worker_id)
        self._inbox = f"{UPLOAD_REPLIES}.{link.token}"
        self._numbers = itertools.count(1)
        self._asked: dict[str, asyncio.Future[CoreMessage]] = {}
        self._loop = asyncio.get_running_loop()

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Receive answers while the context is open."""
        async with messages_of(self._link, f"{self._inbox}.*", self._receive):
            yield

    def ask(self, request: SignUploadRequest, seconds: float = ANSWER_SECONDS) -> SignUploadReply:
        """The answer; called in a thread. Raises NotSignedError."""
        return asyncio.run_coroutine_threadsafe(self._answer(request, seconds), self._loop).result()

    async def _answer(self, request: SignUploadRequest, seconds: float) -> SignUploadReply:
        number = str(next(self._numbers))
        arriving = self._asked[number] = self._loop.create_future()
        try:
            async with asyncio.timeout(seconds):
                if not await try_publish(
                    self._link, self._subject, request.SerializeToString(), f"{self._inbox}.{number}"
                ):
                    raise NotSignedError("the request to sign an upload was not sent: NATS is not connected")
                message = await arriving
        except TimeoutError:
            raise NotSignedError(f"the artifacts service did not answer within {seconds:.0f} s") from None
        finally:
            del self._asked[number]
        if message.nobody:
            raise NotSignedError("no artifacts service is running, which signs uploads")
        answer = SignUploadReply.FromString(message.data)
        if answer.refused:
            raise NotSignedError(f"the artifacts service does not sign the upload: {answer.refused}")
        return answer

    def _receive(self, message: CoreMessage) -> None:
        waiting = self._asked.get(message.subject.rpartition(".")[2])
        if waiting is not None and not waiting.done():
            waiting.set_result(message)


class SignedFileBlobs(FileBlobs):
    """FileBlobs that writes artifacts by signatures alone. It reads with the worker's own key."""

    _condition: ClassVar[dict[str, str]] = {"If-None-Match": "*"}

    def __init__(self, settings: ServiceSettings, signatures: UploadSignatures) -> None:
        super().__init__(settings)
        self._settings = settings
        self._signatures = signatures
        self._attempt = ("", 0)

    def for_attempt(self, run_id: str, attempt: int) -> FileBlobs:
        made = copy.copy(self)
        made._attempt = (run_id, attempt)
        signer = partial(_signed, self._signatures, run_id, attempt)
        made._requests = S3Requests(self._settings, self._client, self._http, signer)
        return made

    async def abort_uploads(self, prefix: str, older_than: timedelta = timedelta(0)) -> int:
        """Of one attempt; the artifacts service aborts what is left of others."""
        return await super().abort_uploads(prefix, older_than) if self._attempt[0] else 0

    def _clear(self, key: str) -> None:
        run_id, attempt = self._attempt
        request = SignUploadRequest(run_id=run_id, attempt=attempt, key=key, remove_damaged=True)
        self._signatures.ask(request, READ_SECONDS)

    def _checksum(self, digest: str) -> dict[str, str]:
        return {"x-amz-checksum-sha256": checksum(digest)}


def _signed(
    signatures: UploadSignatures,
    run_id: str,
    attempt: int,
    method: str,
    key: str,
    query: Mapping[str, str],
    headers: Mapping[str, str],
    payload: str,
) -> Mapping[str, str]:
    request = SignUploadRequest(run_id=run_id, attempt=attempt, key=key, method=method, payload=payload)
    request.query.update(query)
    request.headers.update(headers)
    return dict(signatures.ask(request).headers)
