"""The Launcher port: the operations of an engine."""

from __future__ import annotations

from typing import Protocol

from runspine.services.launcher.core.placement import Placement
from runspine.wire.v1.run_pb2 import Run


class EngineAwayError(Exception):
    """The engine does not answer or denies access; the message states why. Retried later."""


class NotLaunchableError(Exception):
    """The engine refuses this run as it is; the message states why."""


class Launcher(Protocol):
    """Starts and stops worker processes on an engine."""

    async def launch(self, run: Run) -> None:
        """Start a worker for this run's current attempt. Launching twice is harmless.

        Raises EngineAwayError, NotLaunchableError.
        """

    async def cancel(self, placement: Placement) -> None:
        """Stop a placement; no error when it is gone. Raises EngineAwayError."""

    async def placements(self) -> list[Placement]:
        """Every placement of this pool, also of earlier launcher processes. Raises EngineAwayError."""

    async def close(self) -> None:
        """Disconnect from the engine; placements stay."""
