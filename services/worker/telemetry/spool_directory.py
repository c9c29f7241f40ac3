"""The folder of all spools of a worker, and the limit of bytes that they share."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from runspine.services.worker.metrics import SPOOL_BYTES, SPOOL_IS_FULL, SPOOL_LIMIT
from runspine.services.worker.telemetry.last_progress import LastProgress


class SpoolDirectory:
    """The spools of all attempts. When it is full, trainers wait: nothing is dropped."""

    def __init__(self, worker_dir: Path, max_bytes: int) -> None:
        self._root = worker_dir / "spool"
        self._freed = asyncio.Event()
        self.max_bytes = max_bytes
        self.used = 0
        # The disk itself is full, whatever the limit.
        self.disk_full = False
        # Of attempts that are being shipped: the last batch on the stream.
        self._acked: dict[str, int] = {}
        SPOOL_LIMIT.set(max_bytes)
        SPOOL_IS_FULL.set_function(lambda: float(self.full))

    @property
    def full(self) -> bool:
        """Whether readers must wait."""
        return self.disk_full or self.used >= self.max_bytes

    @property
    def which(self) -> str:
        """What is full: the disk or the spool."""
        return "the disk" if self.disk_full else f"the spool ({self.max_bytes >> 20} MiB)"

    @property
    def spacious(self) -> bool:
        """Whether a waiting reader may continue: only at three quarters, not after every batch."""
        return not self.disk_full and self.used <= self.max_bytes * 3 // 4

    @property
    def segment_bytes(self) -> int:
        """Size of a segment file: small enough that a small limit is freed in parts."""
        return max(64 << 10, min(8 << 20, self.max_bytes // 8))

    def folder(self, name: str) -> Path:
        """The spool folder of an attempt, by its name <run>.<attempt>."""
        return self._root / name

    def names(self) -> list[str]:
        """Names of the attempts that have a spool."""
        return (
            sorted(path.name for path in self._root.iterdir() if path.is_dir()) if self._root.is_dir() else []
        )

    def note(self, name: str) -> LastProgress:
        """The last progress of an attempt; it outlives the spool, until the attempt's end is recorded."""
        return LastProgress(self._root / f"{name}.note")

    def forget_notes(self, except_names: set[str]) -> None:
        """Remove the notes of all other attempts."""
        for path in self._root.glob("*.note"):
            if path.stem not in except_names:
                path.unlink(missing_ok=True)

    def shipped_to(self, name: str, number: int | None) -> None:
        """Record the last batch of an attempt on the stream; None when shipping has ended."""
        if number is None:
            self._acked.pop(name, None)
        else:
            self._acked[name] = number

    def is_shipped(self, name: str) -> bool:
        """Whether a shipper is at work on this attempt."""
        return name in self._acked

    def acked(self, name: str) -> int | None:
        """The last batch of an attempt known to be on the stream; None when there is no spool."""
        if name in self._acked:
            return self._acked[name]
        return 0 if self.folder(name).is_dir() else self.dropped(name)

    def drop(self, name: str, acked: int) -> None:
        """Mark on disk that the rest of an attempt's spool is about to be discarded. Blocks.

        Only this mark distinguishes a dropped spool from a shipped one.
        """
        with self._mark(name).open("w") as file:
            file.write(str(acked))
            file.flush()
            os.fsync(file.fileno())

    def dropped(self, name: str) -> int | None:
        """The last batch on the stream of a dropped spool; None when it was not dropped."""
        try:
            return int(self._mark(name).read_text() or 0)
        except (FileNotFoundError, ValueError):
            return None

    def forget_dropped(self, except_names: set[str]) -> None:
        """Remove the marks of all other attempts. Blocks."""
        for path in self._root.glob("*.dropped"):
            if path.stem not in except_names:
                path.unlink(missing_ok=True)

    def _mark(self, name: str) -> Path:
        return self._root / f"{name}.dropped"

    def hold(self, size: int) -> None:
        """Count bytes that were spooled."""
        self.used += size
        SPOOL_BYTES.inc(size)

    def free(self, size: int) -> None:
        """Count bytes that were acknowledged or dropped."""
        self.used -= size
        SPOOL_BYTES.dec(size)
        self._freed.set()

    async def wait(self, seconds: float) -> None:
        """Wait until something was freed, at most `seconds`."""
        self._freed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._freed.wait()
