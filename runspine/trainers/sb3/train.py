"""Trains one Stable-Baselines3 algorithm in a run: `python -m runspine.trainers.sb3.train ppo --env-id …`.

The library's logger values become metrics, under CleanRL's names where they mean the same; checkpoints
are the library's zip files with two more entries, and are read without running pickled code.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
import time
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import torch
from stable_baselines3 import A2C, DDPG, DQN, PPO, SAC, TD3
from stable_baselines3.common.base_class import BaseAlgorithm
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter, Logger
from stable_baselines3.common.monitor import Monitor
from stable_baselines3.common.noise import NormalActionNoise
from stable_baselines3.common.vec_env import DummyVecEnv

import runspine
from runspine.trainers.builtin.checkpoints import Checkpoints, CheckpointUnusableError
from runspine.trainers.builtin.envs import EnvUnfitError, make
from runspine.trainers.builtin.history import TrainingHistory, summary_table
from runspine.trainers.builtin.training import PRINT_SECONDS, device_text, pick_device
from runspine.trainers.output import echo
from runspine.trainers.sb3.checkpoint import read_checkpoint, take_weights, write_checkpoint
from runspine.trainers.sb3.parameters import ALGORITHMS, OURS

CLASSES: dict[str, type[BaseAlgorithm]] = {
    "ppo": PPO, "a2c": A2C, "dqn": DQN, "sac": SAC, "td3": TD3, "ddpg": DDPG,
}  # fmt: skip
LOG_INTERVALS = {"ppo": 1, "a2c": 100}
SAME_NAMES = {
    "train/value_loss": "losses/value_loss",
    "train/policy_gradient_loss": "losses/policy_loss",
    "train/policy_loss": "losses/policy_loss",
    "train/approx_kl": "losses/approx_kl",
    "train/clip_fraction": "losses/clipfrac",
    "train/explained_variance": "losses/explained_variance",
    "train/learning_rate": "charts/learning_rate",
    "train/loss": "losses/loss",
    "train/actor_loss": "losses/actor_loss",
    "train/ent_coef": "losses/alpha",
    "train/ent_coef_loss": "losses/alpha_loss",
    "rollout/exploration_rate": "charts/epsilon",
    "time/fps": "charts/SPS",
}
# Recorded with every episode, or by the run itself.
REDUNDANT = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/iterations", "time/time_elapsed"}
REDUNDANT |= {"time/total_timesteps", "time/episodes", "train/n_updates"}


def translated(algo: str, values: dict[str, Any]) -> dict[str, float]:
    """Rename the library's values to CleanRL's names where they mean the same."""
    metrics: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(value, int | float | np.number) or name in REDUNDANT:
            continue
        if name == "train/entropy_loss":
            metrics["losses/entropy"] = -float(value)  # a loss there, the entropy itself here
        elif name == "train/loss" and algo == "dqn":
            metrics["losses/td_loss"] = float(value)
        elif name == "train/critic_loss" and algo == "sac":
            metrics["losses/qf_loss"] = float(value)  # both are half the sum of two; td3's and ddpg's are not
        else:
            metrics[SAME_NAMES.get(name, name)] = float(value)
    return metrics


class RunLog(KVWriter):
    """Output of the library's logger to the run."""

    def __init__(self, run: runspine.Run, algo: str) -> None:
        self.run, self.algo = run, algo

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.run.log(translated(self.algo, key_values), step=step)

    def close(self) -> None: ...


class TrainingCallback(BaseCallback):
    """Records episodes, saves checkpoints, and stops the training on a signal."""

    def __init__(
        self, run: runspine.Run, args: argparse.Namespace, folder: Path, params: dict[str, Any]
    ) -> None:
        super().__init__()
        self.run, self.args = run, args
        self.history = TrainingHistory(args.total_timesteps)
        self.checkpoints = Checkpoints(
            folder / "checkpoints",
            args.total_timesteps,
            every_steps=params["checkpoint_every"],
            every_seconds=params["checkpoint_seconds"],
        )
        self.stopped = 0
        self._printed = 0.0
        signal.signal(signal.SIGTERM, self._on_signal)
        signal.signal(signal.SIGINT, self._on_signal)

    def _on_step(self) -> bool:
        step = self.num_timesteps
        for info in self.locals["infos"]:
            if "episode" in info:
                self._record(step, float(info["episode"]["r"]), int(info["episode"]["l"]))
        return not self.stopped

    def _on_rollout_start(self) -> None:
        """Save between learning and acting, when all steps so far are learnt and stored."""
        if self.checkpoints.due(self.model.num_timesteps):
            self.save()

    def save(self) -> Path:
        """Save a checkpoint now."""
        step = self.model.num_timesteps
        about = {"algo": self.args.algo, "env_id": self.args.env_id, "seed": self.args.seed}
        about["history"] = self.history.state_dict()
        path = self.checkpoints.write(step, ".zip", lambda file: write_checkpoint(file, self.model, about))
        meta = {"algo": self.args.algo, "env_id": self.args.env_id, "seed": self.args.seed}
        if self.history.episodes:
            meta["return_mean"] = self.history.mean
        self.run.checkpoint(path, step=step, **meta)
        return path

    def _record(self, step: int, total: float, length: int) -> None:
        self.history.add(step, total)
        self.run.log({"charts/episodic_return": total, "charts/episodic_length": length}, step=step)
        if (now := time.monotonic()) - self._printed >= PRINT_SECONDS:
            self._printed = now
            echo(f"global_step={step}, episodic_return={total:.6g}")

    def _on_signal(self, number: int, frame: object) -> None:
        self.stopped = number


def build(args: argparse.Namespace, params: dict[str, Any]) -> BaseAlgorithm:
    """Build the model in wrapped envs."""
    device = pick_device(params["cuda"], params["require_cuda"])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))

    def one(slot: int) -> gym.Env[Any, Any]:
        return Monitor(runspine.wrap(make(args.env_id, args.env_kwargs), slot=slot))

    envs = DummyVecEnv([partial(one, slot) for slot in range(params.get("n_envs", 1))])
    given = {name: value for name, value in params.items() if name not in OURS}
    if params.get("action_noise_std"):
        size = envs.action_space.shape or ()
        given["action_noise"] = NormalActionNoise(np.zeros(size), np.full(size, params["action_noise_std"]))
    if params.get("net_arch"):
        given["policy_kwargs"] = {"net_arch": list(params["net_arch"])}
    policy = params["policy"]
    if policy == "auto":
        policy = policy_for(envs.observation_space)
    seed = args.seed % 2**32  # numpy's seeding in the library takes 32 bits
    return CLASSES[args.algo](policy, envs, device=device, seed=seed, **given)


def policy_for(space: gym.Space[Any]) -> str:
    if isinstance(space, gym.spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if len(space.shape or ()) == 3 else "MlpPolicy"


def begin(model: BaseAlgorithm, callback: TrainingCallback, run: runspine.Run) -> None:
    """Resume from the checkpoint of the run, if any."""
    source = run.resume_path
    if source is None:
        return
    saved = read_checkpoint(source, callback.args.algo, callback.args.env_id, model.device)
    if run.resume_kind == "warm_start":
        take_weights(model, saved)
        echo(f"warm start with the weights of {source}")
        return
    saved.restore(model)
    callback.history.load_state_dict(saved.about["history"])
    callback.checkpoints.begin(model.num_timesteps)
    echo(f"resumed at step {model.num_timesteps:,} from {source}; not bit for bit: envs begin a new episode")


def train(args: argparse.Namespace) -> int:
    """Train; return the exit code: 0, or 128 plus the number of the signal that stopped it."""
    params = {**_defaults(args.algo), **json.loads(args.params)}
    run = runspine.init(config={**vars(args), "params": params}, total_steps=args.total_timesteps)
    name = f"{args.env_id}__{args.algo}__{args.seed}__{int(time.time())}"
    folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or Path("runs") / name.replace("/", "-"))
    callback = TrainingCallback(run, args, folder, params)
    model = build(args, params)
    model.set_logger(Logger(folder=None, output_formats=[RunLog(run, args.algo)]))
    begin(model, callback, run)
    started, first = time.monotonic(), model.num_timesteps
    device = device_text(model.device, params["cuda"])
    echo(f"{name}: {args.total_timesteps:,} steps with Stable-Baselines3 on {device}")
    left = args.total_timesteps - first
    if left > 0:
        interval = LOG_INTERVALS.get(args.algo, 4)
        model.learn(left, callback=callback, log_interval=interval, reset_num_timesteps=False)
    if model.num_timesteps > callback.checkpoints.last:
        path = callback.save()
        if callback.stopped:
            why = signal.Signals(callback.stopped).name
            echo(f"{why} at step {model.num_timesteps:,}: the checkpoint is in {path}")
    if not callback.stopped:
        seconds = time.monotonic() - started
        speed = (model.num_timesteps - first) / max(seconds, 1e-9)
        _summarise(folder, name, callback.history, model.num_timesteps, seconds, speed)
    run.finish()
    return 128 + callback.stopped if callback.stopped else 0


def _summarise(
    folder: Path, name: str, history: TrainingHistory, step: int, seconds: float, speed: float
) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    summary = history.summary(step, seconds, speed)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    echo(f"\n{history.curve()}\n\n{name}\n{summary_table(summary, history.episodes)}")


def _defaults(algo: str) -> dict[str, Any]:
    ours = {"policy": "auto", "cuda": True, "require_cuda": False}
    return {**ours, "checkpoint_every": 0, "checkpoint_seconds": 0.0, **_set(ALGORITHMS[algo][1])}


def _set(defaults: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in defaults.items() if value is not None}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("algo", choices=sorted(CLASSES))
    parser.add_argument("--env-id", required=True, help="any id that Gymnasium knows")
    parser.add_argument("--env-kwargs", default="{}", help="arguments of gymnasium.make, as a JSON object")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--total-timesteps", type=int, required=True)
    parser.add_argument("--params", default="{}", help="the algorithm's parameters, as a JSON object")
    try:
        sys.exit(train(parser.parse_args()))
    except (EnvUnfitError, CheckpointUnusableError) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
