"""What a run asks of its recorders, of one slot or of many."""

from __future__ import annotations

from collections.abc import Sized
from typing import Protocol


class Recorder(Protocol):
    """Keeps rows until they are written."""

    # The first of its slots, and how many there are.
    slot: int
    count: int
    # How many steps were written.
    counted: int
    # Time of the first row that waits.
    began: float

    @property
    def rewards(self) -> Sized:
        """As long as there are steps that are not written."""

    @property
    def steps(self) -> int:
        """All of them."""

    @property
    def cutting(self) -> bool:
        """Whether rows are being written, so that an exception would lose them."""

    def cut(self) -> None:
        """Write the rows so far."""

    def forked(self) -> None:
        """Reset the state after a fork."""
