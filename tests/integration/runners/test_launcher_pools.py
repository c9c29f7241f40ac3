"""EnvPool's envs, which Gymnasium does not make, are recorded from outside."""

from __future__ import annotations

from pathlib import Path

from tests.kit.cleanrl import run_script

# The shape of EnvPool: vector envs with a spec of their own kind, made by a function of its own.
ENVPOOL = """
import gymnasium as gym, numpy as np
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

class Spec:
    config = None

class Pool(VectorEnv):
    metadata = {"autoreset_mode": AutoresetMode.NEXT_STEP}
    spec = Spec()

    def __init__(self, num_envs, batch_size=None):
        self.num_envs = num_envs
        self.config = {"num_envs": num_envs, "batch_size": batch_size or num_envs}
        self.single_observation_space = gym.spaces.Box(-1, 1, (2,), np.float32)
        self.single_action_space = gym.spaces.Discrete(2)
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)
        self.at = np.zeros(num_envs, int)

    def reset(self, **given):
        return np.zeros((self.num_envs, 2), np.float32), {}

    def step(self, actions):
        self.at = np.where(self.at == 5, 0, self.at + 1)
        ended = self.at == 5
        return (np.zeros((self.num_envs, 2), np.float32), np.where(self.at > 0, 1, 0).astype(np.float32),
                ended, np.zeros(self.num_envs, bool), {})

def make(task, env_type, num_envs, **more):
    return Pool(num_envs, **more) if env_type == "gymnasium" else object()
"""
SCRIPT = """
import envpool, numpy as np
envpool.make("CartPole-v1", env_type="gym", num_envs=4)
envpool.make("CartPole-v1", env_type="gymnasium", num_envs=4, batch_size=2)
envs = envpool.make("CartPole-v1", env_type="gymnasium", num_envs=3)
envs.reset()
for _ in range(60):
    envs.step(np.zeros(3, np.int64))
envs.close()
"""


def test_envs_of_envpool_are_recorded_and_what_is_not_is_stated(tmp_path: Path) -> None:
    (tmp_path / "envpool.py").write_text(ENVPOOL)
    (tmp_path / "script.py").write_text(SCRIPT)
    ran = run_script(tmp_path / "run", tmp_path / "script.py")
    assert ran.wait() == 0, ran.output
    log = (ran.folder / "telemetry.jsonl").read_text()
    assert log.count("is not recorded: make it with env_type") == 2
    episodes = [line for line in ran.emitted if line["type"] == "episode"]
    assert sorted({line["slot"] for line in episodes}) == [0, 1, 2]
    assert [(line["steps"], line["return"]) for line in episodes] == [(5, 5.0)] * 30
    assert sum(line["n"] for line in ran.emitted if line["type"] == "steps") == 150
