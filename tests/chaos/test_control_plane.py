"""Runs in flight while the orchestrator and nats-server are killed, again and again."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter
from pathlib import Path

import grpc
import pytest

from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, FAILED, Phase
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.client import PatientClient

JOB = """#!/bin/sh
# Leaves a trace of each execution, then ends as its arguments specify.
echo "$RUNSPINE_RUN_ID $RUNSPINE_ATTEMPT $$ begin" >> "$1"
sleep "$2"
echo "line of $RUNSPINE_RUN_ID"
echo "$RUNSPINE_RUN_ID $RUNSPINE_ATTEMPT $$ end" >> "$1"
exit "$3"
"""
ENDED = {COMPLETED, FAILED, CANCELLED}


async def submit_all(client: PatientClient, runs: int, job: Path, ledger: Path) -> dict[str, set[int]]:
    """Submit everything; the ends each run may truly come to, by run id."""
    rng = random.Random(7)
    expected: dict[str, set[int]] = {}
    for number in range(runs):
        code = 3 if number % 5 == 0 else 0
        seconds = f"{rng.uniform(0.05, 0.8):.2f}"
        spec = RunSpec(runner="script", command=["sh", str(job), str(ledger), seconds, str(code)])
        request = wire.SubmitRequest(spec=spec, idempotency_key=f"chaos-{number}")
        run_id = (await client.call("Submit", request)).run.id
        expected[run_id] = {FAILED if code else COMPLETED}
        if number % 10 == 4:
            await cancel(client, run_id)
            expected[run_id].add(CANCELLED)
    return expected


async def cancel(client: PatientClient, run_id: str) -> None:
    """Cancel a run, unless it has ended while the orchestrator was away."""
    try:
        await client.call("Cancel", wire.CancelRequest(run_id=run_id))
    except grpc.aio.AioRpcError as refused:
        if refused.code() is not grpc.StatusCode.FAILED_PRECONDITION:
            raise


async def kill_in_turn(stack: Stack, times: int) -> None:
    for part in ("orchestrator", "nats") * times:
        await asyncio.sleep(2.0)
        pid = stack.kill(part)
        await stack.until_restarted(part, pid)


async def await_ends(client: PatientClient, expected: dict[str, set[int]]) -> dict[str, int]:
    deadline = time.monotonic() + 150
    while True:
        page = await client.call("List", wire.ListRequest(page_size=1000))
        phases = {s.run.id: s.run.phase for s in page.runs}
        if all(phases.get(run_id) in ENDED for run_id in expected):
            return phases
        states = Counter(Phase.Name(phase) for phase in phases.values())
        assert time.monotonic() < deadline, f"not all runs ended: {states}"
        await asyncio.sleep(0.5)


@pytest.mark.chaos
@pytest.mark.timeout(400)
@pytest.mark.parametrize(("runs", "times"), [(50, 1), pytest.param(200, 3, marks=pytest.mark.long)])
async def test_every_run_ends_once_in_its_true_state_whatever_is_killed(
    tmp_path: Path, runs: int, times: int
) -> None:
    job, ledger = tmp_path / "job.sh", tmp_path / "ledger"
    job.write_text(JOB)
    ledger.touch()
    # Trainers write into the ledger, out of their sandboxes.
    shared = {"RUNSPINE_SANDBOX_PATHS": f"{tmp_path}:rw"}
    async with running_stack(tmp_path / "home", workers=2, slots=6, settings=shared) as stack:
        client = PatientClient(stack)
        killing = asyncio.create_task(kill_in_turn(stack, times))
        expected = await submit_all(client, runs, job, ledger)
        await killing
        phases = await await_ends(client, expected)
        runs_log = await client.read_log("RUNS")
    check_nothing_lost(phases, expected)
    check_nothing_twice(ledger, expected)
    check_one_ending_each(runs_log, expected)


def check_nothing_lost(phases: dict[str, int], expected: dict[str, set[int]]) -> None:
    assert set(phases) == set(expected), "a run was lost or invented"
    wrong = {r: Phase.Name(phases[r]) for r, allowed in expected.items() if phases[r] not in allowed}  # type: ignore[arg-type]
    assert wrong == {}


def check_nothing_twice(ledger: Path, expected: dict[str, set[int]]) -> None:
    begun: Counter[str] = Counter()
    for line in ledger.read_text().splitlines():
        run_id, attempt, _, what = line.split()
        if what == "begin":
            begun[f"{run_id} {attempt}"] += 1
            begun[run_id] += 1
    assert max(begun.values(), default=0) == 1, "a run was executed twice"
    must = {run_id for run_id, allowed in expected.items() if CANCELLED not in allowed}
    assert must <= {key for key in begun if " " not in key}, "a run ended without being executed"


def check_one_ending_each(log: list[tuple[str, Commit]], expected: dict[str, set[int]]) -> None:
    endings: Counter[str] = Counter()
    for subject, commit in log:
        for fact in commit.facts:
            if fact.WhichOneof("kind") in ("run_completed", "run_failed", "run_cancelled"):
                endings[subject.partition(".")[2]] += 1
    assert endings == Counter(dict.fromkeys(expected, 1))
