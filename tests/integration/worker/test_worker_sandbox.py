"""A worker whose trainers are walled in, from the offer to the end on the log."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from runspine.services.worker.process.sandbox import SandboxError, find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.wire.v1.facts_pb2 import EXITED, STOPPED
from runspine.wire.v1.spec_pb2 import Isolation
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

LOOK = """
import json, os
runs = os.path.dirname(os.path.dirname(os.environ["RUNSPINE_RUN_DIR"]))
print("seen", os.listdir(runs), len([name for name in os.listdir("/proc") if name.isdigit()]))
for step in range(3):
    print(json.dumps({"type": "metric", "name": "loss", "value": step, "step": step}))
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (print("goodbye", flush=True), sys.exit(0)))
print("ready", flush=True)
while True:
    time.sleep(0.05)  # a signal just before a long sleep is heeded after it
"""


@pytest.fixture
async def rig(nats_server: NatsServer, connect: Any, tmp_path: Path) -> AsyncIterator[Rig]:
    try:
        await asyncio.to_thread(find_sandbox, "require", SandboxPolicy(tmp_path / "probe"))
    except SandboxError as reason:
        pytest.skip(str(reason))
    mine = await connect("rig")
    rig = Rig(nats_server.url, tmp_path, mine.link, mine.publisher, mine.log)
    await rig.consumer()
    yield rig
    await asyncio.to_thread(rig.stop)


async def test_a_run_behind_the_wall_is_recorded_and_stopped_as_any_other(rig: Rig) -> None:
    rig.worker(RUNSPINE_WORKER_SANDBOX="auto")
    assert (await rig.online()).worker_online.sandbox in ("bubblewrap", "namespaces")
    stopped = await rig.python(POLITE)

    async def ready() -> bool:
        return "ready" in await rig.texts(stopped)

    await eventually(ready)
    looking = await rig.python(LOOK)
    exited = await rig.exited(looking)
    assert (exited.outcome, exited.exit_code, exited.counts.metrics) == (EXITED, 0, 3)
    [seen] = [text for text in await rig.texts(looking) if text.startswith("seen")]
    # The other run's directory and processes are on the same machine, and not to be seen.
    assert stopped not in seen
    assert int(seen.split()[-1]) <= 3

    await rig.cancel(stopped)
    assert (await rig.exited(stopped)).outcome == STOPPED
    assert "goodbye" in await rig.texts(stopped)


async def test_a_worker_that_cannot_have_the_wall_does_not_start(rig: Rig, tmp_path: Path) -> None:
    worker = rig.worker(RUNSPINE_WORKER_SANDBOX="bubblewrap", PATH=str(tmp_path))
    assert await asyncio.to_thread(worker.process.wait, 60) == 2
    assert "there is no bwrap: install bubblewrap" in worker.log()


async def test_a_run_that_requires_the_wall_waits_for_a_worker_that_has_it(rig: Rig) -> None:
    rig.worker("bare", RUNSPINE_WORKER_SANDBOX="off")
    online = (await rig.online("bare")).worker_online
    assert (online.sandbox, online.sandbox_missing) == ("", "RUNSPINE_WORKER_SANDBOX is off")
    run_id = await rig.python("print('here')", isolation=Isolation(network="none"))

    async def postponed() -> bool:
        return "it requires a sandbox, which this worker does not have" in rig.workers[0].log()

    await eventually(postponed)
    rig.worker("walled", RUNSPINE_WORKER_SANDBOX="require")
    assert (await rig.exited(run_id)).worker_id == "walled"
