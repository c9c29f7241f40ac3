"""Policies rebuilt from checkpoints act as the library that saved them would."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
import torch
from gymnasium import spaces

from runspine.checkpoints import CheckpointError, inspect_checkpoint
from runspine.trainers.builtin import dqn, ppo, qlearning, sac
from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.normalisation import ObservationScale
from runspine.trainers.evaluation.policy import Policy, load_policy
from tests.kit.samples import checkpoint_files as files

CARTPOLE, PENDULUM = "CartPole-v1", "Pendulum-v1"
MANY = 200


def policy(path: Path, env_id: str, **how: Any) -> Policy:
    return load_policy(path, gym.make(env_id), env_id, **how)


def observations(env_id: str, count: int = MANY) -> list[Any]:
    rng = np.random.default_rng(5)
    size = gym.make(env_id).observation_space.shape or ()
    return [rng.normal(size=size).astype(np.float32) for _ in range(count)]


# Stable-Baselines3


@pytest.fixture(scope="module")
def sb3(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., tuple[Any, Path]]:
    folder = tmp_path_factory.mktemp("sb3")

    @cache
    def make(algo: str, env_id: str, *arch: int) -> tuple[Any, Path]:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the library
            import stable_baselines3

            given = {"policy_kwargs": {"net_arch": list(arch)}} if arch else {}
            torch.manual_seed(3)
            model = getattr(stable_baselines3, algo.upper())("MlpPolicy", env_id, seed=3, **given)
            path = folder / f"{algo}-{env_id}.zip"
            model.save(path)
        return model, path

    return make


@pytest.mark.parametrize(
    ("algo", "env_id", "arch"),
    [
        ("ppo", CARTPOLE, ()),
        ("ppo", PENDULUM, (32, 16, 8)),
        ("a2c", PENDULUM, ()),
        ("dqn", CARTPOLE, (32,)),
        ("sac", PENDULUM, ()),
        ("td3", PENDULUM, ()),
        ("ddpg", PENDULUM, ()),
        ("ppo", "FrozenLake-v1", ()),
    ],
)
def test_an_sb3_policy_acts_as_the_library_itself(
    sb3: Callable[..., tuple[Any, Path]], algo: str, env_id: str, arch: tuple[int, ...]
) -> None:
    model, path = sb3(algo, env_id, *arch)
    ours = policy(path, env_id)
    assert (ours.about.runner, ours.about.algo, ours.about.seed) == ("sb3", algo, 3)
    space = model.observation_space
    seen = [*range(space.n)] if isinstance(space, spaces.Discrete) else observations(env_id)
    for observation in seen:
        theirs, _ = model.predict(np.asarray(observation), deterministic=True)
        np.testing.assert_allclose(ours.act(observation), theirs, rtol=1e-5, atol=1e-5)


def test_an_activation_that_policy_kwargs_names_is_used_without_unpickling_it(tmp_path: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        from stable_baselines3 import PPO

        model = PPO("MlpPolicy", PENDULUM, policy_kwargs={"activation_fn": torch.nn.ReLU}, seed=1)
        model.save(tmp_path / "relu.zip")
    ours = policy(tmp_path / "relu.zip", PENDULUM)
    for observation in observations(PENDULUM, 20):
        np.testing.assert_allclose(
            ours.act(observation), model.predict(observation, deterministic=True)[0], rtol=1e-5
        )


def test_pickles_inside_an_sb3_zip_stay_closed(sb3: Callable[..., tuple[Any, Path]], tmp_path: Path) -> None:
    _, source = sb3("ppo", CARTPOLE)
    mark = tmp_path / "somebody-ran-me"
    # `data` always holds pickles: they are passed over, whatever they hold.
    in_data = files.sb3_bomb(tmp_path / "data.zip", source, mark, "data")
    assert policy(in_data, CARTPOLE).about.algo == "ppo"
    in_policy = files.sb3_bomb(tmp_path / "policy.zip", source, mark, "policy.pth")
    with pytest.raises(CheckpointError, match=r"posix\.system"):
        policy(in_policy, CARTPOLE)
    # What is not needed is not opened.
    in_optimizer = files.sb3_bomb(tmp_path / "optimizer.zip", source, mark, "policy.optimizer.pth")
    assert policy(in_optimizer, CARTPOLE).about.outputs == 2
    assert not mark.exists()


def test_drawn_actions_have_the_spread_of_the_policy(sb3: Callable[..., tuple[Any, Path]]) -> None:
    model, path = sb3("a2c", PENDULUM)
    drawn = policy(path, PENDULUM, deterministic=False)
    observation = np.zeros(3, np.float32)
    actions = np.array([float(drawn.act(observation)[0]) for _ in range(3000)])
    with torch.no_grad():
        received = model.policy.get_distribution(torch.zeros(1, 3)).distribution
    assert actions.mean() == pytest.approx(float(received.mean), abs=0.1)
    assert actions.std() == pytest.approx(min(float(received.stddev), 2.0), rel=0.1)
    again = policy(path, PENDULUM, deterministic=False)
    assert [float(again.act(observation)[0]) for _ in range(3000)] == actions.tolist()


# CleanRL


def test_cleanrl_layouts_are_known_by_their_tensors(tmp_path: Path) -> None:
    spread = files.Actor(spread=True).state_dict()
    actor, critic = files.Actor().state_dict(), files.chain(4, 8, 1).state_dict()
    args = {"env_id": CARTPOLE, "seed": 9, "total_timesteps": 500}
    saved = {
        "dqn": files.QNetwork().state_dict(),
        "c51": {"model_weights": files.Distributional().state_dict(), "args": args},
        "ppo": files.Discrete().state_dict(),
        "ppo_continuous_action": files.Continuous().state_dict(),
        "sac_continuous_action": spread,
        "td3_continuous_action": (actor, critic, critic),
        "ddpg_continuous_action": (actor, critic),
    }
    for algo, what in saved.items():
        about = inspect_checkpoint(files.saved(tmp_path / f"{algo}.cleanrl_model", what))
        assert (about.runner, about.algo) == ("cleanrl", algo)
    c51 = inspect_checkpoint(tmp_path / "c51.cleanrl_model")
    assert (c51.env, c51.seed, c51.step) == (CARTPOLE, 9, 500)


def test_cleanrl_policies_act_as_their_own_scripts_do(tmp_path: Path) -> None:
    torch.manual_seed(1)
    q, discrete = files.QNetwork(), files.Discrete()
    distributional = files.Distributional()

    def c51(obs: torch.Tensor) -> int:
        chances = torch.softmax(distributional.network(obs).view(1, 2, 11), dim=2)
        return int((chances * distributional.atoms).sum(2).argmax(1))

    expected: dict[str, tuple[Any, Callable[[torch.Tensor], int]]] = {
        "dqn": (q.state_dict(), lambda obs: int(q.network(obs).argmax(1))),
        "ppo": (discrete.state_dict(), lambda obs: int(discrete.actor(obs).argmax(1))),
        "c51": ({"model_weights": distributional.state_dict(), "args": {}}, c51),
    }
    for name, (what, act) in expected.items():
        ours = policy(files.saved(tmp_path / f"{name}.cleanrl_model", what), CARTPOLE)
        for observation in observations(CARTPOLE):
            with torch.no_grad():
                assert ours.act(observation) == act(torch.from_numpy(observation)[None]), name


def test_a_cleanrl_actor_fills_the_bounds_stored_with_it(tmp_path: Path) -> None:
    torch.manual_seed(1)
    actor, soft = files.Actor(), files.Actor(spread=True)

    def tanh(net: files.Actor, obs: torch.Tensor, last: torch.nn.Module) -> torch.Tensor:
        hidden = torch.relu(net.fc2(torch.relu(net.fc1(obs))))
        return torch.tanh(last(hidden)) * net.action_scale + net.action_bias  # type: ignore[operator]

    td3 = policy(files.saved(tmp_path / "td3.pt", (actor.state_dict(), {}, {})), PENDULUM)
    sac_ = policy(files.saved(tmp_path / "sac.pt", soft.state_dict()), PENDULUM)
    for observation in observations(PENDULUM, 30):
        obs = torch.from_numpy(observation)[None]
        with torch.no_grad():
            expected = [tanh(actor, obs, actor.fc_mu), tanh(soft, obs, soft.fc_mean)]
        for ours, theirs in zip((td3, sac_), expected, strict=True):
            assert ours.act(observation) == pytest.approx(np.clip(theirs.numpy()[0], -2, 2), abs=1e-6)


def test_a_continuous_cleanrl_policy_scales_by_what_it_sees_as_its_own_evaluation_does(
    tmp_path: Path,
) -> None:
    torch.manual_seed(1)
    net = files.Continuous()
    ours = policy(files.saved(tmp_path / "a.pt", net.state_dict()), PENDULUM)
    wrapped = gym.wrappers.NormalizeObservation(gym.make(PENDULUM))
    seen = observations(PENDULUM, 50)
    for observation in seen:
        scaled = np.clip(wrapped.observation(observation), -10, 10)
        with torch.no_grad():
            expected = net.actor_mean(torch.from_numpy(scaled.astype(np.float32))[None]).numpy()[0]
        assert ours.act(observation) == pytest.approx(np.clip(expected, -2, 2), abs=1e-4)


# Ours


def builtin(path: Path, algo: str, env_id: str, parts: dict[str, Any], **args: Any) -> Path:
    whole = {"format": 1, "step": 77, "algo": algo, "shapes": ["", ""], "seconds": 1.0}
    args = {"env_id": env_id, "env_kwargs": "{}", "seed": 5, **args}
    history = {"last": [1.0, 3.0], "episodes": 2}
    return files.saved(path, {**whole, "args": args, "parts": {"history": history, **parts}})


def test_a_builtin_checkpoint_describes_itself_completely(tmp_path: Path) -> None:
    network = dqn.network(4, 2)
    path = builtin(
        tmp_path / "a.pt", "dqn", CARTPOLE, {"q": network.state_dict()}, env_kwargs='{"sutton": 1}'
    )
    about = inspect_checkpoint(path)
    assert (about.runner, about.algo, about.env, about.seed, about.step) == (
        "builtin",
        "dqn",
        CARTPOLE,
        5,
        77,
    )
    assert (about.inputs, about.outputs, about.return_mean) == (4, 2, 2.0)
    assert about.env_kwargs == {"sutton": 1}
    ours = policy(path, CARTPOLE)
    for observation in observations(CARTPOLE):
        with torch.no_grad():
            assert ours.act(observation) == int(network(torch.from_numpy(observation)).argmax())


@pytest.mark.parametrize("env_id", [CARTPOLE, PENDULUM])
def test_a_builtin_ppo_acts_on_what_its_training_scaled(tmp_path: Path, env_id: str) -> None:
    envs = Envs(env_id, "{}", 1, seed=1)
    torch.manual_seed(2)
    agent = ppo.Agent(envs)
    scale = ObservationScale(envs.obs_dim, on=True)
    scale.update(np.random.default_rng(1).normal(3.0, 2.0, (100, envs.obs_dim)))
    parts = {"agent": agent.state_dict(), "observations": scale.state_dict()}
    ours = policy(builtin(tmp_path / "a.pt", "ppo", env_id, parts, normalize="auto"), env_id)
    for observation in observations(env_id, 50):
        row = scale(observation[None]) if agent.continuous else observation[None]
        with torch.no_grad():
            out = agent.actor(torch.from_numpy(row))[0]
        expected = np.clip(out.numpy(), -2, 2) if agent.continuous else int(out.argmax())
        np.testing.assert_allclose(ours.act(observation), expected, atol=1e-6)


def test_a_builtin_sac_and_a_table_act_as_they_learnt(tmp_path: Path) -> None:
    torch.manual_seed(2)
    actor = sac.Actor(3, gym.make(PENDULUM).action_space)  # type: ignore[arg-type]
    ours = policy(builtin(tmp_path / "sac.pt", "sac", PENDULUM, {"actor": actor.state_dict()}), PENDULUM)
    for observation in observations(PENDULUM, 30):
        with torch.no_grad():
            mean = actor.net(torch.from_numpy(observation)[None]).chunk(2, dim=1)[0]
        assert ours.act(observation) == pytest.approx((torch.tanh(mean) * 2).numpy()[0], abs=1e-6)
    table = qlearning.QTable(16, 4)
    table.q[:] = np.random.default_rng(0).normal(size=(16, 4))
    path = builtin(tmp_path / "q.pt", "qlearning", "FrozenLake-v1", {"table": table.state_dict()})
    greedy = policy(path, "FrozenLake-v1")
    assert [greedy.act(state) for state in range(16)] == table.q.argmax(axis=1).tolist()


# What does not fit


@pytest.mark.parametrize(
    ("what", "env_id", "why"),
    [
        (files.QNetwork(), "Acrobot-v1", r"takes 4 numbers, and an observation Box\(6,\) has 6"),
        (files.QNetwork(4, 3), CARTPOLE, "chooses among 3 actions, and the env has 2"),
        (files.QNetwork(3, 2), PENDULUM, r"chooses among 2 actions, and the env's are Box\(1,\)"),
        (files.Continuous(4, 1), CARTPOLE, "its actions are 1 numbers, and the env's are Discrete"),
        (files.Continuous(3, 2), PENDULUM, r"its actions are 2 numbers, and an action Box\(1,\) has 1"),
        (files.QNetwork(16, 4), "FrozenLake-v1", ""),
    ],
)
def test_a_policy_for_another_env_is_refused_with_the_sizes(
    tmp_path: Path, what: torch.nn.Module, env_id: str, why: str
) -> None:
    path = files.saved(tmp_path / "a.pt", what.state_dict())
    if not why:
        assert policy(path, env_id).act(3) in range(4)
        return
    with pytest.raises(EnvUnfitError, match=f"does not fit {env_id}: .*{why}"):
        policy(path, env_id)


def test_weights_that_no_adapter_knows_are_refused_with_those_that_are_known(tmp_path: Path) -> None:
    path = files.saved(tmp_path / "a.pt", {"transformer.wte": torch.zeros(2, 2)})
    with pytest.raises(CheckpointError, match=r"no adapter knows \(transformer.wte.*ppo_continuous_action"):
        inspect_checkpoint(path)
    images = {"network.0.weight": torch.zeros(32, 4, 8, 8), "network.0.bias": torch.zeros(32)}
    with pytest.raises(CheckpointError, match="networks for images are not evaluated here"):
        inspect_checkpoint(files.saved(tmp_path / "b.pt", images))


def test_layers_that_do_not_follow_one_another_are_refused(tmp_path: Path) -> None:
    weights = files.QNetwork().state_dict()
    weights["network.2.weight"] = torch.zeros(8, 13)
    with pytest.raises(CheckpointError, match="takes 13 numbers, and the layer before it gives 12"):
        inspect_checkpoint(files.saved(tmp_path / "a.pt", weights))
