"""Numbers and ids of episodes, by slot."""

from __future__ import annotations

import os


class EpisodeIds:
    """`<slot>-<number>`, with an end where an attempt or a child would use the same numbers again."""

    def __init__(self, end: str, *, child: bool) -> None:
        """`end` for all slots that are not restored; `child` for processes that may use the same slots."""
        self._numbers: dict[int, int] = {}
        self._ends: dict[int, str] = {}
        self._end = end
        # The process id distinguishes its episodes.
        self.child = child

    @property
    def end(self) -> str:
        """How ids end in slots that were not restored."""
        return self._end + (f"-{os.getpid()}" if self.child else "")

    def next(self, slot: int) -> tuple[int, str]:
        """Number and id of the slot's next episode."""
        number = self._numbers.get(slot, 0)
        self._numbers[slot] = number + 1
        return number, self.of(slot, number)

    def of(self, slot: int, number: int) -> str:
        end = self._ends.get(slot, self._end)
        return f"{slot}-{number}{end}" + (f"-{os.getpid()}" if self.child else "")

    def resume(self, slot: int, number: int, episode_id: str) -> None:
        """Name the next episodes of a slot as the one that is continued."""
        self._ends[slot] = "" if self.child else episode_id.removeprefix(f"{slot}-{number}")

    def skip(self, slot: int, number: int) -> None:
        """The numbers up to this one are used."""
        self._numbers[slot] = max(self._numbers.get(slot, 0), number + 1)
