"""Launch checks: whom to ask, and what follows from the answers."""

from __future__ import annotations

import pytest

from runspine.domain.run import decide, fold
from runspine.domain.run.commands import Submit
from runspine.services.orchestrator.core.indexes.fleet import Fleet
from runspine.services.orchestrator.core.launch_verdict import (
    MAX_REPLY_BYTES,
    Answered,
    LaunchAnswer,
    answer_of,
    launch_digest,
    launch_request,
    result_of,
    unanswered,
    verdict,
)
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.preflight_pb2 import (
    PREFLIGHT_READY,
    PREFLIGHT_UNKNOWN,
    Preflight,
    PreflightProblem,
    PreflightReply,
)
from runspine.wire.v1.run_pb2 import Run, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, Limits, Retry, RunSpec, Value

PROBLEM = PreflightProblem(field="spec.algo", message="use ppo")
READY = answer_of("w1", PreflightReply(command=["python", "-m", "x"], directory="/d", notices=["low disk"]))
REFUSED = answer_of("w2", PreflightReply(problems=[PROBLEM]))
BUSY = answer_of("w3", PreflightReply(unknown="busy"))
SILENT = LaunchAnswer("w4", Answered.SILENT)
ABSENT = LaunchAnswer("w5", Answered.ABSENT)


def spec(**fields: object) -> RunSpec:
    return RunSpec(**{"runner": "builtin", "env": "CartPole-v1", "pool": "default", **fields})  # type: ignore[arg-type]


def worker(name: str, **fields: object) -> Worker:
    given = {"online": True, "pools": ["default"], "slots": 1, "runners": [RunnerInfo(name="builtin")]}
    return Worker(id=name, **{**given, **fields})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ([READY], "ready"),
        ([REFUSED, READY], "ready"),
        ([SILENT, READY], "ready"),
        ([REFUSED], "refused"),
        ([REFUSED, ABSENT], "refused"),
        ([REFUSED, SILENT], "unknown"),
        ([REFUSED, BUSY], "unknown"),
        ([BUSY], "unknown"),
        ([ABSENT], "unknown"),
        ([SILENT], "unknown"),
    ],
)
def test_a_launch_is_refused_only_when_every_worker_that_is_there_refuses_it(
    answers: list[LaunchAnswer], result: str
) -> None:
    assert result_of(verdict(answers, 7)) == result


def test_a_verdict_has_the_command_the_fields_or_the_reason() -> None:
    found = verdict([REFUSED, READY], 7)
    assert found.preflight == Preflight(
        state=PREFLIGHT_READY, at=7, worker_id="w1", command=["python", "-m", "x"], directory="/d"
    )
    assert found.notices == ("low disk", "worker w2 would refuse it: spec.algo: use ppo")
    [violation] = verdict([REFUSED], 7).violations
    assert (violation.field, violation.message) == ("spec.algo", "use ppo")
    silent = verdict([REFUSED, SILENT], 7)
    assert silent.preflight.reason == "worker w4 did not answer in time"
    assert silent.notices == ("worker w2 would refuse it: spec.algo: use ppo",)
    assert "older version" in verdict([ABSENT], 7).preflight.reason


def test_a_reply_that_is_too_large_to_keep_is_no_answer() -> None:
    found = answer_of("w1", PreflightReply(command=["x" * MAX_REPLY_BYTES]))
    assert verdict([found], 7).preflight.state == PREFLIGHT_UNKNOWN
    assert not verdict([found], 7).preflight.command


def test_workers_that_may_claim_the_run_are_asked_ready_ones_first() -> None:
    workers = [
        worker("busy"),
        worker("unready", runners=[RunnerInfo(name="builtin", not_ready="no torch")]),
        worker("free"),
        worker("other-pool", pools=["gpu"]),
        worker("offline", online=False),
        worker("other-runner", runners=[RunnerInfo(name="sb3")]),
        worker("small", capacity=Capacity(cpus=1, memory_mib=100)),
    ]
    fleet = Fleet(workers)
    fleet.hold("r", "busy")
    asked = fleet.pool("default").that_could_launch(spec(limits=Limits(memory_mib=500)), 16)
    assert asked == ["free", "busy", "unready"]
    assert fleet.pool("default").that_could_launch(spec(), 2) == ["free", "small"]


def test_with_nobody_to_ask_the_reason_names_pool_or_runner() -> None:
    assert "no worker serves pool 'default'" in unanswered(spec(), Fleet(), 1).preflight.reason
    strangers = Fleet([worker("w", runners=[])])
    assert "has runner 'builtin'" in unanswered(spec(), strangers, 1).preflight.reason


def test_runs_that_differ_for_people_alone_share_an_answer() -> None:
    digest = launch_digest(launch_request(spec(), {}))
    same = spec(name="n", labels={"a": "b"}, notes="x", priority=3, project="p", retry=Retry(max_attempts=3))
    assert launch_digest(launch_request(same, {})) == digest
    for other in (spec(seed=2), spec(env="Pendulum-v1"), spec(secrets=["A"])):
        assert launch_digest(launch_request(other, {})) != digest


def test_an_evaluation_is_checked_against_the_env_of_the_training() -> None:
    trained = Run(id="r", spec=spec(env="FrozenLake-v1", env_kwargs={"map_name": Value(text="8x8")}))
    wanted = spec(mode=EVALUATE, env="Taxi-v3", evaluation=Evaluation(run_id="r"))
    request = launch_request(wanted, {"r": trained})
    assert request.trained_env == "FrozenLake-v1"
    assert request.trained_env_kwargs["map_name"].text == "8x8"
    wanted.env = "FrozenLake-v1"
    assert launch_request(wanted, {"r": trained}).trained_env == ""
    assert launch_request(wanted, {}).trained_env == ""


def test_the_answer_is_kept_with_the_run() -> None:
    preflight = verdict([READY], 7).preflight
    run = fold(decide(Run(), Submit(at=9, run_id="r", name="n", spec=spec(), preflight=preflight)))
    assert run.preflight == preflight
    assert not fold(decide(Run(), Submit(at=9, run_id="r", name="n", spec=spec()))).HasField("preflight")
