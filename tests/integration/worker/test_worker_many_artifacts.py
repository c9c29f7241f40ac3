"""A trainer that announces thousands of files: each costs the same, and none delays a cancel."""

from __future__ import annotations

import time

import pytest

from runspine.wire.v1.facts_pb2 import STOPPED
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay

TRAINER = """
import json, pathlib, sys, time
count = int(sys.argv[1])
folder = pathlib.Path("out")
folder.mkdir()
for number in range(count):
    path = folder / f"{number}.txt"
    path.write_text(str(number % 50))
    print(json.dumps({"type": "artifact", "kind": "file", "path": str(path)}), flush=False)
print("announced", flush=True)
time.sleep(600)
"""
# The part of an exit that is not about artifacts, on a busy machine.
CANCEL_SECONDS = 5.0


async def cancelled_within(bay: Bay, count: int) -> float:
    """Seconds from the cancel to the fact of the end, after so many files were announced."""
    bay.worker("w1", slots=1)
    run_id = await bay.submit("python", "-c", TRAINER, str(count))

    async def announced() -> bool:
        return any(line.text == "announced" for line in await bay.lines(run_id))

    await eventually(announced, 300)
    began = time.monotonic()
    await bay.cancel(run_id)
    exited = await bay.exited(run_id)
    seconds = time.monotonic() - began
    assert exited.outcome == STOPPED
    before = [fact.HasField("attempt_exited") for fact in await bay.attempts(run_id)].index(True)
    produced = sum(f.HasField("artifact_produced") for f in (await bay.attempts(run_id))[:before])
    assert exited.artifacts_pending + produced == count
    return seconds


async def test_a_cancel_does_not_wait_for_2000_announced_files(bay: Bay) -> None:
    assert await cancelled_within(bay, 2_000) < CANCEL_SECONDS


@pytest.mark.long
@pytest.mark.timeout(900)
async def test_a_cancel_does_not_wait_for_20000_announced_files(bay: Bay) -> None:
    assert await cancelled_within(bay, 20_000) < CANCEL_SECONDS
