"""Why a run waits: each kind of waiting names its true cause."""

from __future__ import annotations

from typing import Any

import pytest

from runspine.domain.run.why import why
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    QUARANTINED,
    QUEUED,
    RUNNING,
    STALE,
    Run,
    Worker,
)
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Limits, RunSpec

NOW = 1_800_000_000_000_000


def run(phase: Any = QUEUED, **more: Any) -> Run:
    return Run(
        **{
            "id": "r",
            "phase": phase,
            "attempt": 1,
            "worker_id": "w1",
            "spec": RunSpec(runner="script"),
            **more,
        }
    )


def worker(**more: Any) -> Worker:
    capacity = Capacity(cpus=4, memory_mib=8000, gpus=["0"])
    known = {"pools": ["default"], "slots": 2, "online": True, "capacity": capacity}
    return Worker(**{"id": "w1", "runners": [RunnerInfo(name="script")], "last_heard": NOW, **known, **more})


@pytest.mark.parametrize(
    ("given", "workers", "ahead", "expected"),
    [
        (run(CANCELLED, reason="Slurm job 7 was cancelled with scancel"), [], 0, "CANCELLED (Slurm job 7"),
        (run(RUNNING), [], 0, "does not wait: worker w1 trains it"),
        (run(STALE, last_heard=NOW), [], 0, "no heartbeat since 08:00:00 UTC"),
        (run(CANCELLING), [], 0, "being cancelled"),
        (run(QUARANTINED), [], 0, "events quarantined"),
        (
            run(attempt=2, not_before=NOW + 60_000_000, reason="exit code 1"),
            [worker()],
            0,
            "begins at 08:01:00",
        ),
        (run(), [worker(pools=["gpu"])], 0, "no worker has ever served pool 'default'"),
        (run(), [worker(online=False)], 0, "every worker of pool 'default' is offline; w1 was the last"),
        (run(spec=RunSpec(runner="script", gpus=2)), [worker()], 0, "asks for 2 GPUs"),
        (run(spec=RunSpec(runner="script", limits=Limits(memory_mib=9000))), [worker()], 0, "has 8,000"),
        (run(spec=RunSpec(runner="sb3")), [worker()], 0, "can run 'sb3'"),
        (run(), [worker(running=["a", "b"])], 3, "all 2 slots of pool 'default' are taken, and 3 runs are"),
        (
            run(reason="waits: needs 2 GPUs, 1 is free (worker w1)"),
            [worker()],
            0,
            "do not take it: needs 2 GPUs",
        ),
        (run(), [worker()], 1, "1 run of pool 'default' is served before it"),
        (run(), [worker()], 0, "about to start"),
    ],
)
def test_each_kind_of_waiting_names_its_cause(
    given: Run, workers: list[Worker], ahead: int, expected: str
) -> None:
    sentence = why(given, workers, ahead, NOW)
    assert expected in sentence
    assert "\n" not in sentence
