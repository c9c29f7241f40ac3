"""Faults of telemetry, uploads and artifacts that Runspine once had, switched back on."""

from __future__ import annotations

import asyncio
import heapq
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, suppress
from typing import Any
from unittest.mock import patch

from runspine.services.telemetry.core import rows
from runspine.services.telemetry.core.line_order import LineOrder
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog, ManifestChain
from runspine.services.worker.artifacts import resume
from runspine.services.worker.artifacts.intents import Intent
from runspine.services.worker.artifacts.upload_queue import UploadQueue
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.services.worker.telemetry.assembly.step_origin import StepOrigin
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.services.worker.telemetry.precedence import Precedence
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.storage import blobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs
from runspine.storage.missing import MissingObjects


@contextmanager
def lines_as_stored() -> Iterator[None]:
    """Log lines were given in the order of the stream, also when a batch had been sent again."""

    def add(_: LineOrder, arrival: Arrival) -> list[Arrival]:
        return [arrival]

    with patch.object(LineOrder, "add", add):
        yield


@contextmanager
def steps_from_zero() -> Iterator[None]:
    """A trainer that resumed and counted from 0 gave its steps the numbers of steps that were there."""
    with (
        patch.object(StepOrigin, "counter", lambda _, reported, __: reported),
        patch.object(StepOrigin, "episode", lambda _, reported: reported),
        patch.object(StepOrigin, "announced", lambda _, step: step),
    ):
        yield


@contextmanager
def counter_of_arrival() -> Iterator[None]:
    """Steps without a counter of the trainer's had one by their arrival, also when a batch was sent again."""
    with patch.object(rows, "steps_before", lambda _: None):
        yield


@contextmanager
def not_synced() -> Iterator[None]:
    """Objects were acknowledged before they were on the disk: a loss of power lost them."""
    with patch.object(blobs.S3Blobs, "_sync", lambda _: None):
        yield


@contextmanager
def gone_at_once() -> Iterator[None]:
    """An object that a server which has just started did not find counted as gone."""

    async def confirmed(*_: object) -> bool:
        return True

    with patch.object(MissingObjects, "confirmed", confirmed):
        yield


@contextmanager
def file_before_steps() -> Iterator[None]:
    """A file was accepted when its line was read: the steps before it were not on the disk yet."""

    def add_file(self: TelemetryPipeline, fields: dict[str, Any]) -> None:
        self._on_artifact(fields, self._last)

    with patch.object(TelemetryPipeline, "_add_file", add_file):
        yield


@contextmanager
def checkpoint_overtakes() -> Iterator[None]:
    """A checkpoint was published as soon as it was stored, before its steps were on the stream."""

    async def wait_for_batch(*_: object) -> bool:
        return True

    with patch.object(Precedence, "wait_for_batch", wait_for_batch):
        yield


@contextmanager
def drop_forgotten() -> Iterator[None]:
    """A worker forgot that it had dropped a spool: the checkpoint passed for one whose steps were shipped."""
    with (
        patch.object(SpoolDirectory, "drop", lambda *_: None),
        patch.object(SpoolDirectory, "dropped", lambda *_: None),
    ):
        yield


@contextmanager
def late_checkpoint() -> Iterator[None]:
    """An attempt went on from the newest checkpoint of any earlier one."""
    with patch.object(resume, "resumable_checkpoints", lambda _, history: resume.checkpoints(history)):
        yield


@contextmanager
def history_reread() -> Iterator[None]:
    """Each stored file had the whole history of its attempts read again: 20,000 files took hours."""
    before = FactWriter._commit

    async def commit(self: FactWriter, subject: str, entry: Any, decide: Any) -> Any:
        entry.history = None
        return await before(self, subject, entry, decide)

    with patch.object(FactWriter, "_commit", commit):
        yield


@contextmanager
def damaged_first() -> Iterator[None]:
    """An upload waited until S3 gave what it has under the digest, damaged, and all others behind it."""

    def is_whole(self: FileBlobs, key: str, digest: str) -> bool:
        return self._digest(key) == digest

    def postpone(self: UploadQueue, intent: Intent, _: float) -> None:
        heapq.heappush(self._queued, (False, -1, intent.id))

    with patch.object(FileBlobs, "_is_whole", is_whole), patch.object(UploadQueue, "postpone", postpone):
        yield


@contextmanager
def manifest_missing() -> Iterator[None]:
    """A manifest that is listed and not found yet ended the telemetry service."""

    async def follow(self: ArchiveCatalog, seconds: float, except_for: Sequence[ManifestChain] = ()) -> None:
        while True:
            for chain in self.chains:
                if chain not in except_for or not chain.loaded:
                    with suppress(BlobsUnavailableError):
                        await chain.refresh()
            await asyncio.sleep(seconds)

    with patch.object(ArchiveCatalog, "follow", follow):
        yield


Injection = Callable[[], AbstractContextManager[None]]
STORAGE_INJECTIONS: Mapping[str, tuple[Injection, str]] = {
    "lines-as-stored": (lines_as_stored, "telemetry"),
    "steps-from-zero": (steps_from_zero, "telemetry"),
    "counter-of-arrival": (counter_of_arrival, "telemetry"),
    "not-synced": (not_synced, "artifacts"),
    "file-before-steps": (file_before_steps, "telemetry"),
    "checkpoint-overtakes": (checkpoint_overtakes, "telemetry"),
    "drop-forgotten": (drop_forgotten, "telemetry"),
    "late-checkpoint": (late_checkpoint, "telemetry"),
    "history-reread": (history_reread, "artifacts"),
    "damaged-first": (damaged_first, "telemetry"),
    "manifest-missing": (manifest_missing, "telemetry"),
    "gone-at-once": (gone_at_once, "artifacts"),
}
