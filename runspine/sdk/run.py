"""The run that this process belongs to. Outside a run the same calls do nothing."""

from __future__ import annotations

import functools
import json
import multiprocessing
import os
import sys
import threading
import time
from collections.abc import Callable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Concatenate, ParamSpec

from runspine import __version__
from runspine.frames import FRAMES
from runspine.sdk import lines
from runspine.sdk.batch.logged import LoggedBatches
from runspine.sdk.batch.recorder import Recorder
from runspine.sdk.drops import Drops
from runspine.sdk.encoding import dumps
from runspine.sdk.files import inside
from runspine.sdk.flusher import Flusher
from runspine.sdk.metrics.histogram import quantiles
from runspine.sdk.metrics.nested import flattened
from runspine.sdk.numbers.episode_ids import EpisodeIds
from runspine.sdk.numbers.ranks import is_first, rank_of
from runspine.sdk.numbers.slots import SlotNumbers
from runspine.sdk.pipe import MAX_WAIT_SECONDS, PIPE_IDENTITY, SOCKET_PATH, Pipe
from runspine.sdk.view import TrainerView

DEFAULT_SEED = 1
# Version of docs/protocol.md that is written here.
PROTOCOL = 1
# Approximate size of a metric on the wire.
METRIC_BYTES = 48
# With more slots, a slot's position in the training is not exact.
MAX_EXACT_SLOTS = 32
P = ParamSpec("P")


def quietly(method: Callable[Concatenate[Run, P], None]) -> Callable[Concatenate[Run, P], None]:
    """Count an exception of the method in `dropped` instead of raising it into the training loop."""

    @functools.wraps(method)
    def call(self: Run, /, *args: P.args, **kwargs: P.kwargs) -> None:
        try:
            method(self, *args, **kwargs)
        except Exception as error:  # noqa: BLE001 - the edge of the SDK
            self.drop(f"{method.__name__}: {type(error).__name__}: {error}")

    return call


class Run:
    """A run as `runspine.init` returns it: its parameters, and the calls that record telemetry."""

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
        inside = bool(self.id) and (descriptor.isdecimal() or bool(given(SOCKET_PATH)))
        self.pipe = Pipe(
            int(descriptor) if inside and descriptor.isdecimal() else None,
            self.dir,
            environment if inside else {},
        )
        self.rank = rank_of(environment)
        self.capture = given("RUNSPINE_CAPTURE", "") if self.pipe.open else "none"
        self.view = TrainerView(given("RUNSPINE_VIEW", "") if inside else "")
        self.lock = threading.RLock()
        self.flusher = Flusher(self)
        # For instrumentation: called with each look of the flusher, in its thread.
        self.on_look: Callable[[], None] = _nothing
        self._verbose = bool(given("RUNSPINE_VERBOSE"))
        # A worker that does not name its protocol does not know the line.
        self._drops = Drops(self.pipe, self._write, reports=bool(given("RUNSPINE_PROTOCOL")))
        # Whether the worker reads binary frames, and slots whose actions and observations are kept; 0 is all.
        self.frames = self.pipe.open and given("RUNSPINE_FRAMES", "") == str(FRAMES)
        self.whole_slots = int(given("RUNSPINE_CAPTURE_WHOLE") or 0)
        self._recorders: list[Recorder] = []
        self._logged = LoggedBatches(self)
        self._position, self._position_age = 0, 0
        # Without the descriptor, as under torchrun, processes have the worker's socket in common.
        shared = given(PIPE_IDENTITY) or f"{self.attempt}:{given(SOCKET_PATH, '')}"
        self._slots = SlotNumbers(self.dir, shared if self.pipe.open else "", self.rank.number)
        self._retired_steps = 0
        # Steps before this attempt, unless envs are restored: then their snapshots count them.
        resumed = self.resume_kind == "resume" and self.resume_path is not None
        self._resumed_steps = int(given("RUNSPINE_RESUME_STEP") or 0) if resumed else 0
        # Children of the trainer, and an attempt that restores nothing, number their episodes from 0 again.
        other = self.pipe.open and not is_first(self.dir, self.attempt, self.rank)
        child = multiprocessing.parent_process() is not None or other
        self.ids = EpisodeIds(f"-a{self.attempt}" if resumed else "", child=child)
        # A worker that does not name its protocol does not know the line either.
        if self.pipe.open and not child and not self.rank.number and given("RUNSPINE_PROTOCOL"):
            self._write({"type": "hello", "protocol": PROTOCOL, "writer": f"runspine {__version__}"})
        if not self.pipe.open:
            self._warn(self.pipe.trouble or "not inside a run: nothing is recorded")

    @property
    def active(self) -> bool:
        """Whether telemetry is recorded."""
        return self.pipe.open

    @property
    def dropped(self) -> int:
        """How many lines could not be delivered."""
        return self.pipe.dropped

    @property
    def steps(self) -> int:
        """Steps of all wrapped envs, those before a resume included."""
        total = self.steps_elsewhere
        for recorder in self._recorders:
            total += recorder.counted + len(recorder.rewards)
        return total

    @quietly
    def configure(self, config: Mapping[str, Any], total_steps: int | None) -> None:
        self.params = {**config, **self.params}
        self.total_steps = total_steps or self.total_steps
        if self.rank.number or (self.ids.child and not config):
            # Configuration of the run is that of its first process, and of rank 0.
            return
        line = {"type": "config", "algo": self.algo, "env_id": self.env_id, "seed": self.seed}
        self._write({**line, "total_steps": self.total_steps, "args": self.params})

    @quietly
    def log_config(self, values: Mapping[str, Any]) -> None:
        """Record further configuration of the training as it is. Rank 0 alone does."""
        if self.rank.number:
            return
        self._write({"type": "config", **values})

    @quietly
    def log(self, values: Mapping[str, Any], step: int | None = None) -> None:
        """Record metrics by name at a step; those in dicts are named `loss/policy`.

        A value that is not a number is dropped and counted.

        Those of other ranks than 0 are series of their own: `rank1/NAME`.
        """
        if not self.pipe.open:
            self.pipe.count_missed()
            return
        numbers: dict[str, float] = {}
        for name, value in flattened(values):
            try:
                numbers[self.rank.name(name)] = float(value)
            except (TypeError, ValueError) as error:
                self.drop(f"metric {name}: {error}", kind=f"metric {name}")
        now = time.time()
        self._flush_rows_before(now - MAX_WAIT_SECONDS)
        if numbers:
            at = None if step is None else int(step)
            self.pipe.write_later(METRIC_BYTES * len(numbers), lines.metrics, numbers, at, now)

    @quietly
    def log_histogram(self, name: str, values: Any, step: int | None = None) -> None:
        """Record the distribution of values as metrics `histograms/NAME/p0` to `p100`, and their count."""
        if self.pipe.open:
            self.log(quantiles(name, values), step)

    @quietly
    def log_steps(self, batch: Mapping[str, Any], *, slot: int = 0, autoreset: str = "same_step") -> None:
        """Record steps of many envs at once: arrays [steps, envs] of numpy, torch or jax under `reward`,
        `terminated`, `truncated`, and [steps, envs, …] under `action` and `obs` (the observation after the
        step). Calls with the same first `slot` continue each other. `autoreset` as in Gymnasium: in the
        `same_step`, in the `next_step`, whose row is then no step, or `disabled`."""
        if self.pipe.open:
            self._logged.add(batch, slot, autoreset)
        else:
            self.pipe.count_missed()

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
        """Record an episode that has ended, with its return; for trainers whose env is not wrapped."""
        slot = self.rank.slot(slot)
        name = episode_id or self.ids.next(slot)[1]
        line = {"type": "episode", "episode_id": name, "slot": slot, "steps": int(steps)}
        how = {"terminated": terminated, "truncated": truncated, "global_step": global_step}
        self._write({**line, "return": float(value), "t_end": time.time(), **how})

    @quietly
    def log_evaluation(
        self, /, returns: Sequence[float], lengths: Sequence[int] = (), seconds: float = 0.0, **about: Any
    ) -> None:
        """Record episodes of a policy that does not learn. Written after every step before it."""
        self.flush()
        numbers = [float(value) for value in returns]
        line = {"type": "evaluation", "returns": numbers, "lengths": [int(steps) for steps in lengths]}
        self._write({**line, "seconds": float(seconds), "t": time.time(), **about})
        self.pipe.flush()

    @quietly
    def progress(self, step: int, total: int | None = None) -> None:
        """Record how far training is, for trainers whose steps are not recorded. Rank 0 alone does."""
        if self.rank.number:
            return
        self._write({"type": "progress", "step": int(step), "total": total or self.total_steps})

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
        """Record the goals, beliefs and intentions of a BDI agent."""
        line: dict[str, Any] = {"type": "mind", "step": step, "agent_id": agent_id, "t": time.time()}
        line |= {"goals": list(goals), "beliefs": list(beliefs), "intentions": list(intentions)}
        self._write({**line, "confidence": confidence})

    @quietly
    def log_turn(
        self,
        *,
        actor: str,
        prompt: Sequence[Mapping[str, str]],
        answer: str,
        action: Any = None,
        problem: str = "",
        episode_id: str = "",
        step: int = 0,
        seconds: float = 0.0,
    ) -> None:
        """Record what an actor that answers in words was asked, what it answered, and the action taken from
        the answer, or the problem with it."""
        line = {"type": "turn", "actor": actor, "prompt": list(prompt), "answer": answer, "action": action}
        line |= {"problem": problem, "episode_id": episode_id, "step": step, "seconds": seconds}
        self._write({**line, "t": time.time()})

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
        """Upload a file as an artifact of the run. A file outside the run's directory is copied into it."""
        if not self.pipe.open:
            self.pipe.count_missed()
            return
        line = {"type": "artifact", "kind": kind, "path": inside(self.dir, Path(path)), "name": name}
        self._write({**line, "step": step, "meta": meta or None})
        self.pipe.flush()

    @quietly
    def checkpoint(self, /, path: str | os.PathLike[str], step: int | None = None, **meta: Any) -> None:
        """Upload a checkpoint. Written after all steps before it: never ahead of the telemetry."""
        self.flush()
        self.log_artifact(path, kind="checkpoint", step=self.steps if step is None else step, **meta)

    @quietly
    def flush(self) -> None:
        """Write every pending row and line."""
        for recorder in list(self._recorders):
            recorder.cut()
        self.pipe.flush()

    @quietly
    def look(self) -> None:
        """Called by the flusher at each look."""
        self.on_look()

    def pending_counts(self) -> list[int]:
        """Lines that wait, and rows of each slot: the same twice when the trainer does something else."""
        return [self.pipe.waiting, *(len(recorder.rewards) for recorder in list(self._recorders))]

    @property
    def writing(self) -> bool:
        """Whether a line is being written: a signal handler that finds this true has to retry later."""
        return self.pipe.writing or any(recorder.cutting for recorder in self._recorders)

    def finish(self) -> None:
        """Write everything pending. Called at exit as well."""
        self._drops.report(self.pipe.trouble or "more of the same")
        self.flush()

    def drop(self, why: str, kind: str = "") -> None:
        """Count what cannot be recorded; the first of each kind is reported at once, the rest at the end."""
        self._drops.add(why, kind)
        self._warn(why)

    @quietly
    def note(self, text: str) -> None:
        """Write a line into the run's log."""
        if self.pipe.open:
            self.pipe.write(lines.note(text))

    def add_recorder(self, recorder: Recorder) -> None:
        self._recorders.append(recorder)
        if self.pipe.open:
            self.flusher.start()
        self.view.slots = max(self.view.slots, recorder.slot + 1)

    def retire(self, recorder: Recorder) -> None:
        """Remove the recorder of a closed env; its steps still count."""
        if recorder in self._recorders:
            recorder.cut()
            self._recorders.remove(recorder)
            self._retired_steps += recorder.steps
            # Children of a vector env end without their exit handlers.
            self.pipe.flush()

    def free_slots(self, count: int = 1) -> int:
        """The first of so many consecutive slots that no open env of any process of this rank has."""
        with self.lock:
            own = self.rank.own
            in_use = {own(each.slot) + index for each in self._recorders for index in range(each.count)}
            return self._slots.free(in_use, count)

    def new_slots(self, count: int) -> int:
        """The first of so many consecutive slots that no process of this rank has taken before."""
        return self._slots.take(count)

    def reuse_slots(self, slots: set[int]) -> None:
        """Give slots of this process, which nothing else uses any more, to the next envs."""
        self._slots.reuse(slots)

    def position(self) -> int:
        """`steps`; with many slots it may be some calls old, so that their sum is not taken for each slot."""
        if self._position_age <= 0:
            self._position, self._position_age = self.steps, len(self._recorders) // MAX_EXACT_SLOTS
        else:
            self._position_age -= 1
        return self._position

    @property
    def steps_elsewhere(self) -> int:
        """Steps that no open env counts: of closed envs, and before this attempt."""
        return self._resumed_steps + self._retired_steps

    def restored(self, elsewhere: int) -> None:
        """An env was restored: the steps before this attempt are those of the snapshots."""
        self._resumed_steps = elsewhere

    def forked(self) -> None:
        """Reset the state after a fork: pending lines are written by the parent."""
        self.lock = threading.RLock()
        self.ids.child = True
        self._slots.forked()
        self.flusher.forked()
        self.pipe.forked()
        self.view.forked()
        for recorder in self._recorders:
            recorder.forked()
        if self.pipe.open and self._recorders:
            self.flusher.start()

    def _write(self, fields: dict[str, Any]) -> None:
        line = dumps({name: value for name, value in fields.items() if value is not None})
        with self.lock:
            self.pipe.write(line)

    def _flush_rows_before(self, oldest: float) -> None:
        """Write rows that have waited too long, as when a trainer learns for long between steps."""
        for recorder in self._recorders:
            if recorder.rewards and recorder.began < oldest:
                recorder.cut()

    def _warn(self, text: str) -> None:
        if self._verbose:
            sys.stderr.write(f"runspine: {text}\n")


def _nothing() -> None:
    return None
