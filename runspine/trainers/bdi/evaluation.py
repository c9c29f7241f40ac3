"""Evaluation of a BDI agent: its plans and its table without exploration or learning, in batches."""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.domain.scores import figures_of
from runspine.trainers.bdi import checkpoint
from runspine.trainers.bdi.args import Args
from runspine.trainers.bdi.table import TableMismatchError
from runspine.trainers.bdi.training import ALGO
from runspine.trainers.bdi.world import FINISHED, World
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.trainers.output import echo


@dataclass(frozen=True, slots=True)
class EvaluationRequest:
    """Checkpoint to evaluate, and how many episodes."""

    digest: str
    episodes: int
    batches: int
    # Batch after batch, until a signal comes.
    repeat: bool


class BdiEvaluation(World):
    """Episode k begins with reset(seed + k), so that every policy has the same starts for one seed."""

    def __init__(self, args: Args, plan_text: str, run: Any, request: EvaluationRequest, path: Path) -> None:
        super().__init__(args, plan_text, run)
        arrays, self.about = checkpoint.read(path)
        try:
            self.table.take(arrays)
        except TableMismatchError as error:
            raise CheckpointUnusableError(f"checkpoint {path} does not fit {args.env_id}: {error}") from error
        self.request = request
        self.batch = 0
        self._returns: list[float] = []
        self._lengths: list[int] = []
        self._began = time.monotonic()
        many = "until cancelled" if request.repeat else f"{request.batches:,} × {request.episodes:,} episodes"
        echo(f"{ALGO} in {args.env_id}, seed {args.seed}, at step {self.about['step']:,}: {many}")

    @property
    def spent(self) -> bool:
        return not self.request.repeat and self.batch >= self.request.batches

    def curious(self) -> bool:
        return False

    def _seed(self) -> int:
        self.run.view.about["batch"] = self.batch + 1
        if not self._returns:
            self._began = time.monotonic()
        return self.args.seed + self.history.episodes

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        """Keep the table as it is."""

    def _episode_over(self) -> None:
        self._returns.append(self._return)
        self._lengths.append(self._length)
        if len(self._returns) < self.request.episodes:
            return
        seconds = time.monotonic() - self._began
        self.run.log_evaluation(
            self._returns,
            self._lengths,
            seconds,
            batch=self.batch,
            digest=self.request.digest,
            env_id=self.args.env_id,
            algo=ALGO,
            seed=self.args.seed,
            deterministic=True,
            step=self.about["step"],
        )
        figures = figures_of(self._returns)
        echo(
            f"batch {self.batch}: {figures.mean:.6g} ± {figures.std:.4g} over {len(self._returns)} episodes "
            f"in {seconds:.1f} s"
        )
        self.batch += 1
        self._returns, self._lengths = [], []

    def finish(self) -> None:
        self.log_mind()
        self.run.finish()
        self.ended = FINISHED

    def keep(self) -> str:
        return f"{self.batch:,} batches were done"
