"""Three nats-servers with three replicas and two orchestrators: the topology of deploy/k8s/base."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.cluster_stack import ClusterStack, cluster_stack

pytestmark = [pytest.mark.long, pytest.mark.timeout(600)]

RUNS = 55
PAIRS = 120
# Trains for some seconds and reports each of its steps.
TRAINER = """
import json, time
for step in range(120):
    print(json.dumps({"type": "metric", "name": "loss", "value": step, "step": step}), flush=True)
    time.sleep(0.2)
"""


@pytest.fixture
def stack(tmp_path: Path) -> Iterator[ClusterStack]:
    with cluster_stack(tmp_path) as started:
        yield started
        assert started.crashes() == []
        assert [service.process and service.process.poll() for service in started.orchestrators] == [None] * 2
        assert [worker.poll() for worker in started.workers] == [None] * len(started.workers)


def script(*command: str) -> RunSpec:
    return RunSpec(runner="script", command=command)


def test_without_a_fault_every_run_completes_and_nobody_crashes(stack: ClusterStack) -> None:
    stubs = stack.stubs()
    for _ in range(2):
        stack.start_worker(slots=4)
    ids = [
        stubs[number % 2].Submit(wire.SubmitRequest(spec=script(sys.executable, "-c", "print(1)"))).run.id
        for number in range(RUNS)
    ]
    stack.until_completed(ids)


def test_one_key_submitted_at_both_orchestrators_at_once_is_one_run(stack: ClusterStack) -> None:
    stubs = stack.stubs()

    def submit(side: int, key: str) -> str:
        request = wire.SubmitRequest(spec=script("true"), idempotency_key=key)
        run_id: str = stubs[side].Submit(request).run.id
        return run_id

    with ThreadPoolExecutor(2) as pool:
        for number in range(PAIRS):
            key = f"key-{number}"
            first, second = pool.map(submit, (0, 1), (key, key))
            assert first == second, key
    listed = stubs[0].List(wire.ListRequest(page_size=1000)).runs
    assert len(listed) == PAIRS


@pytest.mark.parametrize("fault", ["killed", "frozen"])
def test_a_leader_lost_in_the_middle_of_training_ends_no_attempt(stack: ClusterStack, fault: str) -> None:
    stub = stack.stubs()[0]
    for _ in range(2):
        stack.start_worker(slots=3)
    ids = [
        stub.Submit(wire.SubmitRequest(spec=script(sys.executable, "-c", TRAINER))).run.id for _ in range(6)
    ]
    deadline = time.monotonic() + 120
    while stack.phases(ids)["RUNNING"] < len(ids):
        assert time.monotonic() < deadline
        time.sleep(0.2)
    leader = stack.cluster.wait_for_leader("ATTEMPTS")
    if fault == "killed":
        leader.kill()
        time.sleep(10)
        leader.start()
    else:
        with leader.frozen():
            time.sleep(10)
    stack.until_completed(ids)
    runs = [stub.Get(wire.GetRequest(run_id=run_id)).run for run_id in ids]
    assert [run.attempt for run in runs] == [1] * len(ids)
