"""Lets a checkpoint's policy act and keeps what it reached, batch after batch.

`python -m services.worker.evaluation.evaluator --checkpoint FILE [--env-id CartPole-v1] …`. Episode k
begins with `env.reset(seed=seed + k)`, so the same seed gives the same beginnings to every policy.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import torch

import runspine
from runspine.checkpoints import BadCheckpoint, look
from runspine.scores import Running, figures_of
from services.worker.algorithms.envs import Unfit, make
from services.worker.algorithms.training import PRINT_SECONDS, Stopped, say
from services.worker.evaluation.clips import Clips, Played
from services.worker.evaluation.policy import Policy, load_policy
from services.worker.filming.crew import Crew


class Evaluation:
    """One policy in one env."""

    def __init__(self, asked: argparse.Namespace) -> None:
        self.asked = asked
        self._signal = 0
        signal.signal(signal.SIGTERM, self._hear)
        signal.signal(signal.SIGINT, self._hear)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        about = look(asked.checkpoint)
        self.env_id = asked.env_id or about.env
        if not self.env_id:
            raise Unfit("the checkpoint does not say which env it is for: give one")
        self.kwargs = _kwargs(asked.env_kwargs) if asked.env_kwargs else about.env_kwargs
        self.seed = asked.seed if asked.seed is not None else about.seed if about.seed is not None else 1
        self.run = runspine.init(config={**vars(asked), "checkpoint": asked.checkpoint.name})
        self.bare = make(self.env_id, json.dumps(self.kwargs))
        self.policy: Policy = load_policy(
            asked.checkpoint, self.bare, self.env_id, seed=self.seed, deterministic=not asked.stochastic
        )
        self.env = runspine.wrap(self.bare, slot=0)
        folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".") / "videos"
        crew = Crew(self.run, self.env_id, self.kwargs, asked.video_frames, folder)
        self.clips = Clips(crew) if asked.video_frames else None
        self.overall = Running()
        self._printed = 0.0

    def go(self) -> None:
        """All batches; Stopped when a signal asked for the end."""
        asked = self.asked
        how = "draws its actions" if asked.stochastic else "takes its best action"
        many = "until cancelled" if asked.repeat else f"{asked.batches:,} × {asked.episodes:,} episodes"
        say(f"{self.policy.about.adapter.name} in {self.env_id}, seed {self.seed}: {how}, {many}")
        try:
            for batch in itertools.count() if asked.repeat else range(asked.batches):
                self._batch(batch)
            if self.clips:
                self.clips.crew.finish()
        except Stopped:
            if self.clips:
                self.clips.crew.drop()
            say(f"stopped after {self.overall.batches:,} batches")
            raise
        finally:
            self.env.close()
            self.run.finish()

    def _batch(self, batch: int) -> None:
        self.run.view.about["batch"] = batch + 1
        returns, lengths = [], []
        began = time.monotonic()
        for number in range(batch * self.asked.episodes, (batch + 1) * self.asked.episodes):
            played = self._episode(number)
            returns.append(played.value)
            lengths.append(played.length)
            if self.clips:
                self.clips.see(played, self.env)
            self._print(played)
        seconds = time.monotonic() - began
        about = self.policy.about
        self.run.log_evaluation(
            returns,
            lengths,
            seconds,
            batch=batch,
            digest=self.asked.digest,
            env_id=self.env_id,
            algo=about.algo,
            seed=self.seed,
            deterministic=not self.asked.stochastic,
            step=about.step,
        )
        self.overall.add(returns)
        told = figures_of(returns)
        say(
            f"batch {batch}: {told.mean:.6g} ± {told.std:.4g} over {len(returns)} episodes "
            f"(min {told.minimum:.6g}, median {told.median:.6g}, max {told.maximum:.6g}) in {seconds:.1f} s"
        )
        if self.clips:
            self.clips.film()

    def _episode(self, number: int) -> Played:
        """Play one to its end. Raises Stopped."""
        observation, _ = self.env.reset(seed=self.seed + number)
        act, step = self.policy.act, self.env.step
        value, length, done = 0.0, 0, False
        while not done:
            if self._signal:
                raise Stopped(self._signal)
            observation, reward, terminated, truncated, _ = step(act(observation))
            value += float(reward)
            length += 1
            done = bool(terminated or truncated)
            if length == self.asked.longest:
                raise Unfit(
                    f"an episode of {self.env_id} has not ended after {length:,} steps: use an env with a "
                    "time limit, or raise --longest"
                )
        return Played(number, value, length)

    def _print(self, played: Played) -> None:
        if (now := time.monotonic()) - self._printed >= PRINT_SECONDS:
            self._printed = now
            say(f"episode {played.number}: return {played.value:.6g} in {played.length:,} steps")

    def _hear(self, number: int, frame: object) -> None:
        self._signal = number


def _kwargs(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise Unfit(f"--env-kwargs is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise Unfit('--env-kwargs must be a JSON object, such as {"is_slippery": false}')
    return given


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = os.environ.get("RUNSPINE_RESUME")
    add = parser.add_argument
    add("--checkpoint", type=Path, default=given, required=not given, help="file of any known format")
    add("--digest", default="", help="its SHA-256, told with every batch")
    add("--env-id", default="", help="env to act in; the checkpoint's own when absent")
    add("--env-kwargs", default="", help="arguments of gymnasium.make, as a JSON object")
    add("--seed", type=int, help="episode k begins with seed + k; the checkpoint's own when absent")
    add("--episodes", type=int, default=50, help="episodes of a batch")
    add("--batches", type=int, default=1, help="batches to do")
    add("--repeat", action="store_true", help="batch after batch, until told to stop")
    add("--stochastic", action="store_true", help="draw actions instead of taking the best")
    add(
        "--video-frames",
        type=int,
        default=0,
        help="film the best and the worst episode, so many frames at most",
    )
    add("--longest", type=int, default=1_000_000, help="steps after which an episode is given up")
    return parser


def main() -> None:
    try:
        Evaluation(arguments().parse_args()).go()
    except (Unfit, BadCheckpoint) as error:
        sys.exit(str(error))
    except Stopped as stopped:
        sys.exit(128 + stopped.number)


if __name__ == "__main__":
    main()
