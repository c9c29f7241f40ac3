"""A trainer that does nothing any more is ended, where its run asks for it."""

from __future__ import annotations

import asyncio
from itertools import groupby
from pathlib import Path

import pytest

from runspine.services.worker.process.sandbox import ENGINES, SandboxError, find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.wire.v1.facts_pb2 import EXITED, LIMIT
from runspine.wire.v1.spec_pb2 import Limits
from runspine.wire.v1.telemetry_pb2 import WORKER
from tests.kit.worker import Rig

# Waits for a lock that nothing releases, with a child that sleeps.
DEADLOCK = """
import subprocess, threading
child = subprocess.Popen(["sleep", "601"])
print("begun", flush=True)
lock = threading.Lock()
lock.acquire(); lock.acquire()
"""
# As above, in a process that records an env through the worker's socket.
RECORDED = """
import subprocess, sys
child = '''
import threading
import gymnasium as gym
env = gym.make("CartPole-v1")
env.reset(seed=1)
env.step(0)
threading.Event().wait()
'''
subprocess.run([sys.executable, "-c", child])
"""
# Silent and at work, then printing and idle: each for longer than the limit.
AT_WORK = """
import time
end = time.monotonic() + 6
while time.monotonic() < end: pass
for _ in range(12):
    time.sleep(0.5)
    print("alive", flush=True)
"""


# Without a sandbox, and in each kind of it.
@pytest.mark.parametrize("sandbox", ["off", *ENGINES])
async def test_a_deadlock_is_ended_with_the_stacks_of_its_processes(
    rig: Rig, sandbox: str, tmp_path: Path
) -> None:
    if sandbox != "off":
        try:
            await asyncio.to_thread(find_sandbox, sandbox, SandboxPolicy(tmp_path / "probe"))
        except SandboxError as reason:
            pytest.skip(str(reason))
    rig.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    run_id = await rig.python(DEADLOCK, limits=Limits(stall_seconds=2))
    exited = await rig.exited(run_id)
    assert exited.outcome == LIMIT
    assert exited.reason.startswith("stalled: no output, no telemetry and no CPU time for 2 s")
    described = [line.text for line in await rig.lines(run_id) if line.source == WORKER]
    assert any("sleep 601" in text and "state S" in text for text in described)
    assert any("python" in text and "lock.acquire" in text for text in described)
    # Line 6 of the program, in py-spy's words.
    assert any("<module> (<string>:6)" in text for text in described), described
    assert not any("sandbox" in text or "bwrap" in text for text in described), described


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_process_that_records_and_waits_for_ever_has_stalled(rig: Rig, sandbox: str) -> None:
    rig.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    run_id = await rig.python(RECORDED, limits=Limits(stall_seconds=3))
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.counts.steps) == (LIMIT, 1), await rig.texts(run_id)
    described = [line.text for line in await rig.lines(run_id) if line.source == WORKER]
    assert any("import gymnasium" in text and "state S" in text for text in described)


async def test_a_stalled_run_is_marked_until_it_goes_on(rig: Rig) -> None:
    rig.worker(RUNSPINE_STALL_SECONDS="2", RUNSPINE_PROGRESS_SECONDS="0.3")
    program = (
        "import time; print('begun', flush=True); time.sleep(8); print('on', flush=True); time.sleep(1.5)"
    )
    run_id = await rig.python(program)
    exited = await rig.exited(run_id)
    assert exited.outcome == EXITED  # nothing ends it without its limit
    facts = [f.attempt_progressed for f in await rig.attempts(run_id) if f.HasField("attempt_progressed")]
    marks = [since for since, _ in groupby(fact.progress.stalled_since for fact in facts)]
    assert marks[-1] == exited.progress.stalled_since == 0
    [since] = filter(None, marks)
    [start] = [f for f in await rig.attempts(run_id) if f.HasField("attempt_started")]
    assert 0 < since - start.at < 5_000_000
    described = [line.text for line in await rig.lines(run_id) if line.source == WORKER]
    assert any("<module> (<string>:1)" in text for text in described), described
    assert described.count("it goes on") == 1


async def test_work_without_output_and_output_without_work_go_on(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(AT_WORK, limits=Limits(stall_seconds=4))
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.exit_code) == (EXITED, 0), exited.reason
