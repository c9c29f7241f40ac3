"""State of an instrumented script: its arguments, its progress, and what was recorded."""

from __future__ import annotations

import dataclasses
import os
import sys
import weakref
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

from runspine.instrument.slots import SlotLedger, SlotPlace
from runspine.sdk.encoding import plain
from runspine.sdk.run import Run
from runspine.sdk.shortcuts import current_run

TRAINING, EVALUATION = 0, 1
# Files in the run's directory, shared by a script and its children.
TALLY = ".launcher-tally"
LOGS_RETURNS = ".launcher-logs-returns"
# Episodes that may end before the script logs its first return.
MAX_UNLOGGED = 3
PROGRESS_SECONDS = 0.5


class ScriptRecord:
    """One for each process. Counts of a child reach the parent through a file of the run."""

    def __init__(self) -> None:
        self.script = ""
        self.ledger = SlotLedger(self._new_slots)
        # Whether the program was started as it is (`transparent.py`): then its behaviour stays its own.
        self.transparent = False
        # Whether it records by itself.
        self.stood_down = False
        self.on_first_env: Callable[[], None] | None = None
        self.tapped: weakref.WeakSet[Any] = weakref.WeakSet()
        # Steps and episodes, of training and of the script's own evaluation.
        self.steps = [0, 0]
        self.episodes = [0, 0]
        # Open recorders, by how many of their steps are no progress of the training: all of an evaluation,
        # and those that repeat an action.
        self._aside: dict[Any, float] = {}
        # Such steps that were written.
        self._written_aside = 0.0
        self.metrics = 0
        # The largest step that the script gave to a scalar.
        self.logged_step = 0
        self.logs_returns = False
        # Episodes that ended before the script logged its first return.
        self.owed: list[tuple[Any, int]] = []
        self._logging_returns = False
        # The script's own evaluation, while it goes on: envs, episodes, and when it began.
        self.evaluating = 0
        self.evaluated: list[Any] = []
        self.evaluating_since = 0.0
        # Files that were announced to the worker, by their real path.
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
        self._progress_at = 0.0

    @property
    def run(self) -> Run:
        return current_run()

    @property
    def child(self) -> bool:
        return os.getpid() != self._parent or not self.script

    def forked(self) -> None:
        """Reset the counters and slots after a fork: they are the parent's."""
        self._reset_counters()
        self.ledger.forked()

    def _reset_counters(self) -> None:
        self.steps, self.episodes = [0, 0], [0, 0]

    @property
    def globals(self) -> dict[str, Any]:
        """Global names of the script."""
        return vars(sys.modules["__main__"])

    @property
    def arguments(self) -> dict[str, Any]:
        """Arguments in the script's global `args`, of any type."""
        args = self.globals.get("args")
        if dataclasses.is_dataclass(args) and not isinstance(args, type):
            return {field.name: getattr(args, field.name) for field in dataclasses.fields(args)}
        if isinstance(args, Mapping):
            return dict(args)
        return dict(vars(args)) if hasattr(args, "__dict__") and not isinstance(args, type) else {}

    @property
    def step(self) -> int:
        """Training steps so far, by the script's counter or by ours."""
        reached = self.counted_by_script or self.logged_step
        recorded = self.recorded_steps
        envs = self.arguments.get("num_envs")
        # A loop counter is one step of its envs behind at most. More are frames of an emulator: a wrapper
        # repeats each action.
        behind = envs if isinstance(envs, int) else 1
        return max(reached, recorded) if not reached or recorded <= reached + behind else reached

    @property
    def recorded_steps(self) -> int:
        """Recorded actions of the training alone, before a resume included."""
        pending = sum(len(recorder.rewards) * share for recorder, share in list(self._aside.items()))
        return self.run.steps - round(self._written_aside + pending)

    def leave_out(self, recorder: Any, share: float) -> None:
        """Note which share of a recorder's steps is no progress of the training from now on."""
        if share:
            self._aside[recorder] = share
        else:
            self._aside.pop(recorder, None)

    def counted_aside(self, steps: float) -> None:
        self._written_aside += steps

    @property
    def counted_by_script(self) -> int:
        """The script's own `global_step`; 0 when it has none."""
        counter = self.globals.get("global_step")
        return counter if isinstance(counter, int) else 0

    def report_progress(self, now: float) -> None:
        """Report the script's own step at intervals: recorded steps may be frames of an emulator."""
        if not self.child and now - self._progress_at >= PROGRESS_SECONDS and self.counted_by_script:
            self._progress_at = now
            self.run.progress(self.step)

    @property
    def training_steps(self) -> int:
        """Training steps of this process and its children, including envs in one array."""
        return self.run.steps - self.steps[EVALUATION] + self._in_children

    @property
    def evaluation_steps(self) -> int:
        return self.steps[EVALUATION] + self._evaluated_in_children

    def configure(self) -> None:
        """Record the script's arguments, once they exist."""
        if self._configured or self.child or not self.arguments:
            return
        self._configured = True
        total = self.arguments.get("total_timesteps")
        self.run.configure(plain(self.arguments), total if isinstance(total, int) else None)

    def _new_slots(self, count: int) -> int:
        return self.run.new_slots(count)

    def place(self, env: Hashable) -> tuple[int, SlotPlace]:
        """Slot of a single env."""
        evaluation = is_evaluation()
        ticket, slots = self.ledger.take(1, (env, evaluation))
        return ticket, SlotPlace(slots.start, evaluation)

    def add_tapped(self, env: Any) -> None:
        if self.on_first_env:
            call, self.on_first_env = self.on_first_env, None
            call()
        self.tapped.add(env)

    def counted(self, steps: int, episodes: int, *, evaluation: bool) -> None:
        kind = EVALUATION if evaluation else TRAINING
        self.steps[kind] += steps
        self.episodes[kind] += episodes

    def unlogged_returns(self, episode: Any, step: int) -> list[tuple[Any, int]]:
        """After an episode: the episodes whose returns the script should have logged by now."""
        if self.logs_returns or (self.child and self._logs_returns_file.exists()):
            self.logs_returns = True
            self.owed.clear()
            return []
        self.owed.append((episode, step))
        if len(self.owed) < MAX_UNLOGGED and not self._logging_returns:
            return []
        self._logging_returns = True
        owed, self.owed = self.owed, []
        return owed

    def scalar(self, tag: str, step: Any) -> None:
        self.metrics += 1
        if not self.logs_returns and tag.endswith(("episodic_return", "episode_return")):
            self.logs_returns = True
            self.owed.clear()
            if self.run.active:
                self._logs_returns_file.touch()
        if isinstance(step, int) and not tag.startswith("eval"):
            self.logged_step = max(self.logged_step, step)

    def leave_tally(self) -> None:
        """Write the counts of a child that ends, for the parent."""
        if self.child and any(self.steps) and not self.transparent:
            line = " ".join(map(str, (*self.steps, *self.episodes)))
            with open(self._tally, "a", encoding="ascii") as file:
                file.write(line + "\n")
            self._reset_counters()

    def gather_tallies(self) -> None:
        """Add the counts of the children after they have ended."""
        if not self._tally.exists():
            return
        for line in self._tally.read_text(encoding="ascii").splitlines():
            training, evaluation, *episodes = map(int, line.split())
            self._in_children += training
            self.counted(training, episodes[0], evaluation=False)
            self.counted(0, episodes[1], evaluation=True)
            self._evaluated_in_children += evaluation

    def tidy(self) -> None:
        """Remove the files shared by the script and its children."""
        self._logs_returns_file.unlink(missing_ok=True)
        self._tally.unlink(missing_ok=True)

    def announce(self, path: str | os.PathLike[str]) -> bool:
        """Note a file; return whether it is new to the worker."""
        real = os.path.realpath(path)
        if real in self.announced:
            return False
        self.announced.add(real)
        return True

    @property
    def _logs_returns_file(self) -> Path:
        return self.run.dir / LOGS_RETURNS

    @property
    def _tally(self) -> Path:
        return self.run.dir / TALLY


def is_evaluation() -> bool:
    """Whether the call comes from a function named after evaluation: `evaluate`, `eval_policy`, …"""
    frame = sys._getframe(1)
    while frame is not None:
        if frame.f_code.co_name.startswith("eval"):
            return True
        frame = frame.f_back  # type: ignore[assignment]
    return False


def echo(text: str) -> None:
    """Print a line to the run's log."""
    sys.stdout.write(f"runspine: {text}\n")
    sys.stdout.flush()


record = ScriptRecord()
os.register_at_fork(after_in_child=record.forked)
