"""Search for the first bad commit of a history, by halves. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(slots=True)
class Bisection:
    """A history after a good commit, oldest first, whose last commit is bad."""

    commits: Sequence[str]
    # Index of the newest commit that is known to be good (-1 is the one before the history), and of the
    # oldest that is known to be bad.
    good: int = -1
    bad: int = field(init=False)

    def __post_init__(self) -> None:
        self.bad = len(self.commits) - 1

    @property
    def found(self) -> str | None:
        """The first bad commit, once it is known."""
        return self.commits[self.bad] if self.bad - self.good == 1 else None

    @property
    def next(self) -> str:
        """The commit to try."""
        return self.commits[(self.good + self.bad) // 2]

    @property
    def left(self) -> int:
        """Runs that are still needed, at most."""
        return max(0, (self.bad - self.good - 1).bit_length())

    def record(self, commit: str, good: bool) -> None:
        """Note the verdict on a commit."""
        index = list(self.commits).index(commit)
        if good:
            self.good = max(self.good, index)
        else:
            self.bad = min(self.bad, index)


def is_good(value: float, threshold: float, good: float) -> bool:
    """Whether a value is on the good run's side of the threshold."""
    return value >= threshold if good >= threshold else value < threshold
