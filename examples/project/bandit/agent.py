"""An epsilon-greedy agent."""

from __future__ import annotations

import random

import numpy as np


class Agent:
    """Estimates the mean of each arm and mostly pulls the best."""

    def __init__(self, arms: int, epsilon: float) -> None:
        self.counts = np.zeros(arms)
        self.means = np.zeros(arms)
        self.epsilon = epsilon

    def choose(self) -> int:
        if random.random() < self.epsilon:
            return random.randrange(len(self.means))
        return int(np.argmax(self.means))

    def learn(self, arm: int, reward: float) -> None:
        self.counts[arm] += 1
        self.means[arm] += (reward - self.means[arm]) / self.counts[arm]
