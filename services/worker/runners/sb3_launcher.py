"""Trains one Stable-Baselines3 algorithm inside a run: `python -m …sb3_launcher ppo --env-id CartPole-v1 …`.

The library's logger values become metrics, under CleanRL's names where they mean the same; checkpoints
are the library's own zip files with two more entries, and are read back without running pickled code.
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
from services.worker.algorithms.checkpoints import Checkpoints, Unusable
from services.worker.algorithms.envs import Unfit, make
from services.worker.algorithms.history import History, summary_table
from services.worker.algorithms.training import PRINT_SECONDS, pick_device, say
from services.worker.runners.sb3_checkpoint import read_checkpoint, take_weights, write_checkpoint
from services.worker.runners.sb3_schema import ALGORITHMS, OURS

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
# Told by every episode of its own, or by the run itself.
REDUNDANT = {"rollout/ep_rew_mean", "rollout/ep_len_mean", "time/iterations", "time/time_elapsed"}
REDUNDANT |= {"time/total_timesteps", "time/episodes", "train/n_updates"}


def translated(algo: str, values: dict[str, Any]) -> dict[str, float]:
    """The library's values under CleanRL's names where they mean the same, else under their own."""
    told: dict[str, float] = {}
    for name, value in values.items():
        if not isinstance(value, int | float | np.number) or name in REDUNDANT:
            continue
        if name == "train/entropy_loss":
            told["losses/entropy"] = -float(value)  # a loss there, the entropy itself here
        elif name == "train/loss" and algo == "dqn":
            told["losses/td_loss"] = float(value)
        elif name == "train/critic_loss" and algo == "sac":
            told["losses/qf_loss"] = float(value)  # both are half the sum of two; td3's and ddpg's are not
        else:
            told[SAME_NAMES.get(name, name)] = float(value)
    return told


class RunLog(KVWriter):
    """Where the library's logger writes to: the run."""

    def __init__(self, run: runspine.Run, algo: str) -> None:
        self.run, self.algo = run, algo

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, Any], step: int = 0) -> None:
        self.run.log(translated(self.algo, key_values), step=step)

    def close(self) -> None: ...


class Companion(BaseCallback):
    """Goes along: tells episodes, saves checkpoints, ends the training when asked."""

    def __init__(
        self, run: runspine.Run, asked: argparse.Namespace, folder: Path, params: dict[str, Any]
    ) -> None:
        super().__init__()
        self.run, self.asked = run, asked
        self.history = History(asked.total_timesteps)
        self.checkpoints = Checkpoints(
            folder / "checkpoints",
            asked.total_timesteps,
            every_steps=params["checkpoint_every"],
            every_seconds=params["checkpoint_seconds"],
        )
        self.stopped = 0
        self._printed = 0.0
        signal.signal(signal.SIGTERM, self._hear)
        signal.signal(signal.SIGINT, self._hear)

    def _on_step(self) -> bool:
        step = self.num_timesteps
        for info in self.locals["infos"]:
            if "episode" in info:
                self._tell(step, float(info["episode"]["r"]), int(info["episode"]["l"]))
        return not self.stopped

    def _on_rollout_start(self) -> None:
        """Between learning and acting: what was lived through so far is learnt and stored."""
        if self.checkpoints.due(self.model.num_timesteps):
            self.save()

    def save(self) -> Path:
        """A checkpoint of this very moment."""
        step = self.model.num_timesteps
        about = {"algo": self.asked.algo, "env_id": self.asked.env_id, "seed": self.asked.seed}
        about["history"] = self.history.state_dict()
        path = self.checkpoints.write(step, ".zip", lambda file: write_checkpoint(file, self.model, about))
        told = {"algo": self.asked.algo, "env_id": self.asked.env_id, "seed": self.asked.seed}
        if self.history.episodes:
            told["return_mean"] = self.history.mean
        self.run.checkpoint(path, step=step, **told)
        return path

    def _tell(self, step: int, total: float, length: int) -> None:
        self.history.add(step, total)
        self.run.log({"charts/episodic_return": total, "charts/episodic_length": length}, step=step)
        if (now := time.monotonic()) - self._printed >= PRINT_SECONDS:
            self._printed = now
            say(f"global_step={step}, episodic_return={total:.6g}")

    def _hear(self, number: int, frame: object) -> None:
        self.stopped = number


def build(asked: argparse.Namespace, params: dict[str, Any]) -> BaseAlgorithm:
    """The model from its parameters, in wrapped envs."""
    device = pick_device(params["cuda"], params["require_cuda"])
    torch.set_num_threads(int(os.environ.get("OMP_NUM_THREADS") or 1))

    def one(slot: int) -> gym.Env[Any, Any]:
        return Monitor(runspine.wrap(make(asked.env_id, asked.env_kwargs), slot=slot))

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
    seed = asked.seed % 2**32  # as much as the library's seeding of numpy takes
    return CLASSES[asked.algo](policy, envs, device=device, seed=seed, **given)


def policy_for(space: gym.Space[Any]) -> str:
    if isinstance(space, gym.spaces.Dict):
        return "MultiInputPolicy"
    return "CnnPolicy" if len(space.shape or ()) == 3 else "MlpPolicy"


def begin(model: BaseAlgorithm, companion: Companion, run: runspine.Run) -> None:
    """Go on from the checkpoint the run was given, if any."""
    source = run.resume_path
    if source is None:
        return
    saved = read_checkpoint(source, companion.asked.algo, companion.asked.env_id, model.device)
    if run.resume_kind == "warm_start":
        take_weights(model, saved)
        say(f"warm start with the weights of {source}")
        return
    saved.restore(model)
    companion.history.load_state_dict(saved.about["history"])
    companion.checkpoints.begin(model.num_timesteps)
    say(f"resumed at step {model.num_timesteps:,} from {source}; not bit for bit: envs begin a new episode")


def train(asked: argparse.Namespace) -> int:
    """The exit code: 0, or 128 and the number of the signal that ended it."""
    params = {**_defaults(asked.algo), **json.loads(asked.params)}
    run = runspine.init(config={**vars(asked), "params": params}, total_steps=asked.total_timesteps)
    name = f"{asked.env_id}__{asked.algo}__{asked.seed}__{int(time.time())}"
    folder = Path(os.environ.get("RUNSPINE_RUN_DIR") or Path("runs") / name.replace("/", "-"))
    companion = Companion(run, asked, folder, params)
    model = build(asked, params)
    model.set_logger(Logger(folder=None, output_formats=[RunLog(run, asked.algo)]))
    begin(model, companion, run)
    started, first = time.monotonic(), model.num_timesteps
    say(f"{name}: {asked.total_timesteps:,} steps on {model.device} with Stable-Baselines3")
    left = asked.total_timesteps - first
    if left > 0:
        interval = LOG_INTERVALS.get(asked.algo, 4)
        model.learn(left, callback=companion, log_interval=interval, reset_num_timesteps=False)
    if model.num_timesteps > companion.checkpoints.last:
        path = companion.save()
        if companion.stopped:
            why = signal.Signals(companion.stopped).name
            say(f"{why} at step {model.num_timesteps:,}: the checkpoint is in {path}")
    if not companion.stopped:
        seconds = time.monotonic() - started
        speed = (model.num_timesteps - first) / max(seconds, 1e-9)
        _summarise(folder, name, companion.history, model.num_timesteps, seconds, speed)
    run.finish()
    return 128 + companion.stopped if companion.stopped else 0


def _summarise(folder: Path, name: str, history: History, step: int, seconds: float, speed: float) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    summary = history.summary(step, seconds, speed)
    (folder / "summary.json").write_text(json.dumps(summary, indent=1))
    say(f"\n{history.curve()}\n\n{name}\n{summary_table(summary, history.episodes)}")


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
    except (Unfit, Unusable) as error:
        sys.exit(str(error))


if __name__ == "__main__":
    main()
