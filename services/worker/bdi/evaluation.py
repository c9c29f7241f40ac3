"""The agent shows what it can: its plans, its table as it is, no curiosity, batches of episodes."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.scores import figures_of
from services.worker.algorithms.checkpoints import Unusable
from services.worker.bdi import checkpoint
from services.worker.bdi.args import Args
from services.worker.bdi.table import Unfitting
from services.worker.bdi.training import ALGO
from services.worker.bdi.world import FINISHED, World, say


@dataclass(frozen=True, slots=True)
class Asked:
    """What is to be evaluated, and how often."""

    digest: str
    episodes: int
    batches: int
    # Batch after batch, until a signal comes.
    repeat: bool


class Evaluation(World):
    """Episode k begins with reset(seed + k), so that the same seed gives every policy the same beginnings."""

    def __init__(self, args: Args, plan_text: str, run: Any, asked: Asked, path: Path) -> None:
        super().__init__(args, plan_text, run)
        arrays, self.about = checkpoint.read(path)
        try:
            self.table.take(arrays)
        except Unfitting as error:
            raise Unusable(f"checkpoint {path} does not fit {args.env_id}: {error}") from error
        self.asked = asked
        self.batch = 0
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._began = time.monotonic()
        many = "until cancelled" if asked.repeat else f"{asked.batches:,} × {asked.episodes:,} episodes"
        say(f"{ALGO} in {args.env_id}, seed {args.seed}, at step {self.about['step']:,}: {many}")

    @property
    def spent(self) -> bool:
        return not self.asked.repeat and self.batch >= self.asked.batches

    def curious(self) -> bool:
        return False

    def _seed(self) -> int:
        self.run.view.about["batch"] = self.batch + 1
        if not self._returns:
            self._began = time.monotonic()
        return self.args.seed + self.history.episodes

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        """Nothing: the table stays as it is."""

    def _episode_over(self) -> None:
        self._returns.append(self._return)
        self._lengths.append(self._length)
        if len(self._returns) < self.asked.episodes:
            return
        seconds = time.monotonic() - self._began
        self.run.log_evaluation(
            self._returns,
            self._lengths,
            seconds,
            batch=self.batch,
            digest=self.asked.digest,
            env_id=self.args.env_id,
            algo=ALGO,
            seed=self.args.seed,
            deterministic=True,
            step=self.about["step"],
        )
        told = figures_of(self._returns)
        say(
            f"batch {self.batch}: {told.mean:.6g} ± {told.std:.4g} over {len(self._returns)} episodes "
            f"in {seconds:.1f} s"
        )
        self.batch += 1
        self._returns, self._lengths = [], []

    def finish(self) -> None:
        self.look()
        self.run.finish()
        self.ended = FINISHED

    def keep(self) -> str:
        return f"{self.batch:,} batches were done"
