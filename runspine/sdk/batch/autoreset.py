"""When the envs of a batch are reset: as the env states it, else as its steps show it."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from runspine.sdk.batch.rows import Array, on_host

NEXT_STEP, SAME_STEP, DISABLED, UNKNOWN = "NextStep", "SameStep", "Disabled", ""
FINAL = ("final_obs", "final_observation", "terminal_observation")
# Ended episodes after which an env that shows nothing is no longer looked at.
MAX_LOOKS = 100
# After so many, zeros among other rewards show that a reward of 0 means nothing.
MIN_LOOKS = 8


def stated_mode(env: Any) -> str:
    """The mode that the env states, and the one of Gymnasium's own vector envs before 1.0; else UNKNOWN."""
    mode = (getattr(env, "metadata", None) or {}).get("autoreset_mode")
    if mode is not None:
        return str(getattr(mode, "value", mode))
    version = str(getattr(sys.modules.get("gymnasium"), "__version__", ""))
    return SAME_STEP if version.startswith("0.") else UNKNOWN


def has_final(infos: Any) -> bool:
    """Whether infos hold the last observations of envs that were reset in the same step."""
    return isinstance(infos, Mapping) and any(name in infos for name in FINAL)


class Autoreset:
    """The mode of one env. While it is unknown, every step is recorded: none is lost by a wrong guess.

    An env that resets in the next step ignores the action of that step: its reward is 0, it does not end, and
    its observation is a first one. Anything else after an end shows that the env was reset in the same step.
    """

    def __init__(self, mode: str, note: Callable[[str], None], mark: Callable[[str], None]) -> None:
        self.mode = mode
        self._note, self._mark = note, mark
        self._looks = 0
        # Rewards of other steps, and how many of them are 0.
        self._others = self._zeros = 0
        self._first: Array | None = None
        self._last: Array | None = None
        self._ended: Array | None = None

    @property
    def known(self) -> bool:
        return self.mode != UNKNOWN

    def begin(self, observations: Any) -> None:
        """The envs were reset by a call."""
        self._ended = None
        if not self.known and hasattr(observations, "shape"):
            self._first = np.array(on_host(observations))

    def look(self, observations: Any, rewards: Any, done: Array, infos: Any) -> None:
        """Take in one step, before it is recorded; only while the mode is unknown."""
        if has_final(infos):
            self._decide(SAME_STEP)
            return
        seen = on_host(observations) if hasattr(observations, "shape") else None
        ended = self._ended
        given = on_host(rewards)
        others = given if ended is None else given[~ended]
        self._others += len(others)
        self._zeros += len(others) - int(np.count_nonzero(others))
        if ended is not None and ended.any():
            self._check(ended, given[ended], done[ended], seen)
        if not self.known:
            self._ended = done.copy()
            self._last = None if seen is None else np.array(seen)

    def _check(self, ended: Array, rewards: Array, done: Array, seen: Array | None) -> None:
        if rewards.astype(bool).any() or done.any():
            self._decide(SAME_STEP)
            return
        first, last = self._first, self._last
        if first is not None and last is not None and seen is not None and first.shape == seen.shape:
            # Only an env that always begins in the same way shows anything here.
            now, before = _equal(seen[ended], first[ended]), _equal(last[ended], first[ended])
            if now != before:
                self._decide(NEXT_STEP if now else SAME_STEP)
                return
        self._looks += int(ended.sum())
        if self._looks >= MIN_LOOKS and self._others >= 10 * MIN_LOOKS and not self._zeros:
            # Every step has a reward, but for those after an end.
            self._decide(NEXT_STEP)
            return
        if self._looks == int(ended.sum()):
            self._note(IN_QUESTION)
            self._mark("SameStep, assumed")
        if self._looks >= MAX_LOOKS:
            self.mode = SAME_STEP

    def _decide(self, mode: str) -> None:
        self.mode = mode
        self._mark(f"{mode}, detected")
        self._note(f"this vector env does not state when it resets its envs; its steps show {mode}")


def _equal(rows: Array, others: Array) -> bool:
    return bool(np.array_equal(rows, others))


IN_QUESTION = (
    "this vector env does not state when it resets its envs, and its steps do not show it: every step is "
    "recorded as one of an episode; if it resets in the next step, the first step of each episode is that "
    'reset. Set metadata["autoreset_mode"] of the env to be sure'
)
