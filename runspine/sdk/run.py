"""The run this process belongs to, as a trainer sees it. Outside a run: the same, and nothing happens."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from runspine.sdk import lines
from runspine.sdk.pipe import LONGEST_WAIT, Pipe
from runspine.sdk.tape import Tape
from runspine.sdk.text import dumps
from runspine.sdk.view import View

DEFAULT_SEED = 1
# A metric on the wire, about.
METRIC_BYTES = 48
P = ParamSpec("P")


def quietly(method: Callable[Concatenate[Run, P], None]) -> Callable[Concatenate[Run, P], None]:
    """What goes wrong in telling is counted in `dropped`; it never reaches the training loop."""

    @functools.wraps(method)
    def call(self: Run, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the edge of the SDK
            self.drop(f"{method.__name__}: {type(error).__name__}: {error}")

    return call


class Run:
    """Made by `runspine.init`. What it was given by the worker, and what can be said to it."""

    def __init__(self, environment: MutableMapping[str, str] = os.environ) -> None:
        given = environment.get
        self.id = given("RUNSPINE_RUN_ID", "")
        self.attempt = int(given("RUNSPINE_ATTEMPT") or 0)
        self.dir = Path(given("RUNSPINE_RUN_DIR") or ".")
        self.env_id = given("RUNSPINE_ENV_ID", "")
        self.env_kwargs: dict[str, Any] = json.loads(given("RUNSPINE_ENV_KWARGS") or "{}")
        self.algo = given("RUNSPINE_ALGO", "")
        self.seed = int(given("RUNSPINE_SEED") or DEFAULT_SEED)
        self.params: dict[str, Any] = json.loads(given("RUNSPINE_PARAMS") or "{}")
        self.total_steps = int(given("RUNSPINE_TOTAL_STEPS") or 0) or None
        self.resume_path = Path(given("RUNSPINE_RESUME", "")) if given("RUNSPINE_RESUME") else None
        self.resume_kind = given("RUNSPINE_RESUME_KIND", "") if self.resume_path else ""
        descriptor = given("RUNSPINE_TELEMETRY_FD", "")
        inside = bool(self.id) and descriptor.isdecimal()
        self.pipe = Pipe(int(descriptor) if inside else None, self.dir, environment)
        self.capture = given("RUNSPINE_CAPTURE", "") if self.pipe.open else "none"
        self.view = View(given("RUNSPINE_VIEW", "") if inside else "")
        self.lock = threading.RLock()
        self._verbose = bool(given("RUNSPINE_VERBOSE"))
        self._tapes: list[Tape] = []
        self._episodes: dict[int, int] = {}
        self._retired_steps = 0
        # Children of the trainer may use the same slots: their episodes are told apart by process.
        self._child = multiprocessing.parent_process() is not None
        if not self.pipe.open:
            self._tell(self.pipe.trouble or "not inside a run: nothing is recorded")

    @property
    def active(self) -> bool:
        """Whether somebody listens."""
        return self.pipe.open

    @property
    def dropped(self) -> int:
        """How many lines could not be delivered."""
        return self.pipe.dropped

    @property
    def steps(self) -> int:
        """Steps of all wrapped envs, over all attempts that restored their envs."""
        total = self._retired_steps
        for tape in self._tapes:
            total += tape.counted + len(tape.rewards)
        return total

    @quietly
    def configure(self, config: Mapping[str, Any], total_steps: int | None) -> None:
        self.params = {**config, **self.params}
        self.total_steps = total_steps or self.total_steps
        said = {"type": "config", "algo": self.algo, "env_id": self.env_id, "seed": self.seed}
        self._say({**said, "total_steps": self.total_steps, "args": self.params})

    @quietly
    def say_config(self, said: Mapping[str, Any]) -> None:
        """Anything else about how it is trained, kept as it is."""
        self._say({"type": "config", **said})

    @quietly
    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Metrics by name, at a step. A value that is no number is left out and counted."""
        if not self.pipe.open:
            self.pipe.miss()
            return
        numbers: dict[str, float] = {}
        for name, value in values.items():
            try:
                numbers[str(name)] = float(value)
            except (TypeError, ValueError) as error:
                self.drop(f"metric {name}: {error}")
        now = time.time()
        self._flush_older(now - LONGEST_WAIT)
        if numbers:
            at = None if step is None else int(step)
            self.pipe.later(METRIC_BYTES * len(numbers), lines.metrics, numbers, at, now)

    @quietly
    def log_episode(
        self,
        value: float,
        steps: int,
        *,
        episode_id: str | None = None,
        slot: int = 0,
        global_step: int | None = None,
        terminated: bool | None = None,
        truncated: bool | None = None,
    ) -> None:
        """An episode that has ended, with its return; for trainers whose env is not wrapped."""
        name = episode_id or self.next_episode(slot)[1]
        said = {"type": "episode", "episode_id": name, "slot": slot, "steps": int(steps)}
        how = {"terminated": terminated, "truncated": truncated, "global_step": global_step}
        self._say({**said, "return": float(value), "t_end": time.time(), **how})

    @quietly
    def log_evaluation(
        self, /, returns: Sequence[float], lengths: Sequence[int] = (), seconds: float = 0.0, **about: Any
    ) -> None:
        """A batch of episodes of a policy that does not learn. Said after every step before it."""
        self.flush()
        numbers = [float(value) for value in returns]
        said = {"type": "evaluation", "returns": numbers, "lengths": [int(steps) for steps in lengths]}
        self._say({**said, "seconds": float(seconds), "t": time.time(), **about})
        self.pipe.flush()

    @quietly
    def progress(self, step: int, total: int | None = None) -> None:
        """How far training is, for trainers that say no steps."""
        self._say({"type": "progress", "step": int(step), "total": total or self.total_steps})

    @quietly
    def log_mind(
        self,
        *,
        goals: Sequence[str] = (),
        beliefs: Sequence[str] = (),
        intentions: Sequence[str] = (),
        confidence: float | None = None,
        step: int | None = None,
        agent_id: str | None = None,
    ) -> None:
        """What an agent wants, believes and is about to do; for agents that have such a thing."""
        said: dict[str, Any] = {"type": "mind", "step": step, "agent_id": agent_id, "t": time.time()}
        said |= {"goals": list(goals), "beliefs": list(beliefs), "intentions": list(intentions)}
        self._say({**said, "confidence": confidence})

    @quietly
    def log_artifact(
        self,
        /,
        path: str | os.PathLike[str],
        kind: str = "file",
        name: str | None = None,
        step: int | None = None,
        **meta: Any,
    ) -> None:
        """A file of the run, to be uploaded. One from outside the run's directory is copied into it."""
        if not self.pipe.open:
            self.pipe.miss()
            return
        said = {"type": "artifact", "kind": kind, "path": self._inside(Path(path)), "name": name}
        self._say({**said, "step": step, "meta": meta or None})
        self.pipe.flush()

    @quietly
    def checkpoint(self, /, path: str | os.PathLike[str], step: int | None = None, **meta: Any) -> None:
        """A checkpoint, said after every step before it, so that it is never ahead of the telemetry."""
        self.flush()
        self.log_artifact(path, kind="checkpoint", step=self.steps if step is None else step, **meta)

    @quietly
    def flush(self) -> None:
        """Say and write everything that waits."""
        for tape in self._tapes:
            tape.cut()
        self.pipe.flush()

    @property
    def saying(self) -> bool:
        """In the middle of a line: a signal handler that finds this true has to come again later."""
        return self.pipe.writing or any(tape.cutting for tape in self._tapes)

    def finish(self) -> None:
        """Flush. Also done when the process ends by itself."""
        self.flush()

    def drop(self, why: str) -> None:
        self.pipe.dropped += 1
        self._tell(why)

    def add_tape(self, tape: Tape) -> None:
        self._tapes.append(tape)
        self.view.slots = max(self.view.slots, tape.slot + 1)

    def retire(self, tape: Tape) -> None:
        """Its env is closed; its steps count on."""
        if tape in self._tapes:
            tape.cut()
            self._tapes.remove(tape)
            self._retired_steps += tape.steps
            # Children of a vector env end without their exit handlers.
            self.pipe.flush()

    def free_slot(self) -> int:
        taken = {tape.slot for tape in self._tapes}
        return next(slot for slot in range(len(taken) + 1) if slot not in taken)

    def next_episode(self, slot: int) -> tuple[int, str]:
        """Number and id of the slot's next episode."""
        number = self._episodes.get(slot, 0)
        self._episodes[slot] = number + 1
        return number, self.episode_id(slot, number)

    def episode_id(self, slot: int, number: int) -> str:
        return f"{slot}-{number}" + (f"-{os.getpid()}" if self._child else "")

    def skip_episodes(self, slot: int, number: int) -> None:
        self._episodes[slot] = max(self._episodes.get(slot, 0), number + 1)

    def forked(self) -> None:
        """In a child process: what waits here is the parent's to say."""
        self.lock = threading.RLock()
        self._child = True
        self.pipe.forked()
        self.view.forked()
        for tape in self._tapes:
            tape.forked()

    def _say(self, what: dict[str, Any]) -> None:
        line = dumps({name: value for name, value in what.items() if value is not None})
        with self.lock:
            self.pipe.say(line)

    def _flush_older(self, oldest: float) -> None:
        """Rows wait for the next step; a trainer that learns for long between steps logs at least."""
        for tape in self._tapes:
            if tape.rewards and tape.began < oldest:
                tape.cut()

    def _inside(self, path: Path) -> str:
        home, source = self.dir.resolve(), path.resolve()
        if source.is_relative_to(home):
            return str(source.relative_to(home))
        folder = home / "artifacts"
        folder.mkdir(exist_ok=True)
        copy, part = folder / source.name, folder / f".{source.name}.{os.getpid()}"
        # A file of its own each time: the one before may still be on its way.
        shutil.copyfile(source, part)
        part.replace(copy)
        return str(copy.relative_to(home))

    def _tell(self, text: str) -> None:
        if self._verbose:
            sys.stderr.write(f"runspine: {text}\n")
