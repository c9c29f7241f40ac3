"""Trains the agent; metrics are lines of JSON on standard output."""

from __future__ import annotations

import argparse
import csv
import json
import os
import random
import sys
from pathlib import Path

from bandit.agent import Agent


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--config", type=Path, required=True)
    config = json.loads(parser.parse_args().config.read_text())
    random.seed(int(os.environ.get("RUNSPINE_SEED", "1")))
    with Path("data/arms.csv").open() as file:
        arms = [float(row["mean"]) for row in csv.DictReader(file)]
    agent, total = Agent(len(arms), config["epsilon"]), 0.0
    for step in range(1, config["steps"] + 1):
        arm = agent.choose()
        reward = random.gauss(arms[arm], 1.0)
        agent.learn(arm, reward)
        total += reward
        if step % 100 == 0:
            line = {"type": "metric", "name": "bandit/mean_reward", "value": total / step, "step": step}
            sys.stdout.write(json.dumps(line) + "\n")
            sys.stdout.flush()


main()
