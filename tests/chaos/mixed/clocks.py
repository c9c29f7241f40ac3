"""Wall clocks of services that jump: a library of a page, built here, that the service is started with.

It reaches what asks the C library for the time, as Python does; nats-server and weed ask the kernel.
"""

from __future__ import annotations

import contextlib
import shutil
import struct
import subprocess
from collections.abc import Iterator
from pathlib import Path

SOURCE = Path(__file__).with_name("clock.c")


class Clocks:
    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._library = folder / "clock.so"
        subprocess.run(
            ["cc", "-O1", "-shared", "-fPIC", "-o", str(self._library), str(SOURCE)],
            check=True,
            capture_output=True,
        )

    @staticmethod
    def can_be_made() -> bool:
        return shutil.which("cc") is not None

    def variables(self, part: str) -> dict[str, str]:
        """What a process is started with to go by the clock of this name."""
        self._set(part, 0.0)
        return {"LD_PRELOAD": str(self._library), "CHAOS_CLOCK": str(self._folder / part)}

    @contextlib.contextmanager
    def jumped(self, part: str, seconds: float) -> Iterator[None]:
        self._set(part, seconds)
        try:
            yield
        finally:
            self._set(part, 0.0)

    def _set(self, part: str, seconds: float) -> None:
        path = self._folder / part
        # In place: the process has the file mapped.
        with path.open("r+b" if path.exists() else "w+b") as file:
            file.write(struct.pack("=q", int(seconds * 1e9)))
