"""Main parameters of each Stable-Baselines3 algorithm, with the library's defaults."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.wire.v1.runner_pb2 import BOOLEAN, INTEGER, LIST, NUMBER, TEXT, AlgoInfo, Param, ParamType
from runspine.wire.v1.spec_pb2 import Value

POLICIES = ("auto", "MlpPolicy", "CnnPolicy", "MultiInputPolicy")


@dataclass(frozen=True, slots=True)
class Row:
    """Type, help and range of a parameter."""

    type: ParamType
    help: str
    low: float | None = None
    high: float | None = None
    choices: tuple[str, ...] = ()


# Handled here; all others go to the algorithm's constructor under the same name.
OURS = {
    "policy": Row(TEXT, "kind of network; auto: by the env's observations", choices=POLICIES),
    "net_arch": Row(LIST, "sizes of the hidden layers; the library's own when left out"),
    "n_envs": Row(INTEGER, "environments stepped side by side", 1),
    "action_noise_std": Row(NUMBER, "deviation of the noise added to actions; 0 for none", 0),
    "cuda": Row(BOOLEAN, "use a GPU if there is one"),
    "require_cuda": Row(BOOLEAN, "fail when there is no GPU"),
    "checkpoint_every": Row(INTEGER, "steps between checkpoints; 0: a tenth of the run", 0),
    "checkpoint_seconds": Row(NUMBER, "seconds between checkpoints; 0: by steps alone", 0),
}
THEIRS = {
    "learning_rate": Row(NUMBER, "step size of the optimiser", 0),
    "n_steps": Row(INTEGER, "steps in each environment between two updates", 1),
    "batch_size": Row(INTEGER, "transitions in a minibatch", 1),
    "n_epochs": Row(INTEGER, "times that each batch is learnt from", 1),
    "gamma": Row(NUMBER, "discount of future rewards", 0, 1),
    "gae_lambda": Row(NUMBER, "trade-off of bias and variance in the advantages", 0, 1),
    "clip_range": Row(NUMBER, "how far the new policy's probabilities may move from the old one's", 0),
    "normalize_advantage": Row(BOOLEAN, "bring advantages to mean 0 and deviation 1"),
    "ent_coef": Row(NUMBER, "weight of the entropy bonus", 0),
    "vf_coef": Row(NUMBER, "weight of the value loss", 0),
    "max_grad_norm": Row(NUMBER, "longest gradient that is not shortened", 0),
    "target_kl": Row(NUMBER, "stop the epochs of an update beyond this divergence", 0),
    "use_rms_prop": Row(BOOLEAN, "RMSprop instead of Adam"),
    "use_sde": Row(BOOLEAN, "state-dependent exploration, for continuous actions"),
    "buffer_size": Row(INTEGER, "transitions that the replay buffer holds", 1),
    "learning_starts": Row(INTEGER, "steps before learning begins", 0),
    "tau": Row(NUMBER, "how much of the network the target takes over at each sync", 0, 1),
    "train_freq": Row(INTEGER, "steps between two updates", 1),
    "gradient_steps": Row(INTEGER, "updates each time; -1: as many as steps were taken", -1),
    "target_update_interval": Row(INTEGER, "steps between two syncs of the target network", 1),
    "exploration_fraction": Row(NUMBER, "part of the run over which random actions become fewer", 0, 1),
    "exploration_initial_eps": Row(NUMBER, "share of random actions at the start", 0, 1),
    "exploration_final_eps": Row(NUMBER, "share of random actions after exploration", 0, 1),
    "policy_delay": Row(INTEGER, "updates of the critics for each of the policy", 1),
    "target_policy_noise": Row(NUMBER, "deviation of the noise on the target's actions", 0),
    "target_noise_clip": Row(NUMBER, "bound of that noise", 0),
}
Defaults = dict[str, float | int | bool | str | None]
_COMMON: Defaults = {"policy": "auto", "net_arch": None}
_PROCESS: Defaults = {"cuda": True, "require_cuda": False, "checkpoint_every": 0, "checkpoint_seconds": 0.0}
_REPLAY: Defaults = {
    "buffer_size": 1_000_000,
    "learning_starts": 100,
    "batch_size": 256,
    "tau": 0.005,
    "gamma": 0.99,
    "train_freq": 1,
    "gradient_steps": 1,
}
_ON_POLICY: Defaults = {
    "gamma": 0.99,
    "ent_coef": 0.0,
    "vf_coef": 0.5,
    "max_grad_norm": 0.5,
    "use_sde": False,
}
ALGORITHMS: dict[str, tuple[str, Defaults]] = {
    "ppo": (
        "Proximal policy optimisation",
        {
            "n_envs": 1,
            "learning_rate": 3e-4,
            "n_steps": 2048,
            "batch_size": 64,
            "n_epochs": 10,
            "gae_lambda": 0.95,
            "clip_range": 0.2,
            "normalize_advantage": True,
            "target_kl": None,
            **_ON_POLICY,
        },
    ),
    "a2c": (
        "Advantage actor-critic",
        {
            "n_envs": 1,
            "learning_rate": 7e-4,
            "n_steps": 5,
            "gae_lambda": 1.0,
            "use_rms_prop": True,
            "normalize_advantage": False,
            **_ON_POLICY,
        },
    ),
    "dqn": (
        "Deep Q-learning, for discrete actions",
        {
            **_REPLAY,
            "learning_rate": 1e-4,
            "batch_size": 32,
            "tau": 1.0,
            "train_freq": 4,
            "target_update_interval": 10_000,
            "exploration_fraction": 0.1,
            "max_grad_norm": 10.0,
            "exploration_initial_eps": 1.0,
            "exploration_final_eps": 0.05,
        },
    ),
    "sac": (
        "Soft actor-critic, for continuous actions",
        {**_REPLAY, "learning_rate": 3e-4, "target_update_interval": 1, "use_sde": False},
    ),
    "td3": (
        "Twin delayed DDPG, for continuous actions",
        {
            **_REPLAY,
            "learning_rate": 1e-3,
            "action_noise_std": 0.1,
            "policy_delay": 2,
            "target_policy_noise": 0.2,
            "target_noise_clip": 0.5,
        },
    ),
    "ddpg": (
        "Deep deterministic policy gradient, for continuous actions",
        {**_REPLAY, "learning_rate": 1e-3, "action_noise_std": 0.1},
    ),
}


def algo_info(name: str) -> AlgoInfo:
    summary, own = ALGORITHMS[name]
    defaults = {**_COMMON, **own, **_PROCESS}
    params = [_param(*item) for item in defaults.items()]
    return AlgoInfo(name=name, summary=summary, params=params, warm_starts=True)


def _param(name: str, default: float | int | bool | str | None) -> Param:
    row = OURS.get(name) or THEIRS[name]
    param = Param(
        name=name, type=row.type, help=row.help, choices=row.choices, minimum=row.low, maximum=row.high
    )
    kinds = {bool: "boolean", int: "integer", float: "number", str: "text"}
    if default is not None:
        param.default.CopyFrom(Value(**{kinds[type(default)]: default}))  # type: ignore[arg-type]
    return param
