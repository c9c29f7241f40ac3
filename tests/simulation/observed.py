"""Rare branches of the product that report when a schedule reaches them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any
from unittest.mock import patch

from runspine.eventlog import ConflictError, UnknownOutcomeError, publisher
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.projection import BehindError, Projector
from runspine.services.orchestrator.core.leases import Leases
from runspine.services.telemetry.edges.manifest_chain import CommitLostError, ManifestChain
from runspine.services.worker.attempt.attempt import Attempt
from runspine.services.worker.attempt.recovery import Recovery
from runspine.services.worker.telemetry.shipper import Shipper
from runspine.storage.file_blobs import FileBlobs

Reach = Callable[[str], None]


@contextmanager
def observed(reach: Reach) -> Iterator[None]:
    """Count the branches while it is open. A fault that was switched back on stays so."""
    with ExitStack() as stack:
        stack.enter_context(patch.object(JetStreamLog, "_own_or_conflict", _looked_up(reach)))
        stack.enter_context(patch.object(publisher, "_is_behind", _behind(reach)))
        stack.enter_context(patch.object(Projector, "require", _required(reach)))
        stack.enter_context(patch.object(Leases, "due_command", _due(reach)))
        stack.enter_context(patch.object(Attempt, "stop", _stopped(reach)))
        stack.enter_context(patch.object(Attempt, "_record_exit", _recorded(reach)))
        stack.enter_context(patch.object(Recovery, "_declare_lost", _lost(reach)))
        stack.enter_context(patch.object(Projector, "_read_to", _read_on(reach)))
        stack.enter_context(patch.object(FileBlobs, "_upload_of", _resumed(reach)))
        stack.enter_context(patch.object(ManifestChain, "commit", _committed(reach)))
        stack.enter_context(patch.object(Shipper, "drop", _dropped(reach)))
        yield


def _looked_up(reach: Reach) -> Any:
    before = JetStreamLog._own_or_conflict

    async def own_or_conflict(self: JetStreamLog, *arguments: Any) -> Any:
        try:
            version = await before(self, *arguments)
        except ConflictError:
            reach("log.conflict")
            raise
        except UnknownOutcomeError:
            reach("log.conflict_unknown")
            raise
        reach("log.own_found")
        return version

    return own_or_conflict


def _behind(reach: Reach) -> Any:
    before = publisher._is_behind

    def is_behind(*arguments: Any) -> bool:
        found = before(*arguments)
        if found:
            reach("publisher.answer_behind")
        return found

    return is_behind


def _required(reach: Reach) -> Any:
    before = Projector.require

    async def require(self: Projector, stream: str, sequence: int) -> None:
        try:
            await before(self, stream, sequence)
        except BehindError:
            reach("board.behind")
            raise

    return require


def _due(reach: Reach) -> Any:
    before = Leases.due_command

    def due_command(self: Leases, *arguments: Any) -> Any:
        command = before(self, *arguments)
        if command is not None:
            reach(f"lease.{type(command).__name__}")
        return command

    return due_command


def _stopped(reach: Reach) -> Any:
    before = Attempt.stop

    def stop(self: Attempt, given: Any) -> None:
        reach("attempt.fenced" if given.fenced else "attempt.stopped")
        before(self, given)

    return stop


def _recorded(reach: Reach) -> Any:
    before = Attempt._record_exit

    async def record_exit(self: Attempt, exited: Any) -> bool:
        recorded = await before(self, exited)
        if not recorded:
            reach("attempt.late_exit_fenced")
        return recorded

    return record_exit


def _lost(reach: Reach) -> Any:
    before = Recovery._declare_lost

    async def declare_lost(self: Recovery, *arguments: Any) -> None:
        reach("attempt.declared_lost")
        await before(self, *arguments)

    return declare_lost


def _read_on(reach: Reach) -> Any:
    before = Projector._read_to

    async def read_to(self: Projector, stream: str, end: int) -> None:
        if self.cursors[stream].sequence:
            reach("snapshot.behind")
        await before(self, stream, end)

    return read_to


def _resumed(reach: Reach) -> Any:
    before = FileBlobs._upload_of

    def upload_of(self: FileBlobs, *arguments: Any) -> Any:
        upload, sent = before(self, *arguments)
        if sent:
            reach("upload.resumed")
        return upload, sent

    return upload_of


def _committed(reach: Reach) -> Any:
    before = ManifestChain.commit

    async def commit(self: ManifestChain, *arguments: Any) -> None:
        try:
            await before(self, *arguments)
        except CommitLostError:
            reach("ingest.commit_lost")
            raise

    return commit


def _dropped(reach: Reach) -> Any:
    before = Shipper.drop

    async def drop(self: Shipper) -> None:
        reach("spool.dropped")
        await before(self)

    return drop
