"""A run of a tracker whose steps count on by themselves: trackio, swanlab."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from runspine.instrument.trackers.tracked_run import TrackedRun
from runspine.instrument.trackers.values import record_others, split
from runspine.instrument.trackers.wandb_run import files_of


class StepCounter:
    """Without a step: one more than the largest before."""

    def __init__(self, start: int = 0) -> None:
        self.next = start

    def taken(self, step: Any = None) -> int:
        found = self.next if step is None else int(step)
        self.next = max(self.next, found + 1)
        return found


class StepRecord:
    """What one `init` began."""

    def __init__(self, tracker: str, *, enabled: bool = True, start: int = 0) -> None:
        self.tracked = TrackedRun(tracker, enabled=enabled)
        self.steps = StepCounter(start)

    def log(self, values: Mapping[str, Any], step: Any = None) -> None:
        at = self.steps.taken(step)
        numbers, others = split(values)
        self.tracked.scalars(numbers, at)
        record_others(self.tracked, others, at)

    def artifact(self, given: Any, name: Any = None, kind: Any = None) -> None:
        if isinstance(given, (str, os.PathLike)):
            self.tracked.file(given, str(name or ""), artifact_type=str(kind or ""))
            return
        for entry, path in files_of(given):
            self.tracked.file(path, f"{given.name}/{entry}", artifact=str(given.name))
