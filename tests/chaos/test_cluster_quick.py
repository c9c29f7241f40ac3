"""The topology of deploy/k8s/base in its smallest form: a lost leader ends no run and doubles none."""

from __future__ import annotations

import sys
from collections import Counter
from pathlib import Path

import pytest

from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.cluster_stack import cluster_stack

pytestmark = [pytest.mark.chaos, pytest.mark.timeout(180)]

RUNS = 30


def test_thirty_runs_end_once_each_while_a_leader_is_killed(tmp_path: Path) -> None:
    with cluster_stack(tmp_path) as stack:
        for _ in range(2):
            stack.start_worker(slots=4)
        for service in stack.orchestrators:
            service.stub()
        spec = RunSpec(runner="script", command=[sys.executable, "-S", "-c", "print(1)"])
        addresses = ",".join(service.address for service in stack.orchestrators)
        with Client(Endpoint(trainer=addresses, patience=60)) as client:
            ids = [client.submit(spec, f"key-{number}").run.id for number in range(RUNS // 2)]
            stack.cluster.wait_for_leader("RUNS").kill()
            ids += [client.submit(spec, f"key-{number}").run.id for number in range(RUNS // 2, RUNS)]
            stack.until_completed(ids, 120)
            assert len(set(ids)) == RUNS
            for run_id in ids:
                kinds = Counter(
                    fact.WhichOneof("kind")
                    for event in client.watch(run_id, until_end=True)
                    for fact in event.facts
                )
                assert kinds["run_completed"] == kinds["run_started"] == 1, (run_id, kinds)
                assert [attempt.number for attempt in client.get(run_id).attempts] == [1]
        assert stack.crashes() == []
        assert [service.process and service.process.poll() for service in stack.orchestrators] == [None] * 2
        assert [worker.poll() for worker in stack.workers] == [None] * 2
