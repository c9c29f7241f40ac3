"""A run's batches of several kinds as one stream: kind after kind, or side by side while they arrive."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any

from runspine.errors import RunspineError
from runspine.sinks.port import Mark
from runspine.telemetry_reader import TelemetryReader

WAITING = 256
PAUSE = 0.2
# A kind and a batch of it; without a kind: nothing just now, the end of a kind, or an error.
Item = tuple[str | None, Any]


def one_by_one(reader: TelemetryReader, run_id: str, kinds: tuple[str, ...], mark: Mark) -> Iterator[Item]:
    """What there is after the mark."""
    for kind in kinds:
        for batch in reader.batches(run_id, kind, after=mark.after(kind)):
            yield kind, batch


def side_by_side(reader: TelemetryReader, run_id: str, kinds: tuple[str, ...], mark: Mark) -> Iterator[Item]:
    """What there is and what comes until the run has ended; (None, None) when nothing has for a moment.

    Threads that wait for a batch end when the client of the reader is closed.
    """
    arriving: queue.Queue[Item] = queue.Queue(WAITING)
    over = threading.Event()
    for kind in kinds:
        start = (reader, run_id, kind, mark.after(kind), arriving, over)
        threading.Thread(target=_read, args=start, daemon=True).start()
    reading = len(kinds)
    try:
        while reading:
            try:
                item = arriving.get(timeout=PAUSE)
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
    reader: TelemetryReader,
    run_id: str,
    kind: str,
    after: int,
    arriving: queue.Queue[Item],
    over: threading.Event,
) -> None:
    """One kind into the queue; the last item has no kind, and the error that ended it if one did."""
    try:
        for batch in reader.batches(run_id, kind, after=after, follow=True):
            if not _put(arriving, (kind, batch), over):
                return
        _put(arriving, (None, None), over)
    except RunspineError as error:
        _put(arriving, (None, error), over)
    except ValueError:
        # The client was closed between two tries of the stream: nobody listens any more.
        if not over.is_set():
            raise


def _put(arriving: queue.Queue[Item], item: Item, over: threading.Event) -> bool:
    """Wait for room; False when nobody takes anything any more."""
    while not over.is_set():
        try:
            arriving.put(item, timeout=PAUSE)
        except queue.Full:
            continue
        return True
    return False
