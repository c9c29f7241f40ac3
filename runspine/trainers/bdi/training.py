"""Training of a BDI agent: exploration, the table, checkpoints at the ends of episodes, the summary."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import numpy as np

from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.args import RESUME_MAY_CHANGE, Args, curiosity, learning_rate
from runspine.trainers.bdi.mind import AgentMind
from runspine.trainers.bdi.table import TableMismatchError
from runspine.trainers.bdi.world import FINISHED, World
from runspine.trainers.builtin.checkpoints import Checkpoints, CheckpointUnusableError
from runspine.trainers.builtin.history import summary_table
from runspine.trainers.output import echo

ALGO = "qlearning"
LOG_EVERY = 1000
# A stop in mid-episode saves the state at the end of an earlier episode, at most this long ago.
REMEMBER_SECONDS = 0.25


class BdiTraining(World):
    """World of a training."""

    def __init__(self, args: Args, plan_text: str, run: Any) -> None:
        super().__init__(args, plan_text, run)
        random.seed(args.seed)  # what AgentSpeak's own .random draws from
        self.name = f"{args.env_id}__bdi_{ALGO}__{args.seed}__{int(time.time())}"
        self.folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or Path("runs") / self.name.replace("/", "-"))
        self.checkpoints = Checkpoints(
            self.folder / "checkpoints",
            args.total_timesteps,
            every_steps=args.checkpoint_every,
            every_seconds=args.checkpoint_seconds,
        )
        self._begun = self._started_acting = False
        self._mistakes: list[float] = []
        self._restored: list[str] | None = None
        self._remembered: tuple[int, dict[str, Any], dict[str, Any]] | None = None
        self._remember_at = 0.0
        self._started, self._first, self._before = time.monotonic(), 0, 0.0

    def resume(self, path: Path, kind: str) -> None:
        """Resume from a checkpoint exactly, or (warm start) with its table only.

        Raises CheckpointUnusableError.
        """
        arrays, about = checkpoint.read(path)
        if about["env_id"] != self.args.env_id:
            raise CheckpointUnusableError(
                f"checkpoint {path} does not fit: its env {about['env_id']}, this run's {self.args.env_id}"
            )
        try:
            self.table.take(arrays)
        except TableMismatchError as error:
            raise CheckpointUnusableError(f"checkpoint {path} does not fit: {error}") from error
        if kind == "warm_start":
            echo(f"warm start with the table of {path}")
            return
        self._same_arguments(about)
        self.step, self._before = about["step"], about["seconds"]
        self.rng.bit_generator.state = about["rng"]
        version, words, spare = about["python_rng"]
        random.setstate((version, tuple(words), spare))
        self.history.load_state_dict(about["history"])
        self._confidence = about["confidence"]
        self._restored, self._begun = about["beliefs"], True
        self.env.restore(about["env"])
        echo(f"resumed at step {self.step:,} from {path}")

    def _same_arguments(self, about: dict[str, Any]) -> None:
        theirs, ours = about["args"], vars(self.args)
        changed = [name for name in ours if name not in RESUME_MAY_CHANGE and theirs.get(name) != ours[name]]
        if about["plan_text"] != self.plan_text:
            changed.append("plans")
        if changed:
            raise CheckpointUnusableError(
                f"the checkpoint was made with other arguments ({', '.join(changed)}): use a warm start"
            )

    def attach(self, mind: AgentMind) -> None:
        super().attach(mind)
        if self._restored is not None:
            mind.restore(self._restored)
        self.checkpoints.begin(self.step)
        self._started, self._first = time.monotonic(), self.step
        echo(f"{self.name}: {self.args.total_timesteps:,} steps, plans of {len(self.plan_text):,} characters")

    @property
    def spent(self) -> bool:
        return self.step >= self.args.total_timesteps

    def curious(self) -> bool:
        return bool(self.rng.random() < curiosity(self.args, self.step))

    def _seed(self) -> int | None:
        """Seed of the first episode only: the others continue its generator."""
        if not self._started_acting:
            # The clock starts here: waiting for the server does not count.
            self._started_acting, self._started = True, time.monotonic()
        first, self._begun = not self._begun, True
        return self.args.seed if first else None

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        goal = gained if terminated else gained + self.args.gamma * max(self.table.values[after])
        rate = learning_rate(self.args, self.step)
        self._mistakes.append(self.table.learn(self._state, action, goal, rate) ** 2)
        if len(self._mistakes) == LOG_EVERY:
            values = {
                "losses/td_loss": float(np.mean(self._mistakes)),
                "charts/epsilon": curiosity(self.args, self.step),
                "charts/learning_rate": rate,
                "charts/SPS": self.speed,
                "charts/known_states": self.table.known,
            }
            self.run.log(values, step=self.step + 1)
            self._mistakes.clear()

    def _episode_over(self) -> None:
        if self.checkpoints.due(self.step):
            self._save()
        elif time.monotonic() >= self._remember_at:
            self._remember()

    def finish(self) -> None:
        """End the run, as the plans decided."""
        self.log_mind()
        if self.step > self.checkpoints.last:
            self._save()
        summary = self.history.summary(self.step, self._seconds(), self.speed)
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / "summary.json").write_text(json.dumps(summary, indent=1))
        echo(f"\n{self.history.curve()}\n\n{self.name}\n{summary_table(summary, self.history.episodes)}")
        self.run.finish()
        self.ended = FINISHED

    @property
    def speed(self) -> float:
        return (self.step - self._first) / max(time.monotonic() - self._started, 1e-9)

    def _save(self) -> None:
        """Save a checkpoint now, at the end of an episode so that a resume is exact."""
        self._remember()
        self._write()

    def keep(self) -> str:
        """Write the last remembered state, unless it is written already."""
        self._write()
        return f"the checkpoint is in {self.checkpoints.folder}"

    def _write(self) -> None:
        if self._remembered is None or self._remembered[0] <= self.checkpoints.last:
            return
        step, arrays, about = self._remembered
        path = self.checkpoints.write(
            step, checkpoint.SUFFIX, lambda file: checkpoint.write(file, arrays, about)
        )
        meta = {"algo": ALGO, "env_id": self.args.env_id, "seed": self.args.seed}
        if about["return_mean"] is not None:
            meta["return_mean"] = about["return_mean"]
        self.run.checkpoint(path, step=step, **meta)

    def _remember(self) -> None:
        self._remember_at = time.monotonic() + REMEMBER_SECONDS
        about = {
            "algo": ALGO,
            "env_id": self.args.env_id,
            "seed": self.args.seed,
            "step": self.step,
            "args": vars(self.args),
            "plan_text": self.plan_text,
            "seconds": self._seconds(),
            "rng": self.rng.bit_generator.state,
            "python_rng": random.getstate(),
            "history": self.history.state_dict(),
            "return_mean": self.history.mean if self.history.episodes else None,
            "confidence": self._confidence,
            "beliefs": self.mind.beliefs(),
            "env": self.env.snapshot(),
        }
        self._remembered = (self.step, self.table.arrays(), about)

    def _seconds(self) -> float:
        return self._before + time.monotonic() - self._started
