"""Readers of the log that keep state and cursors together, and store snapshots of both."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import time
import zlib
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Protocol, runtime_checkable

import structlog
from google.protobuf.message import DecodeError
from prometheus_client import Gauge

from runspine.clock import now_micros
from runspine.eventlog import EventLog, Recorded
from runspine.eventlog.admission import Admission, Admitted, describe
from runspine.storage.blobs import Blobs, BlobsUnavailableError
from runspine.wire.v1.run_pb2 import ChainState, Cursor, Quarantine, Snapshot

log = structlog.get_logger()

KEPT_SNAPSHOTS = 3
QUARANTINED = Gauge(
    "runspine_quarantined_subjects", "Subjects with messages that this reader does not accept", ["stream"]
)


class LogWentBackwardsError(Exception):
    """The log is shorter than at an earlier read, or has another commit at the reader's position."""


class BehindError(Exception):
    """This reader has not read up to a position of the log yet."""


class Projection(Protocol):
    """State that is folded from streams of the log."""

    name: str
    schema: int
    streams: tuple[str, ...]

    def apply(self, recorded: Recorded) -> None:
        """Fold one commit. Must not fail on any commit that was ever written."""

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        """Note that a subject is quarantined, or released when `released` is set."""

    def dump(self) -> bytes:
        """The whole state."""

    def load(self, state: bytes) -> None:
        """Replace the state by one that `dump` returned."""


@runtime_checkable
class Captured(Protocol):
    """A projection whose state is assembled outside of the event loop."""

    def capture(self) -> Callable[[], bytes]:
        """A function that returns what `dump` would have returned at this moment, from any thread."""


class Projector:
    """Feeds a projection from the log, exactly once and in order for each stream."""

    def __init__(self, event_log: EventLog, blobs: Blobs | None, projection: Projection) -> None:
        self._log = event_log
        self._blobs = blobs
        self._projection = projection
        self._moved = asyncio.Condition()
        self._since_snapshot = 0
        self.admission = Admission(authors=event_log.authors)
        self.applied = 0
        self.cursors = {stream: Cursor() for stream in projection.streams}
        self.witnesses: dict[str, Cursor] = {}
        self.snapshot_trouble = ""

    async def start(self) -> None:
        """Restore the newest snapshot and read up to the current end of the log."""
        began = time.monotonic()
        await self._restore()
        restored = sum(cursor.sequence for cursor in self.cursors.values())
        for stream in self._projection.streams:
            QUARANTINED.labels(stream)  # 0 is shown, too
            end = (await self._log.extent(stream)).last
            if end > self.cursors[stream].sequence:
                await self._read_to(stream, end)
        total = sum(cursor.sequence for cursor in self.cursors.values())
        log.info(
            "projection.ready",
            projection=self._projection.name,
            restored=restored,
            replayed=total - restored,
            seconds=round(time.monotonic() - began, 3),
        )

    async def follow(self, stream: str) -> None:
        """Apply new commits of one stream; never returns."""
        after = self.cursors[stream].sequence
        async with aclosing(self._log.follow(stream, after=after)) as records:
            async for recorded in records:
                self._apply(recorded)
                async with self._moved:
                    self._moved.notify_all()

    async def reached(self, stream: str, sequence: int, timeout: float = 2.0) -> bool:
        """Wait until a position is applied; False after the timeout."""
        try:
            async with asyncio.timeout(timeout), self._moved:
                await self._moved.wait_for(lambda: self.cursors[stream].sequence >= sequence)
        except TimeoutError:
            return False
        return True

    async def require(self, stream: str, sequence: int) -> None:
        """Wait until a position is applied. Raises BehindError: an answer now would be older than the log."""
        if not await self.reached(stream, sequence):
            raise BehindError(
                f"position {sequence} of {stream} is stored, but this process has read only to "
                f"{self.cursors[stream].sequence}: repeat the call"
            )

    async def moves(self, timeout: float) -> AsyncIterator[None]:
        """Yield whenever commits were applied, and at the latest after `timeout`."""
        seen = -1
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(timeout), self._moved:
                    await self._moved.wait_for(lambda: self.applied != seen)  # noqa: B023 - waited for here
            seen = self.applied
            yield

    async def keep_snapshots(self, every_commits: int, every_seconds: float) -> None:
        """Store a snapshot after so many commits or seconds; never returns."""
        last = time.monotonic()
        while True:
            await asyncio.sleep(1)
            old = time.monotonic() - last > every_seconds and self._since_snapshot > 0
            if old or self._since_snapshot >= every_commits:
                await self.snapshot()
                last = time.monotonic()

    async def snapshot(self) -> None:
        """Store the state and its cursors. An error of S3 is logged and not raised."""
        if self._blobs is None:
            return
        snapshot = Snapshot(
            projection=self._projection.name,
            schema=self._projection.schema,
            cursors=self.cursors,
            at=now_micros(),
        )
        state, chains = _captured(self._projection), self.admission.capture()
        count, self._since_snapshot = self._since_snapshot, 0
        prefix = self._prefix()
        try:
            data = await asyncio.to_thread(_pack, snapshot, state, chains)
            await self._blobs.put(f"{prefix}{snapshot.at:020d}", data)
            for key in (await self._blobs.keys(prefix))[:-KEPT_SNAPSHOTS]:
                await self._blobs.delete(key)
        except BlobsUnavailableError as error:
            self._since_snapshot += count
            self.snapshot_trouble = str(error)
            log.warning("projection.snapshot_failed", error=str(error))
            return
        self.snapshot_trouble = ""
        self.witnesses = {stream: _copy(cursor) for stream, cursor in snapshot.cursors.items()}
        log.info("projection.snapshot", projection=self._projection.name, bytes=len(data))

    def _prefix(self) -> str:
        return f"snapshots/{self._projection.name}/"

    async def _read_to(self, stream: str, end: int) -> None:
        after = self.cursors[stream].sequence
        async with aclosing(self._log.follow(stream, after=after)) as records:
            async for recorded in records:
                self._apply(recorded)
                if recorded.sequence >= end:
                    return

    def _apply(self, recorded: Recorded) -> None:
        admitted = self.admission.admit(recorded)
        if admitted is Admitted.ACCEPTED:
            self._projection.apply(recorded)
        elif admitted is not Admitted.KEY:
            self._quarantine(recorded, admitted)
        cursor = self.cursors[recorded.stream]
        cursor.sequence, cursor.digest = recorded.sequence, recorded.computed_digest
        self._since_snapshot += 1
        self.applied += 1

    def _quarantine(self, recorded: Recorded, admitted: Admitted) -> None:
        """Pass on that a subject is quarantined now, or no longer."""
        if admitted is Admitted.RELEASED:
            quarantine = self.admission.last_of(recorded.subject)
            log.warning("log.released", subject=recorded.subject, position=recorded.sequence)
        else:
            quarantine = self.admission.quarantined[recorded.subject]
            if quarantine.messages == 1:
                log.error("log.quarantined", reason=describe(quarantine))
        self._projection.apply_quarantine(quarantine)
        self._count_quarantined()

    def _count_quarantined(self) -> None:
        counts = Counter(each.stream for each in self.admission.quarantined.values())
        for stream in self._projection.streams:
            QUARANTINED.labels(stream).set(counts[stream])

    async def _restore(self) -> None:
        """Load the newest valid snapshot; without one, the log is read from its start."""
        if self._blobs is None:
            return
        try:
            keys = await self._blobs.keys(self._prefix())
            for key in reversed(keys):
                snapshot = _unpack(await self._blobs.get(key) or b"")
                if snapshot is not None and snapshot.schema == self._projection.schema:
                    await self._check(snapshot)
                    self._projection.load(snapshot.state)
                    self.admission = Admission(snapshot.chains, self._log.authors)
                    for quarantine in self.admission.quarantined.values():
                        self._projection.apply_quarantine(quarantine)
                    self._count_quarantined()
                    for stream, cursor in snapshot.cursors.items():
                        self.cursors[stream].CopyFrom(cursor)
                        self.witnesses[stream] = _copy(cursor)
                    return
                log.warning("projection.snapshot_unusable", key=key)
        except BlobsUnavailableError as error:
            log.warning("projection.no_snapshot", error=str(error))

    async def _check(self, snapshot: Snapshot) -> None:
        """Raise LogWentBackwardsError unless the log has the commits that the snapshot was made from."""
        for stream, cursor in sorted(snapshot.cursors.items()):
            if cursor.sequence == 0:
                continue
            found = b""
            end = (await self._log.extent(stream)).last
            if end >= cursor.sequence:
                records = self._log.follow(stream, after=cursor.sequence - 1)
                async with aclosing(records):
                    found = (await anext(records)).computed_digest
            if found != cursor.digest:
                raise LogWentBackwardsError(
                    f"{stream} ends at {end} and no longer holds position {cursor.sequence} as it was "
                    "read before: commits were lost. Run `runspine events verify`, restore the backup, "
                    "or set RUNSPINE_IGNORE_SNAPSHOT=1 to continue with what is left."
                )


def _copy(cursor: Cursor) -> Cursor:
    return Cursor(sequence=cursor.sequence, digest=cursor.digest)


def _captured(projection: Projection) -> Callable[[], bytes]:
    if isinstance(projection, Captured):
        return projection.capture()
    state = projection.dump()
    return lambda: state


def _pack(snapshot: Snapshot, state: Callable[[], bytes], chains: Callable[[], ChainState]) -> bytes:
    snapshot.state = state()
    snapshot.chains.CopyFrom(chains())
    body = zlib.compress(snapshot.SerializeToString(), 1)
    return hashlib.sha256(body).digest() + body


def _unpack(data: bytes) -> Snapshot | None:
    digest, body = data[:32], data[32:]
    if hashlib.sha256(body).digest() != digest:
        return None
    try:
        return Snapshot.FromString(zlib.decompress(body))
    except (DecodeError, zlib.error):
        return None
