"""Where attempts spool, and how much they may hold together."""

from __future__ import annotations

import asyncio
import contextlib
import os
from pathlib import Path

from services.worker.metrics import SPOOL_BYTES, SPOOL_IS_FULL, SPOOL_LIMIT
from services.worker.note import Note


class Spools:
    """The budget of all attempts of a worker. Full means wait: nothing is dropped."""

    def __init__(self, worker_dir: Path, most_bytes: int) -> None:
        self._root = worker_dir / "spool"
        self._freed = asyncio.Event()
        self.most_bytes = most_bytes
        self.used = 0
        # The disk itself has no room, whatever the budget says.
        self.disk_full = False
        # Of attempts that are being shipped: the last batch that the stream has.
        self._acked: dict[str, int] = {}
        SPOOL_LIMIT.set(most_bytes)
        SPOOL_IS_FULL.set_function(lambda: float(self.full))

    @property
    def full(self) -> bool:
        return self.disk_full or self.used >= self.most_bytes

    @property
    def which(self) -> str:
        """What is full, when something is."""
        return "the disk" if self.disk_full else f"the spool ({self.most_bytes >> 20} MiB)"

    @property
    def spacious(self) -> bool:
        """Whether a reader that was stopped may go on: not for every batch that is stored."""
        return not self.disk_full and self.used <= self.most_bytes * 3 // 4

    @property
    def segment_bytes(self) -> int:
        """Small enough that a small budget is given back in parts."""
        return max(64 << 10, min(8 << 20, self.most_bytes // 8))

    def folder(self, name: str) -> Path:
        """Of an attempt, by its name <run>.<attempt>."""
        return self._root / name

    def names(self) -> list[str]:
        """Attempts that have left something here."""
        return (
            sorted(path.name for path in self._root.iterdir() if path.is_dir()) if self._root.is_dir() else []
        )

    def note(self, name: str) -> Note:
        """How far an attempt is; it outlives the spool, until the attempt's end is told."""
        return Note(self._root / f"{name}.note")

    def forget_notes(self, besides: set[str]) -> None:
        """Of attempts that nobody asks about any more."""
        for path in self._root.glob("*.note"):
            if path.stem not in besides:
                path.unlink(missing_ok=True)

    def shipped_to(self, name: str, number: int | None) -> None:
        """The stream has an attempt's batches up to here; None when nobody ships it any more."""
        if number is None:
            self._acked.pop(name, None)
        else:
            self._acked[name] = number

    def is_shipped(self, name: str) -> bool:
        return name in self._acked

    def acked(self, name: str) -> int | None:
        """The last batch of an attempt that the stream is known to have; None when there is no spool."""
        if name in self._acked:
            return self._acked[name]
        return 0 if self.folder(name).is_dir() else self.dropped(name)

    def drop(self, name: str, acked: int) -> None:
        """The rest of an attempt's spool is about to be thrown away. That is kept on disk: from then on
        nothing else tells a spool that was dropped from one that was shipped. Blocks."""
        with self._mark(name).open("w") as file:
            file.write(str(acked))
            file.flush()
            os.fsync(file.fileno())

    def dropped(self, name: str) -> int | None:
        """The last batch that the stream has of a spool that was thrown away; None when it was not."""
        try:
            return int(self._mark(name).read_text() or 0)
        except (FileNotFoundError, ValueError):
            return None

    def forget_dropped(self, besides: set[str]) -> None:
        """Of attempts that have nothing left to upload. Blocks."""
        for path in self._root.glob("*.dropped"):
            if path.stem not in besides:
                path.unlink(missing_ok=True)

    def _mark(self, name: str) -> Path:
        return self._root / f"{name}.dropped"

    def hold(self, size: int) -> None:
        self.used += size
        SPOOL_BYTES.inc(size)

    def free(self, size: int) -> None:
        self.used -= size
        SPOOL_BYTES.dec(size)
        self._freed.set()

    async def wait(self, seconds: float) -> None:
        """Until something was freed, or so long."""
        self._freed.clear()
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._freed.wait()
