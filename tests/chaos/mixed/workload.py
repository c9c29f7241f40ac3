"""Runs submitted, cancelled and read back by a client that asks until it is answered."""

from __future__ import annotations

import asyncio
import json
import random
import time
from collections import Counter
from pathlib import Path
from typing import Any, NamedTuple, TextIO

import grpc
import numpy as np

from runspine.wire.v1 import artifacts_pb2 as cache_2
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, FAILED
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import StreamRequest
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from tests.chaos.mixed.site import Site
from tests.chaos.mixed.verdict import Asked
from tests.kit.client import PatientClient

TRAINER = Path(__file__).with_name("trainer.py")
UNDER_WAY = ("SUBMITTED", "QUEUED", "RUNNING", "STALE", "CANCELLING")
# Other clients may have runs of their own.
LABELS = {"of": "the workload"}
LENGTH = 20
# How often, twice a second, a run is cancelled.
CANCELS = 0.05
# Seconds between two steps: fifty trainers on two cores sleep most of the time.
PAUSES = (0.1, 0.25, 0.4)


class Checkpoint(NamedTuple):
    run_id: str
    step: int
    key: str


class Workload:
    """Keeps so many runs in flight; every reply it received is in its history."""

    def __init__(self, site: Site, ledger: Path, history: TextIO, seed: int) -> None:
        self._site = site
        self._client = PatientClient(site)
        self._ledger = ledger
        self._history = history
        self._chance = random.Random(seed)
        self._auth = [("authorization", f"Bearer {site.token}")]
        self.asked: dict[str, Asked] = {}
        self.cancelled: set[str] = set()

    async def keep_going(self, in_flight: int, seconds: float) -> None:
        """Submit whenever fewer are under way; cancel one now and then."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            under_way = await self._under_way()
            for _ in range(max(0, in_flight - len(under_way))):
                await self._submit()
            if under_way and self._chance.random() < CANCELS:
                await self._cancel(self._chance.choice(under_way))
            await asyncio.sleep(0.5)

    async def until_all_ended(self, seconds: float) -> list[str]:
        """Those that have not ended by then."""
        until = time.monotonic() + seconds
        while (left := await self._under_way()) and time.monotonic() < until:
            await asyncio.sleep(0.5)
        return left

    async def until_all_uploaded(self, seconds: float) -> list[str]:
        """Those of which files are still to be stored by then."""
        until = time.monotonic() + seconds
        left = list(self.asked)
        while left and time.monotonic() < until:
            got = [(run_id, await self._get(run_id)) for run_id in left]
            left = [run_id for run_id, one in got if any(each.artifacts_pending for each in one.attempts)]
            await asyncio.sleep(1)
        return left

    async def _get(self, run_id: str) -> Any:
        return await self._client.call("Get", wire.GetRequest(run_id=run_id), 120)

    async def steps_of(self, run_id: str, wanted: int, seconds: float = 60.0) -> Counter[int]:
        """How often each step is in the answer; asked again while some are still on their way."""
        until = time.monotonic() + seconds
        while True:
            found = await self._steps(run_id)
            if sum(found.values()) >= wanted or time.monotonic() > until:
                return found
            await asyncio.sleep(0.5)

    async def found_problems(self, seconds: float = 900.0) -> dict[str, str]:
        """Artifacts that the store does not give as the log states, by digest; each is read whole."""
        until = time.monotonic() + seconds
        while True:
            found = await self._verify()
            if found is not None:
                return found
            assert time.monotonic() < until, "the artifacts could not be verified"
            await asyncio.sleep(0.5)

    async def _verify(self) -> dict[str, str] | None:
        found: dict[str, str] = {}
        async with grpc.aio.insecure_channel(self._site.addresses["artifacts"]) as channel:
            stub: Any = ArtifactServiceStub(channel)
            try:
                async for each in stub.Verify(cache_2.VerifyRequest(), metadata=self._auth, timeout=600):
                    if each.unknown:
                        return None
                    if each.flaw:
                        about = each.artifact
                        found[about.digest] = f"{about.run_id} {about.name}: {each.flaw}"
            except grpc.RpcError:
                return None
        return found

    async def a_checkpoint(self, chance: random.Random) -> Checkpoint | None:
        """Any one that the log lists as stored."""
        run_id = chance.choice(list(self.asked))
        got = await self._get(run_id)
        found = [a for attempt in got.attempts for a in attempt.artifacts if a.kind == "checkpoint"]
        if not found:
            return None
        chosen = chance.choice(found)
        return Checkpoint(run_id, chosen.step, chosen.key)

    async def read_log(self, stream: str) -> list[Any]:
        return await self._client.read_log(stream)

    async def _under_way(self) -> list[str]:
        found: list[str] = []
        token = ""
        while True:
            request = wire.ListRequest(labels=LABELS, phases=UNDER_WAY, page_size=1000, page_token=token)
            page = await self._client.call("List", request, 120)
            found += [each.run.id for each in page.runs]
            if not (token := page.next_page_token):
                return found

    async def _submit(self) -> None:
        number = len(self.asked)
        episodes, code = self._chance.randint(5, 30), 3 if self._chance.random() < 0.15 else 0
        pause = self._chance.choice(PAUSES)
        words = [str(self._ledger), str(episodes), str(LENGTH), str(pause), str(code)]
        spec = RunSpec(runner="script", command=["python", str(TRAINER), *words], labels=LABELS)
        request = wire.SubmitRequest(spec=spec, idempotency_key=f"mixed-{number}")
        run = (await self._client.call("Submit", request, 120)).run
        ends = frozenset({FAILED if code else COMPLETED})
        self.asked[run.id] = Asked(run.id, episodes * LENGTH, ends)
        self.note("submitted", run_id=run.id, steps=episodes * LENGTH, code=code)

    async def _cancel(self, run_id: str) -> None:
        try:
            await self._client.call("Cancel", wire.CancelRequest(run_id=run_id, reason="chaos"), 120)
        except grpc.RpcError as error:
            if error.code() != grpc.StatusCode.FAILED_PRECONDITION:
                raise
            self.note("too late to cancel", run_id=run_id)
            return
        # It may have ended by itself before the word came.
        known = self.asked[run_id]
        self.asked[run_id] = Asked(run_id, known.steps, known.ends | {CANCELLED})
        self.cancelled.add(run_id)
        self.note("cancelled", run_id=run_id)

    async def _steps(self, run_id: str) -> Counter[int]:
        found: Counter[int] = Counter()
        async with grpc.aio.insecure_channel(self._site.addresses["telemetry"]) as channel:
            stub: Any = TelemetryServiceStub(channel)
            try:
                async for answer in stub.StreamSteps(
                    StreamRequest(run_id=run_id), metadata=self._auth, timeout=60
                ):
                    for block in answer.blocks:
                        found.update(np.frombuffer(block.action.data, block.action.dtype).tolist())
            except grpc.RpcError:
                return Counter()
        return found

    def note(self, what: str, **more: object) -> None:
        received = {"at": round(time.time(), 3), "what": what, **more}
        self._history.write(json.dumps(received) + "\n")
        self._history.flush()
