"""A checkpoint never outlives or overtakes the steps that led to it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline
from runspine.services.worker.telemetry.spool_directory import SpoolDirectory
from runspine.wire.v1.facts_pb2 import LOST, Fact
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDOUT
from tests.kit.waiting import eventually
from tests.kit.worker import limit_stream
from tests.kit.worker_with_s3 import Bay

STEP = {"type": "step", "episode_id": "e", "step": 0, "action": 1, "reward": 1.0, "terminated": False}
# More steps than a small stream takes, then a checkpoint.
TRAINER = """
import json, os, random, time
for step in range(4000):
    print(json.dumps({"type": "step", "episode_id": "e", "step": step, "action": 1, "reward": 1.0,
        "terminated": False, "truncated": False, "obs": [random.random() for _ in range(40)]}))
with open("a.pt", "wb") as file:
    file.write(os.urandom(100))
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "a.pt", "step": 4000}), flush=True)
time.sleep(600)
"""


async def test_a_file_is_reported_when_the_steps_before_it_are_on_disk(connect: Any, tmp_path: Path) -> None:
    """Killed in between, a worker left a checkpoint without the steps of its last tenth of a second."""
    mine = await connect("worker")
    received_so_far: list[tuple[dict[str, Any], int, int]] = []
    telemetry = TelemetryPipeline(
        "run", 1, RunSpec(), Redactor({}), mine.publisher, SpoolDirectory(tmp_path, 1 << 20)
    )

    def receive(emitted: dict[str, Any], after: int) -> None:
        spooled = sum(path.stat().st_size for path in (tmp_path / "spool" / "run.1").glob("*.seg"))
        received_so_far.append((emitted, after, spooled))

    telemetry.on_artifact(receive)
    await telemetry.start()
    for emitted in (
        {**STEP, "truncated": False},
        {"type": "artifact", "kind": "checkpoint", "path": "a.pt"},
    ):
        telemetry.take(json.dumps(emitted).encode(), STDOUT, 1)
    assert not received_so_far
    telemetry.cut_batches()
    await asyncio.wait_for(telemetry.wait_for_announcements(), 20)
    [(emitted, after, spooled)] = received_so_far
    assert emitted["path"] == "a.pt"
    assert after == 1
    assert spooled > 0
    await telemetry.finish()


async def stuck(bay: Bay) -> str:
    """A run whose checkpoint is stored while its steps cannot be."""
    await limit_stream(bay, 64 << 10)
    bay.worker()
    run_id = await bay.python(TRAINER)
    uploads = bay.folder / "w1" / "uploads"

    async def handed_in() -> bool:
        return uploads.is_dir() and any(path.suffix == ".json" for path in uploads.iterdir())

    await eventually(handed_in)
    await asyncio.sleep(2)
    assert await bay.artifacts(run_id) == []
    return run_id


async def test_a_checkpoint_is_reported_after_the_steps_that_led_to_it(bay: Bay) -> None:
    run_id = await stuck(bay)
    await limit_stream(bay, 256 << 20)
    [checkpoint] = await bay.artifacts(run_id, 1)
    assert checkpoint.step == 4000
    steps = [block.count for batch in await bay.batches(run_id) for block in batch.steps.blocks]
    assert sum(steps) == 4000


async def test_a_checkpoint_whose_steps_are_dropped_with_its_attempt_is_given_up(bay: Bay) -> None:
    """A worker that was cut off and comes back too late: nobody may go on from where it was."""
    run_id = await stuck(bay)
    await bay.requeue(run_id, 2)

    await given_up(bay, run_id)


async def test_a_worker_that_drops_its_spool_when_it_is_back_gives_up_the_checkpoint_too(bay: Bay) -> None:
    """Killed, and given up before it was back: its word that the attempt was lost came after the drop."""
    run_id = await stuck(bay)
    bay.workers[-1].kill()
    await bay.requeue(run_id, 2)
    bay.worker()
    assert (await bay.exited(run_id)).outcome == LOST
    await given_up(bay, run_id)


async def given_up(bay: Bay, run_id: str) -> None:
    async def received() -> Fact | None:
        return next((fact for fact in await bay.attempts(run_id) if fact.HasField("artifact_given_up")), None)

    fact = await eventually(received)
    assert "the steps that led to it" in fact.artifact_given_up.reason
    assert await bay.artifacts(run_id) == []
