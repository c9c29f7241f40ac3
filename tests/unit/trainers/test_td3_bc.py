"""TD3+BC compared with a plain reading of the paper (Fujimoto & Gu 2021): same batches, same weights."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from runspine.datasets.archive import unpack
from runspine.trainers.builtin.replay_buffer import Sample
from runspine.trainers.offline.td3_bc import Args, Learner
from runspine.trainers.offline.training import OfflineTraining
from tests.kit.samples.pendulum import packed

UPDATES = 6
# Pendulum's torque; the paper's actions lie within -1 and 1.
MOST_ACTION = 2.0


@pytest.fixture
def learner(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Learner:
    packed(tmp_path / "made", tmp_path / "a.zip", 3)
    unpack(tmp_path / "a.zip", tmp_path / "dataset")
    monkeypatch.setenv("RUNSPINE_DATASET", str(tmp_path / "dataset"))
    monkeypatch.setenv("RUNSPINE_RUN_DIR", str(tmp_path))
    trial = OfflineTraining("td3_bc", Args(total_timesteps=UPDATES))
    learner = Learner(trial.args, trial)
    learner.begin()
    return learner


class Paper:
    """Algorithm 1 of TD3 with the policy's loss of TD3+BC, in actions between -1 and 1."""

    def __init__(self, actor: nn.Module, critics: Sequence[nn.Module]) -> None:
        self.actor, self.critics = copy.deepcopy(actor), copy.deepcopy(nn.ModuleList(critics))
        self.slow_actor, self.slow_critics = copy.deepcopy(self.actor), copy.deepcopy(self.critics)
        self.actor_adam = torch.optim.Adam(self.actor.parameters(), lr=3e-4)
        self.critic_adam = torch.optim.Adam(self.critics.parameters(), lr=3e-4)

    def update(self, number: int, batch: Sample, noise: Tensor) -> None:
        with torch.no_grad():
            unit = self.unit(self.slow_actor, batch.next_obs) + (0.2 * noise).clamp(-0.5, 0.5)
            after = [self.value(each, batch.next_obs, unit.clamp(-1, 1)) for each in self.slow_critics]
            target = batch.rewards + 0.99 * (1 - batch.ended) * torch.minimum(*after)
        done = batch.actions / MOST_ACTION
        losses = [functional.mse_loss(self.value(each, batch.obs, done), target) for each in self.critics]
        self.critic_adam.zero_grad()
        torch.autograd.backward(losses)
        self.critic_adam.step()
        if number % 2 == 0:
            self.update_policy(batch.obs, done)

    def update_policy(self, obs: Tensor, done: Tensor) -> None:
        unit = self.unit(self.actor, obs)
        value = self.value(self.critics[0], obs, unit)
        scale = 2.5 / value.abs().mean().detach()
        self.actor_adam.zero_grad()
        (-(scale * value - (unit - done) ** 2).mean()).backward()  # type: ignore[no-untyped-call]
        self.actor_adam.step()
        for slow, fast in ((self.slow_actor, self.actor), (self.slow_critics, self.critics)):
            for old, new in zip(slow.parameters(), fast.parameters(), strict=True):
                old.data.copy_(0.995 * old.data + 0.005 * new.data)

    @staticmethod
    def unit(actor: nn.Module, obs: Tensor) -> Tensor:
        action: Tensor = actor(obs)
        return action / MOST_ACTION

    @staticmethod
    def value(critic: nn.Module, obs: Tensor, unit: Tensor) -> Tensor:
        value: Tensor = critic(obs, unit * MOST_ACTION)
        return value


def test_every_weight_becomes_what_the_paper_makes_of_it(
    learner: Learner, monkeypatch: pytest.MonkeyPatch
) -> None:
    paper = Paper(learner.actor, list(learner.critics))
    data = learner.trial.data
    drawn: list[Sample] = []
    sample = data.sample

    def remembered(count: int, rng: np.random.Generator) -> Sample:
        drawn.append(sample(count, rng))
        return drawn[-1]

    monkeypatch.setattr(data, "sample", remembered)
    for number in range(1, UPDATES + 1):
        torch.manual_seed(number)
        learner.learn(number)
        torch.manual_seed(number)
        paper.update(number, drawn[-1], torch.randn_like(drawn[-1].actions))
    pairs = [
        (learner.actor, paper.actor),
        (learner.slow_actor, paper.slow_actor),
        (learner.critics, paper.critics),
        (learner.targets, paper.slow_critics),
    ]
    for ours, theirs in pairs:
        for one, other in zip(ours.parameters(), theirs.parameters(), strict=True):
            torch.testing.assert_close(one, other, rtol=1e-4, atol=1e-6)


def test_observations_are_normalised_by_the_datasets_own_mean_and_deviation(learner: Learner) -> None:
    data, random = learner.trial.data, learner.trial.training.random.numpy
    obs = data.sample(20_000, random).obs
    torch.testing.assert_close(obs.mean(0), torch.zeros(3), atol=0.05, rtol=0)
    torch.testing.assert_close(obs.std(0), torch.ones(3), atol=0.05, rtol=0)
