"""Records a dataset: a trained policy acts, mixed with random actions, and every step is kept.

With a warm start the policy is that of the checkpoint, of any runner; else all actions are random. Random
and expert returns are measured in the same env, so that scores on the dataset can be normalised.
"""

from __future__ import annotations

import json
import os
import shutil
import signal
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

import numpy as np

import runspine
from runspine.checkpoints import CheckpointError
from runspine.datasets import Manifest
from runspine.datasets.archive import SUFFIX, pack
from runspine.datasets.minari_folder import describe
from runspine.datasets.minari_writer import MinariWriter
from runspine.domain.artifact_kinds import DATASET
from runspine.trainers.builtin.curve import table
from runspine.trainers.builtin.envs import EnvUnfitError, make
from runspine.trainers.builtin.ranges import Range
from runspine.trainers.builtin.training import StoppedError, main
from runspine.trainers.output import echo

Act = Callable[[Any], Any]
# Offset of the seeds of reference episodes, away from those of recorded ones.
REFERENCE_SEEDS = 1_000_000
PRINT_EVERY = 1000


@dataclass
class Args:
    seed: int = 1
    """seed of everything random; episode k begins with seed + k"""

    env_id: str = "Pendulum-v1"
    """environment, any id that Gymnasium knows"""
    env_kwargs: str = "{}"
    """arguments of gymnasium.make, as a JSON object"""
    total_timesteps: Annotated[int, Range(1)] = 20_000
    """steps to record; the last episode is played to its end"""
    name: str = "dataset"
    """name of the dataset, which is also that of its file"""
    epsilon: Annotated[float, Range(0, 1)] = 0.0
    """share of random actions within an episode of the policy"""
    random_episodes: Annotated[float, Range(0, 1)] = 0.0
    """share of episodes in which all actions are random"""
    stochastic: bool = False
    """draw the policy's actions instead of taking its best"""
    reference_episodes: Annotated[int, Range(0)] = 20
    """episodes to measure a random policy and the policy at its best; 0: neither"""


class DatasetRecorder:
    """Plays episodes and writes them to a dataset."""

    def __init__(self, args: Args) -> None:
        self.args = args
        self._signal = 0
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        self.run = runspine.init(config=vars(args), total_steps=args.total_timesteps)
        self.bare = make(args.env_id, args.env_kwargs)
        self.env = runspine.wrap(self.bare, slot=0)
        self.bare.action_space.seed(args.seed)
        self.policy, self.best, self.algo = self._policies()
        self.dice = np.random.default_rng(args.seed)
        self.place = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".")
        self.folder = self.place / args.name
        self.steps = self.episodes = 0

    def _policies(self) -> tuple[Act | None, Act | None, str]:
        """The policy that acts, the same without randomness, and its name; none without a checkpoint."""
        source = self.run.resume_path
        if source is None:
            return None, None, "random"
        from runspine.trainers.evaluation.policy import load_policy

        args = self.args
        try:
            acting, best = (
                load_policy(source, self.bare, args.env_id, seed=args.seed, deterministic=sure)
                for sure in (not args.stochastic, True)
            )
        except CheckpointError as error:
            raise EnvUnfitError(str(error)) from error
        return acting.act, best.act, acting.about.adapter.name

    def record(self) -> Manifest:
        shutil.rmtree(self.folder, ignore_errors=True)
        writer = MinariWriter(self.folder, self.bare, f"runspine/{self.args.name}-v0")
        while self.steps < self.args.total_timesteps:
            self._episode(writer)
        manifest = describe(self.folder, env=self.args.env_id, **self._provenance())
        references = {"random": self._reference(None)}
        if self.best is not None:
            references["expert"] = self._reference(self.best)
        known = {name: value for name, value in references.items() if value is not None}
        kwargs = json.loads(self.args.env_kwargs or "{}")
        return replace(manifest, env_kwargs=kwargs, returns=replace(manifest.returns, **known))

    def _episode(self, writer: MinariWriter) -> None:
        args, seed = self.args, self.args.seed + self.episodes
        policy = None if self.dice.random() < args.random_episodes else self.policy
        observation, _ = self.env.reset(seed=seed)
        writer.begin(observation, seed)
        total, done = 0.0, False
        while not done:
            self._stop_if_asked()
            chance = policy is None or self.dice.random() < args.epsilon
            action = self.bare.action_space.sample() if chance else policy(observation)  # type: ignore[misc]
            observation, reward, terminated, truncated, _ = self.env.step(action)
            writer.add(action, observation, float(reward), terminated, truncated)
            total += float(reward)
            self.steps += 1
            done = bool(terminated or truncated)
            if self.steps % PRINT_EVERY == 0:
                echo(f"{self.steps:,} of {args.total_timesteps:,} steps, {self.episodes:,} episodes")
        writer.end()
        self.episodes += 1
        self.run.log({"charts/episodic_return": total}, step=self.steps)

    def _reference(self, policy: Act | None) -> float | None:
        """Mean return of a random policy, or of the trained one without randomness."""
        args = self.args
        if not args.reference_episodes:
            return None
        env = make(args.env_id, args.env_kwargs)
        env.action_space.seed(args.seed + REFERENCE_SEEDS)
        totals = []
        for number in range(args.reference_episodes):
            observation, _ = env.reset(seed=args.seed + REFERENCE_SEEDS + number)
            total, done = 0.0, False
            while not done:
                self._stop_if_asked()
                action = policy(observation) if policy else env.action_space.sample()
                observation, reward, terminated, truncated, _ = env.step(action)
                total += float(reward)
                done = bool(terminated or truncated)
            totals.append(total)
        env.close()
        return float(np.mean(totals))

    def _on_signal(self, number: int, frame: object) -> None:
        self._signal = number

    def _stop_if_asked(self) -> None:
        if self._signal:
            self.run.finish()
            raise StoppedError(self._signal)

    def _provenance(self) -> dict[str, Any]:
        args, source = self.args, self.run.resume_path
        fields = {
            "policy": self.algo,
            "run": os.environ.get("RUNSPINE_RUN_ID", ""),
            # The worker names a checkpoint's file by its digest.
            "checkpoint": source.name.partition(".")[0] if source else "",
            "seed": args.seed,
            "epsilon": args.epsilon if source else 1.0,
            "random_episodes": args.random_episodes if source else 1.0,
            "stochastic": args.stochastic,
        }
        return {name: value for name, value in fields.items() if value != ""}


def record(args: Args) -> None:
    recording = DatasetRecorder(args)
    manifest = recording.record()
    archive = recording.place / f"{args.name}{SUFFIX}"
    whole = pack(recording.folder, manifest, archive)
    shutil.rmtree(recording.folder)
    recording.run.log_artifact(archive, kind=DATASET, step=recording.steps, **whole.meta())
    echo(f"\n{summary(args.name, whole, archive)}")
    recording.run.finish()
    recording.env.close()


def summary(name: str, manifest: Manifest, archive: Path) -> str:
    returns = manifest.returns
    rows = [
        ("dataset", name),
        ("env", manifest.env),
        ("steps", f"{manifest.steps:,} in {manifest.episodes:,} episodes"),
        ("return", f"{returns.mean:.6g} ± {returns.std:.4g}"),
        ("random", "–" if returns.random is None else f"{returns.random:.6g}"),
        ("expert", "–" if returns.expert is None else f"{returns.expert:.6g}"),
        ("file", f"{archive.name}, {archive.stat().st_size / 1e6:.2f} MB"),
    ]
    return table(rows)


if __name__ == "__main__":
    main(Args, record, __doc__)
