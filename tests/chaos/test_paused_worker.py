"""A worker frozen past its lease: another takes over, and the first one's word no longer counts."""

from __future__ import annotations

import asyncio
import os
import signal
from pathlib import Path

import grpc
import psutil
import pytest

from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import COMPLETED, RUNNING
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import StreamLogsRequest
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.kit.processes import alive
from tests.kit.waiting import until

TRAINER = """
import os, sys, time
for n in range(100):
    print(f"attempt {os.environ['RUNSPINE_ATTEMPT']} line {n}", flush=True)
    time.sleep(0.08)
"""
QUICK = {"RUNSPINE_STALE_AFTER": "2", "RUNSPINE_LOST_AFTER": "4"}


class Caller:
    def __init__(self, stack: Stack) -> None:
        self.auth = [("authorization", f"Bearer {stack.token}")]
        self.trainer = TrainerServiceStub(grpc.insecure_channel(stack.addresses["orchestrator"]))
        self.telemetry = TelemetryServiceStub(grpc.insecure_channel(stack.addresses["telemetry"]))

    def get(self, run_id: str) -> wire.GetResponse:
        answer: wire.GetResponse = self.trainer.Get(wire.GetRequest(run_id=run_id), metadata=self.auth)
        return answer

    def facts(self, stream: str, subject: str) -> list[str]:
        request = wire.ReadLogRequest(stream=stream, subject=subject)
        records = self.trainer.ReadLog(request, metadata=self.auth)
        return [str(f.WhichOneof("kind")) for r in records for f in Commit.FromString(r.commit).facts]

    def lines(self, run_id: str) -> list[tuple[int, str]]:
        answers = self.telemetry.StreamLogs(StreamLogsRequest(run_id=run_id), metadata=self.auth)
        return [(answer.attempt, line.text) for answer in answers for line in answer.lines]


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.timeout(180)
async def test_a_frozen_worker_is_replaced_and_its_late_word_changes_nothing(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(TRAINER)
    async with running_stack(tmp_path / "home", workers=2, slots=1, settings=QUICK) as stack:
        caller = Caller(stack)
        await asyncio.to_thread(_freeze_and_thaw, stack, caller, script)


def _freeze_and_thaw(stack: Stack, caller: Caller, script: Path) -> None:
    spec = RunSpec(runner="script", command=["python", str(script)])
    run_id = caller.trainer.Submit(wire.SubmitRequest(spec=spec), metadata=caller.auth).run.id
    until(lambda: len(caller.lines(run_id)) > 5)
    first = caller.get(run_id).run.worker_id
    frozen = stack.pid(f"worker-{first.rsplit('-', 1)[1]}")
    trainers = psutil.Process(frozen).children(recursive=True)
    os.kill(frozen, signal.SIGSTOP)
    try:
        taken = until(lambda: (run := caller.get(run_id).run).attempt == 2 and run.phase == RUNNING and run)
        assert taken.worker_id != first  # type: ignore[attr-defined]
        until(lambda: any(attempt == 2 for attempt, _ in caller.lines(run_id)))
    finally:
        os.kill(frozen, signal.SIGCONT)
    until(lambda: not alive(trainers), 15)
    until(lambda: caller.get(run_id).run.phase == COMPLETED)
    ended = caller.facts("RUNS", f"runs.{run_id}")
    assert ended.count("run_completed") == 1
    assert ended.count("run_started") == 2
    assert caller.facts("ATTEMPTS", f"attempts.{run_id}").count("attempt_exited") == 1
    received = caller.lines(run_id)
    assert [text for attempt, text in received if attempt == 2] == [f"attempt 2 line {n}" for n in range(100)]
    early = [text for attempt, text in received if attempt == 1 and text.startswith("attempt")]
    assert early == [f"attempt 1 line {n}" for n in range(len(early))]
    assert len(early) < 100
