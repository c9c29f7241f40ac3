"""What every offline algorithm shares: data, evaluations in the env, scores and charts.

Steps on charts continue across the lineage: fine-tuning begins where its checkpoint ended, so that
`runspine compare OFFLINE ONLINE` shows one curve.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
from torch import Tensor

from runspine.datasets import Manifest
from runspine.trainers.builtin.checkpoints import load
from runspine.trainers.builtin.curve import table
from runspine.trainers.builtin.envs import Envs
from runspine.trainers.builtin.packing import Array
from runspine.trainers.builtin.training import Stateful, Training
from runspine.trainers.offline.data import Arena, Data, load_dataset, scale_of
from runspine.trainers.output import echo

LOG_EVERY = 100
RETURN, SCORE = "charts/episodic_return", "charts/normalized_score"


class OfflineTraining:
    """One training on one dataset, evaluated in its env at intervals."""

    def __init__(self, algo: str, args: Any) -> None:
        self.args = args
        self.training = Training(algo, args)
        self.arena = Arena(args.env_id, args.env_kwargs, args.seed)
        self.envs: Envs = Envs(args.env_id, args.env_kwargs, 1, args.seed) if _online(args) else self.arena
        self.manifest, found = load_dataset(args.env_id, self.arena)
        self.scale = scale_of(found, self.arena.obs_dim)
        room = args.total_timesteps if _online(args) else 0
        self.data = Data(found, self.scale, self.training.device, room)
        self.offset = 0
        self._episodes = 0
        self._last = math.nan

    def begin(self, parts: Mapping[str, Stateful], weights: Sequence[str]) -> int:
        """Return the update to begin at; a warm start restores weights, scale and the offset on charts."""
        run = self.training.run
        if run.resume_path and run.resume_kind == "warm_start":
            state = load(run.resume_path, self.training.device)
            self.offset = state["step"] + state["parts"].get("trial", {}).get("offset", 0)
        own: dict[str, Stateful] = {"observations": self.scale, "data": self.data, "trial": self}
        step = self.training.begin(self.envs, {**own, **parts}, weights=("observations", *weights))
        echo(about(self.manifest))
        if step == 0:
            self.training.run.progress(self.offset, self.offset + self.args.total_timesteps)
        return step

    def due(self, step: int) -> bool:
        return bool(step % self.args.eval_every == 0 or step == self.args.total_timesteps)

    def log_losses(self, step: int, losses: Mapping[str, Tensor]) -> None:
        """Log losses at intervals; reading a tensor waits for it."""
        if step % LOG_EVERY:
            return
        values = {name: value.item() for name, value in losses.items()}
        run, training = self.training.run, self.training
        run.log({**values, "charts/UPS": training.speed(step)}, step=self.offset + step)
        run.progress(self.offset + step, self.offset + self.args.total_timesteps)

    def evaluate(self, step: int, act: Callable[[Array], Array]) -> None:
        """Evaluate the policy for some episodes and log the result."""
        training, run = self.training, self.training.run
        played = self.arena.play(
            lambda row: act(self.scale(row[None])), self.args.eval_episodes, lambda: training.asked_to_stop
        )
        if len(played) < self.args.eval_episodes:
            return  # stopping: the checkpoint comes first
        mean = float(np.mean([episode.total for episode in played]))
        for episode in played:
            training.history.add(step, episode.total)
            run.log_episode(episode.total, episode.length, episode_id=f"trial-{self._episodes}")
            self._episodes += 1
        self._last = mean
        score = self.manifest.returns.normalised(mean)
        values = {RETURN: mean} if score is None else {RETURN: mean, SCORE: score}
        run.log(values, step=self.offset + step)
        words = "" if score is None else f", normalised {score:.1f}"
        echo(f"update {self.offset + step:,}: return {mean:.6g} over {len(played)} episodes{words}")

    def finish(self, step: int) -> None:
        self.training.finish(step)
        echo(f"\n{standings(self.manifest, self.training.algo, self._last)}")
        for env in {*self.arena.envs, *self.envs.envs}:
            env.close()

    def state_dict(self) -> dict[str, Any]:
        return {"offset": self.offset, "episodes": self._episodes, "last": self._last}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.offset, self._episodes, self._last = state["offset"], state["episodes"], state["last"]


def about(manifest: Manifest) -> str:
    returns = manifest.returns
    return (
        f"dataset of {manifest.env}: {manifest.steps:,} steps in {manifest.episodes:,} episodes, "
        f"return {returns.mean:.6g} ± {returns.std:.4g}"
    )


def standings(manifest: Manifest, algo: str, reached: float) -> str:
    """Table of the returns of the random policy, the data, the algorithm and the expert."""
    returns = manifest.returns
    rows = [("random policy", returns.random), ("the data itself", returns.mean)]
    rows += [(algo, reached), ("expert", returns.expert)]
    return table([(name, _scored(manifest, value)) for name, value in rows if value is not None])


def _scored(manifest: Manifest, value: float) -> str:
    """A return with its difference to a random policy and its normalised score."""
    random, score = manifest.returns.random, manifest.returns.normalised(value)
    notes = [] if random is None or value == random else [f"{value - random:+.6g} against random"]
    notes += [] if score is None else [f"normalised {score:.1f}"]
    return f"{value:.6g}" + (f"  ({', '.join(notes)})" if notes else "")


def _online(args: Any) -> bool:
    return bool(getattr(args, "online", False))
