"""Where a resumed attempt's step counter begins. Pure.

A trainer that resumes and counts its steps from 0 again would give them the numbers of steps that an earlier
attempt has recorded. They are counted from the checkpoint's step on instead.
"""

from __future__ import annotations

# The first counter of a trainer that counts from 0: its number of envs at most.
MAX_FIRST_COUNTER = 1024


class StepOrigin:
    """Moves counters of an attempt behind the step that it resumed at; decided by the first one."""

    def __init__(self, resumed_at: int) -> None:
        self._resumed_at = resumed_at
        self._offset: int | None = None if resumed_at else 0
        self._announced_offset: int | None = None

    @property
    def moved(self) -> bool:
        """Whether the trainer counts from 0 again."""
        return bool(self._offset)

    def counter(self, reported: int, steps_before: int) -> int:
        """The run's counter at a recorded step. `reported` is 0 where the trainer reports none;
        `steps_before` is how many steps of the attempt came before."""
        if self._offset is None:
            restarted = reported < self._resumed_at and reported <= MAX_FIRST_COUNTER
            self._offset = self._resumed_at if restarted else 0
        return self._offset + (reported or steps_before) if self._offset else reported

    def episode(self, reported: int) -> int:
        """The run's counter at the end of an episode."""
        return reported + (self._offset or 0) if reported else 0

    def announced(self, step: int) -> int:
        """The step of a checkpoint. One below the step resumed at cannot be meant as it stands."""
        if self._announced_offset is None:
            restarted = step < self._resumed_at or (self.moved and step == self._resumed_at)
            self._announced_offset = self._resumed_at if restarted else 0
        return step + self._announced_offset
