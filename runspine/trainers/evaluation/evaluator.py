"""Evaluates the policy of a checkpoint in batches of episodes.

`python -m runspine.trainers.evaluation.evaluator --checkpoint FILE [--env-id CartPole-v1] …`. Episode k
begins with `env.reset(seed=seed + k)`, so the same seed gives the same starts to every policy.
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
from runspine.checkpoints import CheckpointError, inspect_checkpoint
from runspine.domain.defaults import DEFAULT_EPISODES
from runspine.domain.scores import Running, figures_of
from runspine.trainers.builtin.envs import EnvUnfitError, make
from runspine.trainers.builtin.training import PRINT_SECONDS, StoppedError
from runspine.trainers.evaluation.clips import EvaluatedEpisode, EvaluationClips
from runspine.trainers.evaluation.policy import Policy, load_policy
from runspine.trainers.filming.crew import FilmCrew
from runspine.trainers.output import echo


class PolicyEvaluation:
    """Evaluation of one policy in one env."""

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self._signal = 0
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)
        torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))
        about = inspect_checkpoint(args.checkpoint)
        self.env_id = args.env_id or about.env
        if not self.env_id:
            raise EnvUnfitError("the checkpoint has no env: give one")
        self.kwargs = _kwargs(args.env_kwargs) if args.env_kwargs else about.env_kwargs
        self.seed = args.seed if args.seed is not None else about.seed if about.seed is not None else 1
        self.run = runspine.init(config={**vars(args), "checkpoint": args.checkpoint.name})
        self.bare = make(self.env_id, json.dumps(self.kwargs))
        self.policy: Policy = load_policy(
            args.checkpoint, self.bare, self.env_id, seed=self.seed, deterministic=not args.stochastic
        )
        self.env = runspine.wrap(self.bare, slot=0)
        folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or ".") / "videos"
        crew = FilmCrew(self.run, self.env_id, self.kwargs, args.video_frames, folder)
        self.clips = EvaluationClips(crew) if args.video_frames else None
        self.overall = Running()
        self._printed = 0.0

    def run_batches(self) -> None:
        """Run all batches. Raises StoppedError on a signal."""
        args = self.args
        how = "samples its actions" if args.stochastic else "takes its best action"
        many = "until cancelled" if args.repeat else f"{args.batches:,} × {args.episodes:,} episodes"
        echo(f"{self.policy.about.adapter.name} in {self.env_id}, seed {self.seed}: {how}, {many}")
        try:
            for batch in itertools.count() if args.repeat else range(args.batches):
                self._batch(batch)
            if self.clips:
                self.clips.crew.finish()
        except StoppedError:
            if self.clips:
                self.clips.crew.drop()
            echo(f"stopped after {self.overall.batches:,} batches")
            raise
        finally:
            self.env.close()
            self.run.finish()

    def _batch(self, batch: int) -> None:
        self.run.view.about["batch"] = batch + 1
        returns, lengths = [], []
        began = time.monotonic()
        for number in range(batch * self.args.episodes, (batch + 1) * self.args.episodes):
            played = self._episode(number)
            returns.append(played.value)
            lengths.append(played.length)
            if self.clips:
                self.clips.add(played, self.env)
            self._print(played)
        seconds = time.monotonic() - began
        about = self.policy.about
        self.run.log_evaluation(
            returns,
            lengths,
            seconds,
            batch=batch,
            digest=self.args.digest,
            env_id=self.env_id,
            algo=about.algo,
            seed=self.seed,
            deterministic=not self.args.stochastic,
            step=about.step,
        )
        self.overall.add(returns)
        figures = figures_of(returns)
        echo(
            f"batch {batch}: {figures.mean:.6g} ± {figures.std:.4g} over {len(returns)} episodes "
            f"(min {figures.minimum:.6g}, median {figures.median:.6g}, max {figures.maximum:.6g}) "
            f"in {seconds:.1f} s"
        )
        self.run.view.about["evaluated"] = {
            "number": batch + 1,
            "episodes": len(returns),
            "mean": figures.mean,
            "minimum": figures.minimum,
            "maximum": figures.maximum,
        }
        if self.clips:
            self.clips.film()

    def _episode(self, number: int) -> EvaluatedEpisode:
        """Play one episode to its end. Raises StoppedError."""
        observation, _ = self.env.reset(seed=self.seed + number)
        act, step = self.policy.act, self.env.step
        value, length, done = 0.0, 0, False
        while not done:
            if self._signal:
                raise StoppedError(self._signal)
            observation, reward, terminated, truncated, _ = step(act(observation))
            value += float(reward)
            length += 1
            done = bool(terminated or truncated)
            if length == self.args.longest:
                raise EnvUnfitError(
                    f"an episode of {self.env_id} has not ended after {length:,} steps: use an env with a "
                    "time limit, or raise --longest"
                )
        return EvaluatedEpisode(number, value, length)

    def _print(self, played: EvaluatedEpisode) -> None:
        if (now := time.monotonic()) - self._printed >= PRINT_SECONDS:
            self._printed = now
            echo(f"episode {played.number}: return {played.value:.6g} in {played.length:,} steps")

    def _on_signal(self, number: int, frame: object) -> None:
        self._signal = number


def _kwargs(text: str) -> dict[str, Any]:
    try:
        given = json.loads(text)
    except ValueError as error:
        raise EnvUnfitError(f"--env-kwargs is not JSON: {error}") from error
    if not isinstance(given, dict):
        raise EnvUnfitError('--env-kwargs must be a JSON object, such as {"is_slippery": false}')
    return given


def arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    given = os.environ.get("RUNSPINE_RESUME")
    add = parser.add_argument
    add("--checkpoint", type=Path, default=given, required=not given, help="file of any known format")
    add("--digest", default="", help="its SHA-256, recorded with every batch")
    add("--env-id", default="", help="env to act in; the checkpoint's own when absent")
    add("--env-kwargs", default="", help="arguments of gymnasium.make, as a JSON object")
    add("--seed", type=int, help="episode k begins with seed + k; the checkpoint's own when absent")
    add("--episodes", type=int, default=DEFAULT_EPISODES, help="episodes of a batch")
    add("--batches", type=int, default=1, help="batches to do")
    add("--repeat", action="store_true", help="batch after batch, until cancelled")
    add("--stochastic", action="store_true", help="draw actions instead of taking the best")
    add(
        "--video-frames",
        type=int,
        default=0,
        help="film the best and the worst episode, at most this many frames each",
    )
    add("--longest", type=int, default=1_000_000, help="steps after which an episode is given up")
    return parser


def main() -> None:
    try:
        PolicyEvaluation(arguments().parse_args()).run_batches()
    except (EnvUnfitError, CheckpointError) as error:
        sys.exit(str(error))
    except StoppedError as stopped:
        sys.exit(128 + stopped.number)


if __name__ == "__main__":
    main()
