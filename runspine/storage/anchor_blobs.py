"""Objects of witnesses: locked against removal where the bucket offers that."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

import structlog

from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs
from runspine.storage.minio_py import COMPLIANCE, Retention, S3Error

log = structlog.get_logger()

# What servers answer when a bucket has no object lock, or they know none.
NO_LOCK = ("InvalidRequest", "NotImplemented", "ObjectLockConfigurationNotFoundError", "InvalidBucketState")


class AnchorBlobs(S3Blobs):
    """Objects in the bucket of the witnesses, kept for `lock_days` where the server can."""

    def __init__(self, settings: ServiceSettings, bucket: str = "", lock_days: int = 0) -> None:
        super().__init__(settings.model_copy(update={"s3_bucket": bucket or settings.s3_bucket}))
        self._lock_days = lock_days
        self._refused = False

    async def put_locked(self, key: str, data: bytes) -> bool:
        """Store an object; whether it is locked against removal."""
        return await self._call(self._put_locked, key, data)

    def _put_locked(self, key: str, data: bytes) -> bool:
        if not self._lock_days:
            self._put(key, data)
            return False
        until = datetime.now(UTC) + timedelta(days=self._lock_days)
        try:
            self._client.put_object(
                self._bucket, key, io.BytesIO(data), len(data), retention=Retention(COMPLIANCE, until)
            )
        except S3Error as error:
            if error.code not in NO_LOCK:
                raise
            self._put(key, data)
            self._note_refused(error)
            return False
        self._sync()
        # A server may take the request and ignore the lock.
        locked = self._is_locked(key)
        if not locked:
            self._note_refused(None)
        return locked

    def _is_locked(self, key: str) -> bool:
        try:
            found = self._client.get_object_retention(self._bucket, key)
        except S3Error:
            return False
        return found is not None and found.mode == COMPLIANCE

    def _note_refused(self, error: S3Error | None) -> None:
        if not self._refused:
            self._refused = True
            log.warning(
                "anchor.not_locked",
                bucket=self._bucket,
                error=str(error or "no retention"),
                remedy="witnesses are not locked: set RUNSPINE_ANCHOR_BUCKET to one with object lock",
            )
