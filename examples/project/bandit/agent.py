"""An epsilon-greedy agent."""

from __future__ import annotations

import random


class Agent:
    """Estimates the mean of each arm and mostly pulls the best."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.counts = [0] * arms
        self.means = [0.0] * arms
        self.epsilon = epsilon

    def choose(self) -> int:
        if random.random() < self.epsilon:
            return random.randrange(len(self.means))
        return max(range(len(self.means)), key=lambda arm: self.means[arm])

    def learn(self, arm: int, reward: float) -> None:
        self.counts[arm] += 1
        self.means[arm] += (reward - self.means[arm]) / self.counts[arm]
