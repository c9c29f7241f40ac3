"""Event files of TensorBoard are read while a run goes on, and nothing is recorded twice."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from runspine.wire.v1.spec_pb2 import Capture
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

# Waits in the middle until the test has seen its first scalars.
LIVE = """
import os, time
from tensorboardX import SummaryWriter
writer = SummaryWriter("out/deep/tb")
for step in range(100): writer.add_scalar("loss", step, step)
while not os.path.exists("seen"):
    writer.flush()
    time.sleep(0.05)
for step in range(100, 200): writer.add_scalar("loss", step, step)
writer.close()
"""
# The same series in every way that a program may report it.
BOTH = """
import os
from tensorboardX import SummaryWriter
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter
writer, low = SummaryWriter("log/a"), EventFileWriter("log/b")
for step in range(300):
    writer.add_scalar("high", step, step)
    writer.add_scalars("group", {"x": step, "y": -step}, step)
    low.add_event(Event(step=step, summary=Summary(value=[Summary.Value(tag="low", simple_value=step)])))
writer.close(); low.close()
"""
SDK = """
import runspine
from tensorboardX import SummaryWriter
run, writer = runspine.init(), SummaryWriter("log")
for step in range(100):
    run.log({"loss": step}, step=step)
    writer.add_scalar("loss", step, step)
    writer.add_scalar("other", step, step)
writer.close()
"""


async def points(rig: Rig, run_id: str) -> Counter[str]:
    blocks = [block for batch in await rig.batches(run_id) for block in batch.metrics.blocks]
    return Counter(
        block.name for block in blocks for _ in block.steps if not block.name.startswith("system/")
    )


async def test_scalars_are_read_while_the_program_writes_them(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(LIVE, capture=Capture(instrument=False))

    async def some() -> bool:
        return (await points(rig, run_id))["loss"] == 100

    await eventually(some, 60)
    directory = Path((await rig.started(run_id)).attempt_started.directory)
    (directory / "seen").touch()
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0, await rig.texts(run_id)
    assert await points(rig, run_id) == {"loss": 200}
    assert exited.progress.step == 199


@pytest.mark.parametrize("instrument", [True, False])
async def test_a_scalar_is_one_point_however_it_is_recorded(rig: Rig, instrument: bool) -> None:
    rig.worker()
    run_id = await rig.python(BOTH, capture=Capture(instrument=instrument))
    assert (await rig.exited(run_id)).exit_code == 0, await rig.texts(run_id)
    found = await points(rig, run_id)
    assert (found["high"], found["low"]) == (300, 300)
    # TensorBoard's own form of a group is a file for each of its members, with one tag.
    assert found["group/x"] + found["group/y"] + found["group"] == 600


async def test_a_series_of_the_sdk_is_not_taken_from_the_event_file_as_well(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(SDK)
    assert (await rig.exited(run_id)).exit_code == 0, await rig.texts(run_id)
    assert await points(rig, run_id) == {"loss": 100, "other": 100}
