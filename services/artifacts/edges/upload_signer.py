"""Signs the requests by which workers upload: they hold no key of S3 that writes artifacts."""

from __future__ import annotations

import asyncio
import re
from datetime import timedelta

import structlog
from google.protobuf.message import DecodeError

from runspine.clock import now_micros
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.core_nats import CoreMessage, messages_of, try_publish
from runspine.eventlog.permissions import UPLOAD_REPLIES
from runspine.eventlog.subjects import uploads_subject
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.upload_rights import why_not
from runspine.services.artifacts.edges.metrics import UPLOADS_SIGNED
from runspine.storage.artifact_blobs import ArtifactBlobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.keys import ARTIFACTS_PREFIX, digest_in
from runspine.wire.v1.uploads_pb2 import SignUploadReply, SignUploadRequest

log = structlog.get_logger()

# The only subjects that a reply goes to.
_REPLY = re.compile(re.escape(UPLOAD_REPLIES) + r"\.[0-9a-f]{1,32}\.[0-9]{1,20}\Z")
MAX_WAITING = 1000
# Damaged objects that are read at the same time.
MAX_READS = 2
# Incomplete multipart uploads older than this are aborted, and how often they are looked for.
ABANDONED_AFTER = timedelta(days=2)
ABORT_SECONDS = 6 * 3600.0


class UploadSigner:
    """Answers requests of workers while it runs."""

    def __init__(self, link: NatsConnection, catalog: ArtifactCatalog, blobs: ArtifactBlobs) -> None:
        self._link = link
        self._catalog = catalog
        self._blobs = blobs
        self._tasks: set[asyncio.Task[None]] = set()
        self._reads = asyncio.Semaphore(MAX_READS)

    async def run(self) -> None:
        """Until cancelled."""
        async with messages_of(self._link, uploads_subject("*"), self._receive):
            try:
                await self._abort_abandoned()
            finally:
                for task in self._tasks:
                    task.cancel()

    async def _abort_abandoned(self) -> None:
        """Parts of uploads that no worker continues, now and then."""
        while True:
            try:
                if count := await self._blobs.abort_uploads(ARTIFACTS_PREFIX, ABANDONED_AFTER):
                    log.info("upload.abandoned_aborted", uploads=count)
            except BlobsUnavailableError as error:
                log.info("upload.abandoned_not_listed", error=str(error))
            await asyncio.sleep(ABORT_SECONDS)

    def _receive(self, message: CoreMessage) -> None:
        if not _REPLY.match(message.reply) or len(self._tasks) >= MAX_WAITING:
            UPLOADS_SIGNED.labels("dropped").inc()
            return
        try:
            request = SignUploadRequest.FromString(message.data)
        except DecodeError:
            UPLOADS_SIGNED.labels("dropped").inc()
            return
        task = asyncio.create_task(self._answer(request, message.reply), name="sign-upload")
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, request: SignUploadRequest, reply: str) -> None:
        answer = await self._signed(request)
        UPLOADS_SIGNED.labels("refused" if answer.refused else "signed").inc()
        if answer.refused:
            log.info("upload.not_signed", run_id=request.run_id, key=request.key[:100], why=answer.refused)
        await try_publish(self._link, reply, answer.SerializeToString())

    async def _signed(self, request: SignUploadRequest) -> SignUploadReply:
        if why := why_not(request, self._catalog, now_micros()):
            return SignUploadReply(refused=why)
        try:
            if request.remove_damaged:
                return await self._remove_damaged(request.key)
            headers = self._blobs.sign(
                request.method, request.key, dict(request.query), dict(request.headers), request.payload
            )
        except BlobsUnavailableError as error:
            return SignUploadReply(refused=str(error))
        return SignUploadReply(headers=headers)

    async def _remove_damaged(self, key: str) -> SignUploadReply:
        """Remove an object whose bytes do not have the digest of its key; one that is whole stays."""
        async with self._reads:
            if await self._blobs.is_damaged(key, digest_in(key)):
                log.warning("upload.damaged_removed", key=key)
                await self._blobs.delete(key)
        return SignUploadReply()
