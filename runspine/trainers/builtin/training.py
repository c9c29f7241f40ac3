"""What every algorithm shares: run, seeds, episodes, checkpoints, stopping and the summary."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, TypeVar

import torch

import runspine
from runspine.trainers.builtin.checkpoints import Checkpoints, CheckpointUnusableError, load
from runspine.trainers.builtin.clip_schedule import FRAMES, ClipSchedule
from runspine.trainers.builtin.envs import EndedEpisode, Envs, EnvUnfitError
from runspine.trainers.builtin.fork import fork_of
from runspine.trainers.builtin.history import TrainingHistory, summary_table
from runspine.trainers.builtin.randomness import Randomness
from runspine.trainers.builtin.ranges import range_violations
from runspine.trainers.filming.crew import FilmCrew
from runspine.trainers.output import echo

# Arguments that may differ when a run resumes: they do not change what is learnt.
RESUME_MAY_CHANGE = {
    "cuda",
    "require_cuda",
    "checkpoint_every",
    "checkpoint_seconds",
    "total_timesteps",
    "video_every",
}
# Parts that older checkpoints lack, and that were empty when those were saved.
ADDED_PARTS = {"rollout"}
PRINT_SECONDS = 1.0


class Stateful(Protocol):
    """Anything with state for a checkpoint: networks, optimisers, buffers, statistics, envs."""

    def state_dict(self) -> Any: ...

    def load_state_dict(self, state: Any, /) -> Any: ...


class StoppedError(Exception):
    """A signal has stopped the training; a checkpoint was saved first."""

    def __init__(self, number: int) -> None:
        self.number = number


class Training:
    """One training, from its first step or its checkpoint to its summary."""

    def __init__(self, algo: str, args: Any) -> None:
        self.algo, self.args = algo, args
        self._signal = 0
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        torch.backends.cudnn.deterministic = getattr(args, "torch_deterministic", True)
        self.device = pick_device(getattr(args, "cuda", False), getattr(args, "require_cuda", False))
        self.run = runspine.init(config=vars(args), total_steps=args.total_timesteps)
        self.fork = fork_of(args.env_id, args.env_kwargs)
        self.name = f"{args.env_id}__{algo}__{args.seed}__{int(time.time())}"
        self.random = Randomness(args.seed)
        self.history = TrainingHistory(args.total_timesteps)
        self.folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or Path("runs") / self.name.replace("/", "-"))
        self.checkpoints = Checkpoints(
            self.folder / "checkpoints",
            args.total_timesteps,
            every_steps=args.checkpoint_every,
            every_seconds=args.checkpoint_seconds,
        )
        self._crew: FilmCrew | None = None
        self._parts: dict[str, Stateful] = {}
        self._shapes: list[str] = []
        self._started, self._first, self._before = time.monotonic(), 0, 0.0
        self._printed = 0.0

    def begin(self, envs: Envs, parts: Mapping[str, Stateful], *, weights: Sequence[str]) -> int:
        """Return the step to begin at: 0 with envs reset, or that of the checkpoint with all parts restored.

        A warm start takes the parts named in `weights` from another run's checkpoint and begins at 0.
        """
        self._parts = {**parts, "envs": envs, "history": self.history, "random": self.random}
        self._shapes = [str(envs.observations), str(envs.actions)]
        source, kind = self.run.resume_path, self.run.resume_kind
        step = 0
        if source and kind == "warm_start":
            self._take(self._checked(source), weights)
            echo(f"warm start with the weights of {source}")
        elif source:
            state = self._checked(source)
            self._take(state, self._parts)
            step, self._before = state["step"], state["seconds"]
            echo(f"resumed at step {step:,} from {source}")
        if every := getattr(self.args, "video_every", 0):
            kwargs = json.loads(self.args.env_kwargs or "{}")
            self._crew = FilmCrew(self.run, self.args.env_id, kwargs, FRAMES, self.folder / "videos")
            envs.on_end = ClipSchedule(self._crew, every, envs, self.run).ended
        if step == 0:
            envs.reset()
            self._echo_fork()
        self.checkpoints.begin(step)
        self._started, self._first = time.monotonic(), step
        device = device_text(self.device, getattr(self.args, "cuda", False))
        echo(f"{self.name}: {self.args.total_timesteps:,} steps on {device}")
        return step

    def _echo_fork(self) -> None:
        if self.fork:
            which = "every episode" if self.fork.every else "the first episode of slot 0"
            steps = self.fork.record.length
            echo(f"{self.fork.name} replayed exactly: {which} begins after its first {steps:,} steps")

    def episodes(self, step: int, ended: list[EndedEpisode]) -> None:
        """Record the episodes that have just ended."""
        for episode in ended:
            self.history.add(step, episode.total)
            self.run.log(
                {"charts/episodic_return": episode.total, "charts/episodic_length": episode.length}, step=step
            )
        if ended and (now := time.monotonic()) - self._printed >= PRINT_SECONDS:
            self._printed = now
            echo(f"global_step={step}, episodic_return={ended[-1].total:.6g}")

    def log(self, step: int, values: dict[str, float]) -> None:
        self.run.log({**values, "charts/SPS": self.speed(step)}, step=step)

    def speed(self, step: int) -> float:
        return (step - self._first) / max(time.monotonic() - self._started, 1e-9)

    @property
    def asked_to_stop(self) -> bool:
        return bool(self._signal)

    def safe_point(self, step: int) -> None:
        """Save when due and stop on a signal; called between steps, where all parts are consistent."""
        if self._signal:
            path = self._save(step) if step > self.checkpoints.last else self.checkpoints.folder
            echo(f"{signal.Signals(self._signal).name} at step {step:,}: the checkpoint is in {path}")
            if self._crew:
                self._crew.drop()
            self.run.finish()
            raise StoppedError(self._signal)
        if self.checkpoints.due(step):
            self._save(step)

    def finish(self, step: int) -> None:
        """Save the last checkpoint, and print the curve and the summary."""
        if step > self.checkpoints.last:
            self._save(step)
        self.folder.mkdir(parents=True, exist_ok=True)
        summary = self.history.summary(step, self._seconds(), self.speed(step))
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=1))
        echo(f"\n{self.history.curve()}\n\n{self.name}\n{summary_table(summary, self.history.episodes)}")
        if self._crew:
            self._crew.finish()
        self.run.finish()

    def _save(self, step: int) -> Path:
        states = {name: part.state_dict() for name, part in self._parts.items()}
        state = {
            "algo": self.algo,
            "args": vars(self.args),
            "shapes": self._shapes,
            "seconds": self._seconds(),
            "parts": states,
        }
        path = self.checkpoints.save(step, state)
        meta = {"algo": self.algo, "env_id": self.args.env_id, "seed": self.args.seed}
        if self.history.episodes:
            meta["return_mean"] = self.history.mean
        self.run.checkpoint(path, step=step, **meta)
        return path

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._started

    def _checked(self, path: Path) -> dict[str, Any]:
        """Load the checkpoint and check its algorithm, env and shapes. Raises CheckpointUnusableError."""
        state = load(path, self.device)
        theirs, ours = state["args"], vars(self.args)
        for what, had, have in (
            ("algorithm", state["algo"], self.algo),
            ("env", theirs["env_id"], ours["env_id"]),
            ("observations", state["shapes"][0], self._shapes[0]),
            ("actions", state["shapes"][1], self._shapes[1]),
        ):
            if had != have:
                raise CheckpointUnusableError(
                    f"checkpoint {path} does not fit: its {what} {had}, this run's {have}"
                )
        return state

    def _take(self, state: dict[str, Any], names: Sequence[str] | Mapping[str, Stateful]) -> None:
        resuming = names is self._parts
        theirs, ours = state["args"], vars(self.args)
        changed = [name for name in ours if name not in RESUME_MAY_CHANGE and theirs.get(name) != ours[name]]
        if resuming and changed:
            differences = ", ".join(f"{name} {theirs.get(name)} → {ours[name]}" for name in changed)
            raise CheckpointUnusableError(
                f"the checkpoint was made with other arguments ({differences}): use a warm start"
            )
        for name in names:
            if name in state["parts"] or name not in ADDED_PARTS:
                self._parts[name].load_state_dict(state["parts"][name])

    def _on_signal(self, number: int, frame: object) -> None:
        self._signal = number


def pick_device(wanted: bool, required: bool) -> torch.device:
    available = torch.cuda.is_available()
    if required and not available:
        raise EnvUnfitError(
            "no CUDA device is available, and --require-cuda asks for one: use a worker with a GPU"
        )
    return torch.device("cuda" if available and (wanted or required) else "cpu")


def device_text(device: torch.device, wanted: bool) -> str:
    """The device; for a training that would use a GPU and has none, how many threads it uses instead."""
    if device.type != "cpu" or not wanted:
        return str(device)
    threads = torch.get_num_threads()
    count = "1 thread" if threads == 1 else f"{threads} threads"
    return f"{device}, as no GPU is assigned (gpus), with {count} (limits.cpus)"


A = TypeVar("A")


def main(kind: type[A], train: Callable[[A], None], about: str | None) -> None:
    """Entry point of an algorithm: parse arguments, train, exit with a code."""
    import tyro  # not needed to import an algorithm

    args = tyro.cli(kind, description=about)
    wrong = range_violations(args)
    if wrong:
        sys.exit("\n".join(wrong))
    try:
        train(args)
    except (EnvUnfitError, CheckpointUnusableError, runspine.DivergedError) as error:
        sys.exit(str(error))
    except StoppedError as stopped:
        sys.exit(128 + stopped.number)
