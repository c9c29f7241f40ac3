"""Batches of several kinds of a run as one stream: sequentially, or merged while following."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from runspine.errors import RunspineError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.sinks.port import Mark

MAX_QUEUED = 256
POLL_SECONDS = 0.2
# A kind and a batch; without a kind: a timeout, the end of a stream, or an error.
Item = tuple[str | None, Any]


def read_stored(reader: TelemetryClient, run_id: str, kinds: tuple[str, ...], mark: Mark) -> Iterator[Item]:
    """Yield stored batches after the mark, kind by kind."""
    for kind in kinds:
        for batch in reader.batches(run_id, kind, after=mark.after(kind)):
            yield kind, batch


def follow_batches(
    reader: TelemetryClient, run_id: str, kinds: tuple[str, ...], mark: Mark
) -> Iterator[Item]:
    """Yield batches after the mark until the run has ended; (None, None) when none arrives for a while.

    The reading threads end when the client of the reader is closed.
    """
    arriving: queue.Queue[Item] = queue.Queue(MAX_QUEUED)
    over = threading.Event()
    for kind in kinds:
        start = (reader, run_id, kind, mark.after(kind), arriving, over)
        threading.Thread(target=_read, args=start, daemon=True).start()
    reading = len(kinds)
    try:
        while reading:
            try:
                item = arriving.get(timeout=POLL_SECONDS)
            except queue.Empty:
                yield None, None
                continue
            if isinstance(item[1], RunspineError):
                raise item[1]
            if item[0] is None:
                reading -= 1
            else:
                yield item
    finally:
        over.set()


def _read(
    reader: TelemetryClient,
    run_id: str,
    kind: str,
    after: int,
    arriving: queue.Queue[Item],
    over: threading.Event,
) -> None:
    """Put the batches of one kind into the queue; the last item has no kind, and an error if one occurred."""
    try:
        for batch in reader.batches(run_id, kind, after=after, follow=True):
            if not _put(arriving, (kind, batch), over):
                return
        _put(arriving, (None, None), over)
    except RunspineError as error:
        _put(arriving, (None, error), over)
    except ValueError:
        # The client was closed between two attempts to open the stream.
        if not over.is_set():
            raise


def _put(arriving: queue.Queue[Item], item: Item, over: threading.Event) -> bool:
    """Wait for room; False when the consumer has stopped."""
    while not over.is_set():
        try:
            arriving.put(item, timeout=POLL_SECONDS)
        except queue.Full:
            continue
        return True
    return False
