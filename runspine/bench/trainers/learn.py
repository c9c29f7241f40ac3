"""Trains each built-in algorithm and prints its result next to the published figure.

    python -m runspine.bench.trainers.learn            all of it, about 20 minutes on two cores
    python -m runspine.bench.trainers.learn --short    small budgets, about a minute: a smoke test

Finished trainings in the folder are not repeated.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any

GREEDY_EPISODES = 2000


@dataclass(frozen=True, eq=False)
class Task:
    """One line of the table. `floor` is the least return that counts as learnt."""

    title: str
    algo: str
    env: str
    steps: int
    seeds: tuple[int, ...]
    published: str
    floor: float
    args: tuple[str, ...] = ()
    kwargs: dict[str, Any] = field(default_factory=dict)
    # Episodes at the end that count: fewer than 100 where the run has few, and learns in the first of them.
    window: int = 100


CLEANRL = "CleanRL"
ZOO = "RL Zoo"
PENDULUM_PPO = (
    *("--num-steps", "256", "--num-minibatches", "16", "--update-epochs", "10"),
    *("--gamma", "0.9", "--learning-rate", "1e-3", "--ent-coef", "0.0"),
)
FULL = (
    Task("ppo CartPole-v1", "ppo", "CartPole-v1", 500_000, (1, 2, 3), f"≈ 490 ({CLEANRL})", 475),
    Task("dqn CartPole-v1", "dqn", "CartPole-v1", 500_000, (1, 2, 3), f"≈ 490 ({CLEANRL})", 475),
    Task("ppo Acrobot-v1", "ppo", "Acrobot-v1", 500_000, (1, 2, 3), f"≈ -90 ({CLEANRL})", -95),
    Task(
        *("ppo Pendulum-v1", "ppo", "Pendulum-v1", 300_000, (1, 2, 3)),
        *(f"-172 ± 104 ({ZOO})", -200, PENDULUM_PPO),
    ),
    Task(
        *("sac Pendulum-v1", "sac", "Pendulum-v1", 20_000, (1, 2)),
        *(f"-157 ± 89 ({ZOO})", -180, ("--learning-starts", "1000")),
        window=50,
    ),
    Task(
        *("q FrozenLake-v1 slippery", "qlearning", "FrozenLake-v1", 1_000_000, (1, 2, 3)),
        *("0.74 (optimum)", 0.72, ("--gamma", "0.999")),
    ),
    Task(
        *("q FrozenLake-v1 firm", "qlearning", "FrozenLake-v1", 100_000, (1, 2, 3)),
        *("1.00 (optimum)", 1.0, (), {"is_slippery": False}),
    ),
)
SHORT = (
    Task("ppo CartPole-v1", "ppo", "CartPole-v1", 60_000, (1,), f"≈ 490 ({CLEANRL}, 500k steps)", 150),
    Task(
        *("dqn CartPole-v1", "dqn", "CartPole-v1", 60_000, (1,), f"≈ 490 ({CLEANRL}, 500k steps)", 120),
        ("--learning-starts", "2000", "--learning-rate", "1e-3"),
    ),
    Task(
        *("sac Pendulum-v1", "sac", "Pendulum-v1", 4_000, (1,)),
        *(f"-157 ± 89 ({ZOO}, 20k steps)", -600, ("--learning-starts", "500")),
        window=5,
    ),
    Task(
        *("q FrozenLake-v1 slippery", "qlearning", "FrozenLake-v1", 300_000, (1,)),
        *("0.74 (optimum)", 0.6, ("--gamma", "0.999")),
    ),
    Task(
        *("q FrozenLake-v1 firm", "qlearning", "FrozenLake-v1", 60_000, (1,)),
        *("1.00 (optimum)", 1.0, (), {"is_slippery": False}),
    ),
)


@dataclass(frozen=True, eq=False)
class LearnTraining:
    task: Task
    seed: int
    folder: Path

    def command(self) -> list[str]:
        task = self.task
        return [
            *(sys.executable, "-m", f"runspine.trainers.builtin.{task.algo}", "--env-id", task.env),
            *("--env-kwargs", json.dumps(task.kwargs), "--seed", str(self.seed)),
            *("--total-timesteps", str(task.steps), *task.args),
        ]

    def finished(self) -> bool:
        """Whether the same training has finished in this folder."""
        try:
            made = json.loads((self.folder / "trained.json").read_text())
        except (OSError, ValueError):
            return False
        return bool(made == self.command()[1:])

    def start(self) -> subprocess.Popen[bytes]:
        self.folder.mkdir(parents=True, exist_ok=True)
        environment = {**os.environ, "RUNSPINE_RUN_DIR": str(self.folder)}
        with (self.folder / "output.txt").open("wb") as output:
            return subprocess.Popen(self.command(), env=environment, stdout=output, stderr=output)

    def ended(self, code: int) -> None:
        if code:
            raise SystemExit(f"{self.task.title} seed {self.seed} ended with {code}: {self.last_lines()}")
        (self.folder / "trained.json").write_text(json.dumps(self.command()[1:]))

    def last_lines(self) -> str:
        return "\n".join((self.folder / "output.txt").read_text().splitlines()[-5:])

    def summary(self) -> dict[str, float]:
        summary: dict[str, float] = json.loads((self.folder / "summary.json").read_text())
        return summary


def trainings(tasks: tuple[Task, ...], folder: Path) -> list[LearnTraining]:
    def home(task: Task, seed: int) -> Path:
        return folder / f"{task.title.replace(' ', '-')}-{task.steps}-seed{seed}"

    return [LearnTraining(task, seed, home(task, seed)) for task in tasks for seed in task.seeds]


def train_all(todo: list[LearnTraining], together: int) -> None:
    """Run trainings, at most `together` at a time."""
    waiting = [training for training in todo if not training.finished()]
    running: dict[LearnTraining, subprocess.Popen[bytes]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < together:
                training = waiting.pop(0)
                running[training] = training.start()
            time.sleep(0.2)
            for training, process in list(running.items()):
                if process.poll() is not None:
                    del running[training]
                    training.ended(process.returncode)
                    print(f"{training.task.title} seed {training.seed}: {reached(training):.4g}", flush=True)
    finally:
        for process in running.values():
            process.kill()
            process.wait()


def reached(training: LearnTraining) -> float:
    """Mean return at the end; of a table, that of its best actions."""
    import torch

    newest = max((training.folder / "checkpoints").glob("step-*.pt"), key=lambda path: int(path.stem[5:]))
    parts = torch.load(newest, weights_only=True)["parts"]
    if "table" in parts:
        return greedy(training, parts["table"]["q"].argmax(dim=1).tolist())
    return fmean(parts["history"]["last"][-training.task.window :])


def greedy(training: LearnTraining, best: list[int]) -> float:
    """Mean return without exploring."""
    import gymnasium as gym

    env = gym.make(training.task.env, **training.task.kwargs)
    total = 0.0
    obs, _ = env.reset(seed=10_000 + training.seed)
    for _ in range(GREEDY_EPISODES):
        over = False
        while not over:
            obs, reward, terminated, truncated, _ = env.step(best[obs])
            total += float(reward)
            over = terminated or truncated
        obs, _ = env.reset()
    env.close()
    return total / GREEDY_EPISODES


@dataclass(frozen=True)
class LearnResult:
    """Result of a task over its seeds."""

    task: Task
    returns: list[float]
    speed: float
    seconds: float

    @property
    def learnt(self) -> bool:
        return fmean(self.returns) >= self.task.floor


def lines(tasks: tuple[Task, ...], done: list[LearnTraining]) -> Iterator[LearnResult]:
    for task in tasks:
        own = [training for training in done if training.task is task]
        summaries = [training.summary() for training in own]
        speed = fmean(summary["steps_per_second"] for summary in summaries)
        seconds = fmean(summary["wall_seconds"] for summary in summaries)
        yield LearnResult(task, [reached(training) for training in own], speed, seconds)


def table(found: list[LearnResult]) -> str:
    """Markdown table for docs/benchmarks.md."""
    head = (
        "algorithm, env",
        "published",
        "measured, mean ± sd",
        "each seed",
        "steps",
        "steps/s",
        "seconds",
        "",
    )
    rows = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for line in found:
        digits = 2 if line.task.algo == "qlearning" else 1
        mean, deviation = fmean(line.returns), pstdev(line.returns)
        each = ", ".join(f"{value:.{digits}f}" for value in line.returns)
        rows.append(
            f"| {line.task.title} | {line.task.published} | {mean:.{digits}f} ± {deviation:.{digits}f} "
            f"| {each} | {line.task.steps:,} | {line.speed:,.0f} | {line.seconds:.0f} "
            f"| {'reached' if line.learnt else 'BELOW'} |"
        )
    return "\n".join(rows)


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--short", action="store_true", help="small budgets, about a minute")
    parser.add_argument("--folder", type=Path, default=Path("var/learn"), help="where trainings are kept")
    parser.add_argument("--together", type=int, default=2, help="trainings at the same time")
    parser.add_argument("--only", default="", help="tasks whose title holds this text")
    args = parser.parse_args()
    tasks = tuple(task for task in (SHORT if args.short else FULL) if args.only in task.title)
    todo = trainings(tasks, args.folder)
    train_all(todo, args.together)
    found = list(lines(tasks, todo))
    print(f"\n{table(found)}\n")
    print("Mean return of the last 100 episodes, of sac's last 50 (short: 5);", end=" ")
    print(f"of tables, of {GREEDY_EPISODES} episodes without exploring.")
    if below := [line.task.title for line in found if not line.learnt]:
        raise SystemExit(f"below the published range: {', '.join(below)}")


if __name__ == "__main__":
    main()
