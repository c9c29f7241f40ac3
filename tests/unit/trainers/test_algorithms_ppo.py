"""The sums of PPO against their definition."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runspine.trainers.builtin.envs import Envs, EnvUnfitError
from runspine.trainers.builtin.ppo import Args, Learner, train
from runspine.trainers.builtin.training import StoppedError, Training


@pytest.fixture
def learner(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Any:
    monkeypatch.setenv("RUNSPINE_RUN_DIR", str(tmp_path))
    # Signals are the process's: a training in a test must not take them.
    monkeypatch.setattr("signal.signal", lambda *_: None)

    def build(**given: Any) -> Learner:
        args = Args(**{"num_envs": 2, "num_steps": 6, "num_minibatches": 2, **given})
        envs = Envs(args.env_id, args.env_kwargs, args.num_envs, args.seed)
        made = Learner(args, Training("ppo", args), envs)
        made.begin()
        return made

    return build


def test_advantages_are_discounted_surprises_up_to_the_end_of_the_episode(learner: Any) -> None:
    ppo = learner(gamma=0.9, gae_lambda=0.8)
    rollout = ppo.rollout
    torch.manual_seed(1)
    rollout.rewards[:] = torch.randn(6, 2)
    rollout.values[:] = torch.randn(6, 2)
    rollout.dones[:] = 0
    rollout.dones[2, 0] = 1
    last = ppo.agent.value(ppo.seen(ppo.envs.obs)).detach()
    found = ppo.advantages()
    for env in range(2):
        values = [*rollout.values[:, env].tolist(), last[env].item()]
        for t in range(6):
            expected, weight = 0.0, 1.0
            for k in range(t, 6):
                ends = bool(rollout.dones[k, env])
                future = 0.0 if ends else 0.9 * values[k + 1]
                expected += weight * (rollout.rewards[k, env].item() + future - values[k])
                weight *= 0.9 * 0.8
                if ends:
                    break
            assert found[t, env].item() == pytest.approx(expected, abs=1e-5)


def test_an_update_reports_its_advantages_before_they_are_normalised(learner: Any) -> None:
    ppo = learner(norm_adv=True)
    ppo.collect(0)
    expected = ppo.advantages().flatten()
    losses = ppo.update()
    assert losses["losses/advantage_mean"] == pytest.approx(expected.mean().item())
    assert losses["losses/advantage_std"] == pytest.approx(expected.std(correction=0).item())


def test_an_episode_cut_off_by_the_clock_is_credited_with_its_future(learner: Any) -> None:
    ppo = learner(env_kwargs='{"max_episode_steps": 3}', gamma=0.9)
    with torch.no_grad():
        ppo.agent.critic[-1].bias[:] = 100.0  # the critic expects much
    ppo.collect(0)
    assert ppo.rollout.dones[:, 0].tolist() == [0, 0, 1, 0, 0, 1]
    rewards = ppo.rollout.rewards[:, 0].tolist()
    assert rewards[:2] == [1.0, 1.0]
    assert 80 < rewards[2] < 110


def test_the_first_update_does_not_clip_and_moves_the_policy_towards_its_advantages(learner: Any) -> None:
    ppo = learner(update_epochs=1, num_minibatches=1, ent_coef=0.0)
    ppo.collect(0)
    received = ppo.update()
    # With one minibatch the policy is still the one that acted.
    assert received["losses/clipfrac"] == 0
    assert received["losses/approx_kl"] == pytest.approx(0, abs=1e-6)
    batch = ppo.rollout
    ratio = (ppo.agent.policy(batch.obs).log_prob(batch.actions) - batch.logprobs).exp()
    advantages = ppo.advantages()
    advantages = (advantages - advantages.mean()) / advantages.std()
    assert ((ratio - 1) * advantages).mean() > 0


def test_continuous_actions_are_normalised_and_have_one_probability_each(learner: Any) -> None:
    ppo = learner(env_id="Pendulum-v1")
    assert ppo.obs_scale.on
    assert ppo.reward_scale.on
    ppo.collect(0)
    assert ppo.rollout.actions.shape == (6, 2, 1)
    assert ppo.rollout.logprobs.shape == (6, 2)
    assert np.abs(ppo.rollout.rewards.numpy()).max() <= 10


def test_the_divergence_limit_ends_the_epochs(learner: Any) -> None:
    endless = learner(update_epochs=50, learning_rate=0.05, target_kl=None)
    limited = learner(update_epochs=50, learning_rate=0.05, target_kl=0.01)
    counts = []
    for ppo in (endless, limited):
        ppo.collect(0)
        ppo.update()
        counts.append(int(next(iter(ppo.optimizer.state.values()))["step"].item()))
    assert counts[0] == 100
    assert counts[1] < 100


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"total_timesteps": 100}, "less than one batch"),
        ({"num_envs": 1, "num_steps": 2, "num_minibatches": 4}, "cannot be cut"),
    ],
)
def test_a_batch_that_does_not_work_out_is_refused(given: dict[str, Any], why: str) -> None:
    with pytest.raises(EnvUnfitError, match=why):
        train(Args(**given))


@pytest.mark.parametrize("env_id", ["CartPole-v1", "Pendulum-v1"])
@pytest.mark.parametrize("steps", [1, 21, 32, 40])
def test_a_stop_within_a_rollout_changes_nothing_that_is_learnt(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, env_id: str, steps: int
) -> None:
    """After the first step, in the middle, at the end of a rollout, and in the last one of three."""
    monkeypatch.setattr("signal.signal", lambda *_: None)
    args = {"env_id": env_id, "num_envs": 2, "num_steps": 16, "total_timesteps": 96, "num_minibatches": 2}

    def final(folder: Path) -> Any:
        monkeypatch.setenv("RUNSPINE_RUN_DIR", str(folder))
        train(Args(**args))  # type: ignore[arg-type]
        return torch.load(folder / "checkpoints" / "step-96.pt", weights_only=True)["parts"]

    calm = final(tmp_path / "calm")
    with monkeypatch.context() as stop:
        left = iter(range(steps - 1, -1, -1))

        def asked(training: Training) -> bool:
            training._signal = 0 if next(left) else signal.SIGTERM
            return bool(training._signal)

        stop.setattr(Training, "asked_to_stop", property(asked))
        with pytest.raises(StoppedError):
            final(tmp_path / "stopped")
    monkeypatch.setenv("RUNSPINE_RESUME", str(tmp_path / "stopped" / "checkpoints" / f"step-{2 * steps}.pt"))
    monkeypatch.setenv("RUNSPINE_RESUME_KIND", "resume")
    resumed = final(tmp_path / "resumed")
    for part in ("agent", "observations", "rewards", "rollout"):
        assert_same(calm[part], resumed[part])
    assert_same(calm["optimizer"]["state"], resumed["optimizer"]["state"])
    assert_same(calm["random"], resumed["random"])


def assert_same(one: Any, other: Any) -> None:
    if isinstance(one, torch.Tensor):
        assert one.numpy().tobytes() == other.numpy().tobytes()
    elif isinstance(one, dict):
        assert one.keys() == other.keys()
        for key in one:
            assert_same(one[key], other[key])
    elif isinstance(one, list | tuple):
        for mine, theirs in zip(one, other, strict=True):
            assert_same(mine, theirs)
    else:
        assert one == other
