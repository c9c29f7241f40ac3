"""`runspine bench trainer`: cost of capturing every step for the trainer, compared with other tools."""

from __future__ import annotations

import contextlib
import io
import os
import signal
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from statistics import median
from typing import Any

import torch

from runspine.bench.kit.drain import drained
from runspine.bench.kit.figures import Report, spread
from runspine.bench.kit.screen import Announce
from runspine.bench.kit.trivial import TrivialEnv
from runspine.bench.trainers.vector import measure_vectors
from runspine.frames import FRAMES
from runspine.sdk.run import Run
from runspine.sdk.wrapping import wrapped

# µs of CPU and of wall-clock time for a step.
Cost = tuple[float, float]
STEPS_A_ROUND = 50_000
PEER_STEPS = 3_000
LONG, SHORT = 500, 20
MAX_STEP_MICROS = 0.5


def bench_trainer(rounds: int, iterations: int, announce: Announce) -> Report:
    report = Report("Trainer")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        folder = Path(scratch)
        for length in (LONG, SHORT):
            announce(f"a trivial env with episodes of {length} steps: {rounds} rounds bare and captured")
            measure_steps(report, folder, length, rounds)
        announce("vector envs of 64, 512 and 4,096")
        measure_vectors(report, folder, rounds)
        announce(f"PPO on CartPole-v1: {iterations} iterations bare and captured, in turn")
        measure_ppo(report, folder, iterations)
        announce("the reward of each step to tensorboardX and to wandb (offline)")
        measure_peers(report, folder, rounds)
    return report


def walk(env: Any, steps: int, after: Callable[[int, float], None] | None = None) -> Cost:
    """Take steps, with a reset at the end of each episode."""
    env.reset(seed=1)
    step, reset = env.step, env.reset
    cpu, wall = time.process_time(), time.perf_counter()
    for at in range(steps):
        _, reward, terminated, _, _ = step(at & 1)
        if after is not None:
            after(at, reward)
        if terminated:
            reset()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return cpu / steps * 1e6, wall / steps * 1e6


def measure_steps(report: Report, folder: Path, length: int, rounds: int) -> None:
    bare = TrivialEnv(length)
    with drained(folder, FRAMES=str(FRAMES)) as drain:
        captured = wrapped(drain.run, TrivialEnv(length), None)
        pairs = [(walk(bare, STEPS_A_ROUND), walk(captured, STEPS_A_ROUND)) for _ in range(rounds)]
    taken = rounds * STEPS_A_ROUND
    assert drain.counts["steps"] == taken, f"{drain.counts} of {taken} steps"
    added = spread([after[0] - before[0] for before, after in pairs])
    alone = median(before[1] for before, _ in pairs)
    target = (
        {"target": f"≤ {MAX_STEP_MICROS} µs", "met": added["value"] <= MAX_STEP_MICROS, "key": "cpu"}
        if length == LONG
        else {}
    )
    size = drain.counts["bytes"] / taken
    report.add(
        f"CPU for a captured step, episodes of {length}", unit="µs", **added, **target,
        context=f"bare {1e6 / alone:,.0f} steps/s; {size:.0f} bytes a step on the pipe",
    )  # fmt: skip


def measure_ppo(report: Report, folder: Path, iterations: int) -> None:
    """Compare two learners with the same seed, bare and captured, one iteration each in turn."""
    with drained(folder, FRAMES=str(FRAMES)) as drain:
        with contextlib.redirect_stdout(io.StringIO()):
            bare, captured = Twin(folder / "bare", Run({})), Twin(folder / "captured", drain.run)
        bare.unwrap()
        pairs = [in_turn(bare, captured, first=index % 2 == 0) for index in range(iterations)]
    size = captured.steps_an_iteration
    assert drain.counts["steps"] == iterations * size, f"{drain.counts} of {iterations * size} steps"
    assert bare.weights() == captured.weights(), "capturing has changed what is learnt"
    # The first iterations warm up caches and allocators.
    pairs = pairs[min(5, iterations // 4) :]
    wall = median(before[1] / after[1] for before, after in pairs)
    cpu = sum(before[0] for before, _ in pairs) / sum(after[0] for _, after in pairs)
    noise = median(abs(before[1] / after[1] - wall) for before, after in pairs) / len(pairs) ** 0.5
    each = median(before[1] for before, _ in pairs) / size
    report.add(
        "PPO CartPole, speed captured ÷ bare", wall, f"± {1.5 * noise:.3f}",
        target="≥ 0.98", met=wall >= 0.98, key="capture", low=wall - 1.5 * noise, high=wall + 1.5 * noise,
        context=f"bare {1 / each:,.0f} steps/s; the same weights bit by bit; by CPU time {cpu:.3f}",
    )  # fmt: skip


def in_turn(bare: Twin, captured: Twin, *, first: bool) -> tuple[Cost, Cost]:
    """Run an iteration of each; the order alternates, because caches are warm for the second."""
    if first:
        before = bare.iterate()
        return before, captured.iterate()
    after = captured.iterate()
    return bare.iterate(), after


class Twin:
    """A PPO learner that runs one iteration per call."""

    def __init__(self, folder: Path, run: Run, **more: Any) -> None:
        from runspine.trainers.builtin.envs import Envs
        from runspine.trainers.builtin.ppo import Args, Learner
        from runspine.trainers.builtin.training import Training

        folder.mkdir()
        args = Args(total_timesteps=10_000_000, **more)
        with _signal_handlers_kept(), _variable("RUNSPINE_RUN_DIR", str(folder)):
            training = Training("ppo", args)
        training.run = run
        envs = Envs(args.env_id, args.env_kwargs, args.num_envs, args.seed)
        envs.envs = [wrapped(run, env.env, slot) for slot, env in enumerate(envs.envs)]
        self._learner = Learner(args, training, envs)
        self._step = self._learner.begin()
        self._dice = torch.get_rng_state()
        self.steps_an_iteration = args.num_envs * args.num_steps

    def unwrap(self) -> None:
        envs = self._learner.envs
        envs.envs = [env.env for env in envs.envs]

    def iterate(self) -> Cost:
        """Run one rollout and one update; return its CPU and wall-clock seconds."""
        # Both twins use torch's one generator: each restores its own state.
        torch.set_rng_state(self._dice)
        with contextlib.redirect_stdout(io.StringIO()):
            cpu, wall = time.process_time(), time.perf_counter()
            self._step = self._learner.collect(self._step)
            self._learner.training.log(self._step, self._learner.update())
            taken = time.process_time() - cpu, time.perf_counter() - wall
        self._dice = torch.get_rng_state()
        return taken

    def weights(self) -> list[bytes]:
        return [each.detach().numpy().tobytes() for each in self._learner.agent.parameters()]


@contextlib.contextmanager
def _signal_handlers_kept() -> Iterator[None]:
    """Restore the signal handlers that a training replaces: signals must end a benchmark."""
    before = [(number, signal.getsignal(number)) for number in (signal.SIGINT, signal.SIGTERM)]
    try:
        yield
    finally:
        for number, handler in before:
            signal.signal(number, handler)


@contextlib.contextmanager
def _variable(name: str, value: str) -> Iterator[None]:
    before = os.environ.get(name)
    os.environ[name] = value
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def measure_peers(report: Report, folder: Path, rounds: int) -> None:
    """Measure logging one scalar per step with other tools."""
    bare = TrivialEnv(LONG)
    few = min(rounds, 3)
    with drained(folder, FRAMES=str(FRAMES)) as drain:
        captured = wrapped(drain.run, TrivialEnv(LONG), None)
        costs = {"runspine, all of the step": [_added(bare, captured, None) for _ in range(few)]}
        costs["runspine, run.log of one scalar"] = [
            _added(bare, bare, lambda at, reward: drain.run.log({"reward": reward}, step=at))
            for _ in range(few)
        ]
    costs["tensorboardX, add_scalar"] = _tensorboard(bare, folder, few)
    costs["wandb offline, run.log"] = _wandb(bare, folder, few)
    for name, taken in costs.items():
        cpu, wall = spread([cost[0] for cost in taken]), median(cost[1] for cost in taken)
        report.add(
            f"a step logged: {name}", unit="µs CPU", context=f"{wall:.3g} µs of wall-clock time",
            group="cpu", who=name, **cpu,
        )  # fmt: skip


def _added(bare: Any, env: Any, after: Callable[[int, float], None] | None) -> Cost:
    before, with_it = walk(bare, PEER_STEPS), walk(env, PEER_STEPS, after)
    return with_it[0] - before[0], with_it[1] - before[1]


def _tensorboard(bare: Any, folder: Path, rounds: int) -> list[Cost]:
    from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

    writer = SummaryWriter(str(folder / "tensorboard"))
    try:
        return [
            _added(bare, bare, lambda at, reward: writer.add_scalar("reward", reward, at))
            for _ in range(rounds)
        ]
    finally:
        writer.close()


def _wandb(bare: Any, folder: Path, rounds: int) -> list[Cost]:
    import wandb

    settings = wandb.Settings(console="off", silent=True, x_disable_stats=True)
    run = wandb.init(mode="offline", dir=str(folder), project="bench", settings=settings)
    try:
        return [_added(bare, bare, lambda _, reward: run.log({"reward": reward})) for _ in range(rounds)]
    finally:
        run.finish()
