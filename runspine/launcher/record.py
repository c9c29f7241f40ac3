"""What the launcher knows of the script: its arguments, how far it says it is, and what was recorded."""

from __future__ import annotations

import dataclasses
import os
import sys
from collections.abc import Hashable, Mapping
from pathlib import Path
from typing import Any

from runspine.launcher.slots import Ledger, Place
from runspine.sdk.run import Run
from runspine.sdk.shortcuts import current_run
from runspine.sdk.text import plain

TRAINING, EVALUATION = 0, 1
# In the run's directory, between a script and its children.
TALLY = ".launcher-tally"
TELLS_RETURNS = ".launcher-tells-returns"
# So many episodes may end before the script must have said a return of its own.
PATIENCE = 3


class Record:
    """One for each process. What a child saw reaches the parent through a file of the run."""

    def __init__(self) -> None:
        self.script = ""
        self.ledger = Ledger()
        # Steps and episodes, of training and of the script's own evaluation.
        self.steps = [0, 0]
        self.episodes = [0, 0]
        self.metrics = 0
        # The largest step that the script gave to a scalar.
        self.told_step = 0
        self.tells_returns = False
        # Episodes that ended before the script said its first return.
        self.owed: list[tuple[Any, int]] = []
        self._telling = False
        # The script's own evaluation, while it goes on: envs, episodes, and when it began.
        self.evaluating = 0
        self.evaluated: list[Any] = []
        self.evaluating_since = 0.0
        # Files that are known to the worker, by their real path.
        self.announced: set[str] = set()
        self.models = 0
        # The newest of them.
        self.model = ""
        self.videos = 0
        self.event_folders: list[str] = []
        self._in_children = 0
        self._evaluated_in_children = 0
        self._configured = False
        self._parent = os.getpid()

    @property
    def run(self) -> Run:
        return current_run()

    @property
    def child(self) -> bool:
        return os.getpid() != self._parent or not self.script

    def forked(self) -> None:
        """In a child: what was counted so far is the parent's."""
        self.steps, self.episodes = [0, 0], [0, 0]

    @property
    def globals(self) -> dict[str, Any]:
        """The script's own names."""
        return vars(sys.modules["__main__"])

    @property
    def arguments(self) -> dict[str, Any]:
        """Those in the script's `args`, whatever made it."""
        args = self.globals.get("args")
        if dataclasses.is_dataclass(args) and not isinstance(args, type):
            return {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
        if isinstance(args, Mapping):
            return dict(args)
        return dict(vars(args)) if hasattr(args, "__dict__") and not isinstance(args, type) else {}

    @property
    def step(self) -> int:
        """How many training steps there were, by the script's counter or by ours."""
        counter = self.globals.get("global_step")
        told = counter if isinstance(counter, int) else self.told_step
        return max(told, self.run.steps - self.steps[EVALUATION])

    @property
    def training_steps(self) -> int:
        """Seen in this process and its children; also of envs that are recorded as one big array."""
        return self.run.steps - self.steps[EVALUATION] + self._in_children

    @property
    def evaluation_steps(self) -> int:
        return self.steps[EVALUATION] + self._evaluated_in_children

    def configure(self) -> None:
        """Say the script's arguments, once they are there."""
        if self._configured or self.child or not self.arguments:
            return
        self._configured = True
        total = self.arguments.get("total_timesteps")
        self.run.configure(plain(self.arguments), total if isinstance(total, int) else None)

    def place(self, env: Hashable) -> tuple[int, Place]:
        """For a single env."""
        evaluation = is_evaluation()
        ticket, slots = self.ledger.take(1, (env, evaluation))
        return ticket, Place(slots.start, evaluation)

    def counted(self, steps: int, episodes: int, *, evaluation: bool) -> None:
        kind = EVALUATION if evaluation else TRAINING
        self.steps[kind] += steps
        self.episodes[kind] += episodes

    def must_tell(self, episode: Any, step: int) -> list[tuple[Any, int]]:
        """After an episode: those whose returns the script should have said by now, and has not."""
        if self.tells_returns or (self.child and self._told_in_parent.exists()):
            self.tells_returns = True
            self.owed.clear()
            return []
        self.owed.append((episode, step))
        if len(self.owed) < PATIENCE and not self._telling:
            return []
        self._telling = True
        owed, self.owed = self.owed, []
        return owed

    def scalar(self, tag: str, step: Any) -> None:
        self.metrics += 1
        if not self.tells_returns and tag.endswith(("episodic_return", "episode_return")):
            self.tells_returns = True
            self.owed.clear()
            if self.run.active:
                self._told_in_parent.touch()
        if isinstance(step, int) and not tag.startswith("eval"):
            self.told_step = max(self.told_step, step)

    def leave_tally(self) -> None:
        """In a child that ends: what it counted, for the parent."""
        if self.child and any(self.steps):
            line = " ".join(map(str, (*self.steps, *self.episodes)))
            with open(self._tally, "a", encoding="ascii") as file:
                file.write(line + "\n")
            self.forked()

    def gather_tallies(self) -> None:
        """In the parent, when its children have ended."""
        if not self._tally.exists():
            return
        for line in self._tally.read_text(encoding="ascii").splitlines():
            training, evaluation, *episodes = map(int, line.split())
            self._in_children += training
            self.counted(training, episodes[0], evaluation=False)
            self.counted(0, episodes[1], evaluation=True)
            self._evaluated_in_children += evaluation

    def tidy(self) -> None:
        """Leave nothing behind that was only between the script and its children."""
        self._told_in_parent.unlink(missing_ok=True)
        self._tally.unlink(missing_ok=True)

    def announce(self, path: str | os.PathLike[str]) -> bool:
        """Whether the file is new to the worker."""
        real = os.path.realpath(path)
        if real in self.announced:
            return False
        self.announced.add(real)
        return True

    @property
    def _told_in_parent(self) -> Path:
        return self.run.dir / TELLS_RETURNS

    @property
    def _tally(self) -> Path:
        return self.run.dir / TALLY


def is_evaluation() -> bool:
    """Whether the call comes out of a function named after evaluation: `evaluate`, `eval_policy`, …"""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name.startswith("eval"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def say(text: str) -> None:
    """A line for whoever reads the run's log."""
    sys.stdout.write(f"runspine: {text}\n")
    sys.stdout.flush()


record = Record()
os.register_at_fork(after_in_child=record.forked)
