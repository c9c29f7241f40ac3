"""NATS away, then S3 away, in the middle of training: the trainer keeps its pace, nothing is lost."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections import Counter
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, RUNNING
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.client import PatientClient
from tests.kit.steps import read_steps

# Seconds each server is away; the promise is for a minute, CI waits less.
PARTS = {"nats", "s3", "orchestrator", "artifacts", "worker"}
AWAY = float(os.environ.get("RUNSPINE_TEST_OUTAGE", "10"))
TRAINER = """
import json, os, pathlib, sys, time

def emit(**what):
    print(json.dumps(what))

until, pace = time.time() + float(sys.argv[1]), open(sys.argv[2], "w")
here, step = pathlib.Path(os.environ["RUNSPINE_RUN_DIR"]), 0
while time.time() < until:
    for _ in range(50):
        emit(type="step", episode_id=f"e{step // 500}", step=step % 500, action=step % 3, reward=1.0,
            terminated=step % 500 == 499, truncated=False, obs=[step, 0.5])
        step += 1
    if step % 5000 == 0:
        file = here / f"step-{step}.pt"
        file.write_bytes(os.urandom(20_000))
        emit(type="artifact", kind="checkpoint", path=str(file), step=step)
    sys.stdout.flush()
    print(time.time(), step, file=pace, flush=True)
    time.sleep(0.05)
"""


def steps_between(pace: Path, start: float, end: float) -> float:
    """Steps a second that the trainer made in a span of time."""
    received = [
        (float(at), int(step)) for at, step in (line.split() for line in pace.read_text().splitlines())
    ]
    inside = [(at, step) for at, step in received if start <= at <= end]
    return (inside[-1][1] - inside[0][1]) / (inside[-1][0] - inside[0][0])


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.timeout(400)
async def test_training_goes_on_while_nats_and_s3_are_away_and_every_step_arrives_once(
    tmp_path: Path,
) -> None:
    script, pace = tmp_path / "train.py", tmp_path / "pace"
    script.write_text(TRAINER)
    seconds = 2 * AWAY + 18
    async with running_stack(tmp_path / "home", workers=1, slots=1, only=PARTS) as stack:
        client = PatientClient(stack)
        spec = RunSpec(runner="script", command=["python", str(script), str(seconds), str(pace)])
        run_id = (await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id
        await client.until_phase(run_id, RUNNING)
        await asyncio.sleep(4)
        calm = time.time()
        spans = []
        for part in ("nats", "s3"):
            async with stack.without(part):
                start = time.time()
                await asyncio.sleep(AWAY)
                spans.append((start, time.time()))
        await client.until_phase(run_id, COMPLETED, seconds + 90)
        got = await client.call("Get", wire.GetRequest(run_id=run_id))
        steps = await read_steps(stack, run_id)
    made = int(pace.read_text().split()[-1])
    times = Counter((step.episode_id, step.index) for step in steps)
    assert set(times.values()) == {1}
    assert len(times) == made == got.run.counts.steps
    usual = steps_between(pace, calm - 4, calm)
    ratios = [steps_between(pace, start, end) / usual for start, end in spans]
    print(f"{made:,} steps, each once; pace with NATS, S3 away: {ratios[0]:.2f}, {ratios[1]:.2f} of before")
    assert min(ratios) > 0.8, "the trainer was slowed down"
    checkpoints = [a.step for attempt in got.attempts for a in attempt.artifacts if a.kind == "checkpoint"]
    assert sorted(checkpoints) == list(range(5000, made + 1, 5000)), json.dumps(checkpoints)
