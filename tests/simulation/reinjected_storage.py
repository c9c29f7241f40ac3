"""Faults of telemetry, uploads and artifacts that Runspine once had, switched back on."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from unittest.mock import patch

from runspine.services.telemetry.core.line_order import LineOrder
from runspine.services.telemetry.core.rows import Arrival
from runspine.services.worker.telemetry.assembly.step_origin import StepOrigin
from runspine.storage import blobs
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


Injection = Callable[[], AbstractContextManager[None]]
STORAGE_INJECTIONS: Mapping[str, tuple[Injection, str]] = {
    "lines-as-stored": (lines_as_stored, "telemetry"),
    "steps-from-zero": (steps_from_zero, "telemetry"),
    "not-synced": (not_synced, "artifacts"),
    "gone-at-once": (gone_at_once, "artifacts"),
}
