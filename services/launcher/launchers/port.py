"""The port: what an engine must be able to do."""

from __future__ import annotations

from typing import Protocol

from runspine.wire.v1.run_pb2 import Run
from services.launcher.core.seats import Seat


class Away(Exception):
    """The engine does not answer, or refuses us; the message says why. Asked again later."""


class NotLaunchable(Exception):
    """The engine will never take this run as it is; the message says why."""


class Launcher(Protocol):
    async def launch(self, run: Run) -> None:
        """Ask for a worker that serves this run's present attempt. Asking twice is harmless.

        Raises Away, NotLaunchable.
        """

    async def cancel(self, seat: Seat) -> None:
        """Take a seat away; no error when it is gone. Raises Away."""

    async def seats(self) -> list[Seat]:
        """Every seat of this pool, also of an earlier process of ours. Raises Away."""

    async def close(self) -> None:
        """Let go of the engine; seats stay."""
