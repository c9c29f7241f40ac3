"""A rig with S3, and a trainer that leaves a checkpoint at each step."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from runspine.wire.v1.facts_pb2 import ArtifactProduced, AttemptStarted
from runspine.wire.v1.run_pb2 import Beat
from runspine.wire.v1.telemetry_pb2 import WORKER
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

# Counts to a number, with a checkpoint at each step; resumes at the step of a checkpoint.
COUNTER = """
import json, os, signal, sys, time
last, pause = int(sys.argv[1]), float(sys.argv[2])
resume = os.environ.get("RUNSPINE_RESUME")
step = json.load(open(resume))["step"] if resume else 0
print("from", step, os.environ.get("RUNSPINE_RESUME_KIND"), flush=True)

def save():
    name = f"step-{step}.json"
    json.dump({"step": step, "run": os.environ["RUNSPINE_RUN_ID"]}, open(name, "w"))
    record = {"type": "artifact", "kind": "checkpoint", "path": name, "step": step, "meta": {"score": 1.5}}
    print(json.dumps(record), flush=True)

def stop(*_):
    save()
    sys.exit(0)

signal.signal(signal.SIGTERM, stop)
while step < last:
    time.sleep(pause)
    step += 1
    save()
"""


class Bay(Rig):
    """A rig with S3."""

    s3: S3Server

    def worker(self, name: str = "w1", slots: int = 2, **environment: str) -> Any:
        return super().worker(name, slots, **{**self.s3.environment, **environment})

    async def count(self, last: int, pause: float = 0.0, **fields: object) -> str:
        return await self.submit("python", "-c", COUNTER, str(last), str(pause), **fields)  # type: ignore[arg-type]

    async def artifacts(self, run_id: str, least: int = 0, seconds: float = 120) -> list[ArtifactProduced]:
        async def probe() -> list[ArtifactProduced] | None:
            facts = await self.attempts(run_id)
            found = [fact.artifact_produced for fact in facts if fact.HasField("artifact_produced")]
            # Uploads go side by side and end in any order.
            return sorted(found, key=lambda artifact: artifact.step) if len(found) >= least else None

        return await eventually(probe, seconds) if least else await probe() or []

    async def start_of(self, run_id: str, attempt: int) -> AttemptStarted:
        async def probe() -> AttemptStarted | None:
            starts = [f.attempt_started for f in await self.attempts(run_id) if f.HasField("attempt_started")]
            return next((start for start in starts if start.attempt == attempt), None)

        return await eventually(probe)

    async def waits_for(self, run_id: str, worker: str = "w1") -> str | None:
        """Why the worker has put the run off, if it has."""
        body = json.dumps({"last_by_subj": f"beats.{worker}"}).encode()
        message = await self.link.request("$JS.API.DIRECT.GET.BEATS", body)
        waiting = Beat.FromString(message.data).waiting
        return next((each.reason for each in waiting if each.run_id == run_id), None)

    async def again(self, run_id: str, attempt: int) -> None:
        await self.requeue(run_id, attempt)
        await self.offer(run_id, attempt)

    async def remarks(self, run_id: str) -> list[str]:
        return [line.text for line in await self.lines(run_id) if line.source == WORKER]


@asynccontextmanager
async def open_bay(server: NatsServer, s3: S3Server, connect: Any, folder: Path) -> AsyncIterator[Bay]:
    await s3.ready()
    mine = await connect("rig")
    bay = Bay(server.url, folder, mine.link, mine.publisher, mine.log)
    bay.s3 = s3
    await bay.consumer()
    yield bay
    await asyncio.to_thread(bay.stop)
    for worker in bay.workers:
        assert "Traceback" not in worker.log(), worker.log()
