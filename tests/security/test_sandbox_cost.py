"""What the sandbox costs a trainer: its start and its steps, in CPU time, which other work changes least."""

from __future__ import annotations

import os
import resource
import subprocess
import sys
import time
from pathlib import Path

import pytest

from runspine.services.worker.process import reaper
from runspine.services.worker.process.sandbox import (
    ENGINES,
    Sandbox,
    SandboxError,
    find_sandbox,
    make_scratch,
)
from runspine.services.worker.process.sandbox_plan import SandboxPolicy, plan_sandbox
from runspine.services.worker.process.system_calls import filter_program

MAX_START_SECONDS = 0.050
LEAST_STEPS = 0.995
ROUNDS = 9
# Steps of an env, each with a line of telemetry and a clock, as trainers do them.
STEPS = """
import os, time
import gymnasium
env = gymnasium.make("CartPole-v1")
env.reset(seed=1)
sink = os.open(os.devnull, os.O_WRONLY)
began = time.process_time()
for step in range(10_000):
    *_, ended, cut, _ = env.step(step & 1)
    os.write(sink, b"step\\n")
    if ended or cut:
        env.reset()
print(time.process_time() - began)
"""


def command_of(sandbox: Sandbox, run_dir: Path, *words: str) -> list[str]:
    make_scratch(run_dir)
    plan = plan_sandbox(sandbox.policy, run_dir, run_dir, sys.executable)
    return sandbox.command(plan, list(words), 4096)


def run(command: list[str]) -> tuple[str, float, float]:
    """Output, seconds and seconds of CPU time of a program."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    launch: dict[str, object] = {
        "environment": dict(os.environ),
        "filter": filter_program(os.uname().machine).hex(),
    }
    with reaper.given(command, reaper.contents(launch)) as (words, descriptors):
        done = subprocess.run(words, check=True, capture_output=True, text=True, pass_fds=descriptors)
    took, after = time.monotonic() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    return done.stdout, took, after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


@pytest.mark.long
@pytest.mark.timeout(1200)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_sandbox_costs_little(engine: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        sandbox = find_sandbox(engine, SandboxPolicy(tmp_path / "worker"))
    except SandboxError as reason:
        pytest.skip(str(reason))
    nothing, run_dir = ["/bin/true"], tmp_path / "worker" / "runs" / "one"
    walled = command_of(sandbox, run_dir, *nothing)
    pairs = [(run(walled), run(nothing)) for _ in range(ROUNDS)]
    start = min(inside[2] for inside, _ in pairs) - min(outside[2] for _, outside in pairs)
    wall = min(inside[1] for inside, _ in pairs) - min(outside[1] for _, outside in pairs)
    steps = [sys.executable, "-c", STEPS]
    walled = command_of(sandbox, run_dir, *steps)
    counted = [(float(run(walled)[0]), float(run(steps)[0])) for _ in range(ROUNDS)]
    speed = min(outside for _, outside in counted) / min(inside for inside, _ in counted)
    with capsys.disabled():
        print(f"\n{engine}: start {start * 1000:.1f} ms of CPU, {wall * 1000:.1f} ms; steps {speed:.4f}")
    assert start <= MAX_START_SECONDS
    assert speed >= LEAST_STEPS
