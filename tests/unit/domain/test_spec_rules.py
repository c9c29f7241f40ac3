from __future__ import annotations

import pytest

from runspine.services.orchestrator.core.capacity import (
    capacity_violations,
    disk_notices,
    unused_gpu_notices,
)
from runspine.services.orchestrator.core.gpu_rules import gpu_notices, gpu_violations
from runspine.services.orchestrator.core.indexes.fleet import Fleet
from runspine.services.orchestrator.core.spec_rules import violations, with_defaults
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.run_pb2 import MachineStatus, Worker
from runspine.wire.v1.runner_pb2 import BOOLEAN, INTEGER, NUMBER, TEXT, AlgoInfo, Param, RunnerInfo
from runspine.wire.v1.spec_pb2 import (
    EVALUATE,
    PLAY,
    TRAIN,
    Capture,
    Dataset,
    Limits,
    Retry,
    RunSpec,
    Value,
    WarmStart,
)

RUN = "01JCZW9T3N5Q8R7V2K4M6P0XYB"
RUNNERS = {
    "script": RunnerInfo(
        name="script", modes=[TRAIN], takes_command=True, open_params=True, warm_starts=True
    ),
    "cuda": RunnerInfo(name="cuda", modes=[TRAIN], takes_command=True, needs_gpu=True),
    "algos": RunnerInfo(
        name="algos",
        modes=[TRAIN],
        envs=["CartPole-v1", "Pendulum-v1"],
        algos=[
            AlgoInfo(
                name="ppo",
                params=[
                    Param(
                        name="learning_rate", type=NUMBER, minimum=0, maximum=1, default=Value(number=3e-4)
                    ),
                    Param(name="num_envs", type=INTEGER, minimum=1, default=Value(integer=4)),
                    Param(name="anneal", type=BOOLEAN),
                    Param(name="device", type=TEXT, choices=["cpu", "cuda"]),
                ],
            ),
            AlgoInfo(name="dqn"),
        ],
    ),
}


def spec(**fields: object) -> RunSpec:
    return RunSpec(**{"runner": "script", "command": ["python"], **fields})  # type: ignore[arg-type]


def ppo(**params: Value) -> RunSpec:
    return RunSpec(runner="algos", algo="ppo", env="CartPole-v1", params=params)


BAD = [
    (spec(runner="scrpt"), "spec.runner", "Did you mean 'script'?"),
    (spec(runner=""), "spec.runner", "is missing: one of algos, cuda, script"),
    (spec(name="a\x1b[31mb"), "spec.name", "control characters"),
    (spec(name="a\u202eb"), "spec.name", "control characters"),
    (spec(name="x" * 201), "spec.name", "201 characters"),
    (spec(priority=101), "spec.priority", "0 (last) to 100 (first)"),
    (spec(pool="a b"), "spec.pool", "letters, digits"),
    (spec(pool="a.b"), "spec.pool", "letters, digits"),
    (spec(command=[]), "spec.command", "is missing"),
    (spec(command=["a\0b"]), "spec.command[0]", "NUL"),
    (spec(workdir="here"), "spec.workdir", "absolute"),
    (spec(labels={"a b": "x"}), "spec.labels", "'a b'"),
    (spec(labels={"a": "x\n"}), "spec.labels.a", "control characters"),
    (spec(variables={"1A": "x"}), "spec.variables", "'1A'"),
    (spec(variables={"WANDB_API_KEY": "x"}), "spec.variables.WANDB_API_KEY", "name it under secrets"),
    (spec(variables={"RUNSPINE_RUN_ID": "x"}), "spec.variables", "set by the worker"),
    (spec(limits=Limits(wall_seconds=-1)), "spec.limits.wall_seconds", "out of range"),
    (spec(limits=Limits(wall_seconds=float("nan"))), "spec.limits.wall_seconds", "out of range"),
    (spec(retry=Retry(max_attempts=1000)), "spec.retry.max_attempts", "1 to 100"),
    (spec(seed=2**63), "spec.seed", "out of range"),
    (spec(gpus=2000), "spec.gpus", "0 to 1024"),
    (spec(limits=Limits(memory_mib=1)), "spec.limits.memory_mib", "16 MiB to 1 PiB"),
    (spec(limits=Limits(memory_mib=2**40)), "spec.limits.memory_mib", "16 MiB to 1 PiB"),
    (spec(limits=Limits(cpus=-1)), "spec.limits.cpus", "0.01 to 4096 cores"),
    (spec(limits=Limits(cpus=float("inf"))), "spec.limits.cpus", "0.01 to 4096 cores"),
    (spec(limits=Limits(processes=2**32 - 1)), "spec.limits.processes", "out of range"),
    (spec(limits=Limits(disk_mib=2**40)), "spec.limits.disk_mib", "1 MiB to 1 PiB"),
    (spec(capture=Capture(observations=9)), "spec.capture.observations", "full, hash, none"),  # type: ignore[arg-type]
    (spec(warm_start=WarmStart(run_id=RUN, given="x" * 300)), "spec.warm_start.given", "by the service"),
    (spec(warm_start=WarmStart(run_id=RUN, digest="abc")), "spec.warm_start.digest", "not a SHA-256"),
    (
        RunSpec(runner="algos", algo="dqn", env="CartPole-v1", warm_start=WarmStart(run_id=RUN)),
        "spec.warm_start",
        "cannot begin with another run's checkpoint",
    ),
    (spec(runner="cuda"), "spec.gpus", "runner cuda needs a GPU"),
    (spec(notes="x" * 30_000), "spec.notes", "30000 characters"),
    (spec(notes="x" * 10_000_000), "spec", "keep data in files"),
    (RunSpec(runner="algos", algo="pppo", env="CartPole-v1"), "spec.algo", "Did you mean 'ppo'?"),
    (RunSpec(runner="algos", algo="ppo", env="cartpole-v1"), "spec.env", "Did you mean 'CartPole-v1'?"),
    (RunSpec(runner="algos", algo="ppo", env="CartPole-v1", command=["x"]), "spec.command", "use params"),
    (ppo(learning_rat=Value(number=1)), "spec.params.learning_rat", "Did you mean 'learning_rate'?"),
    (ppo(learning_rate=Value(number=2)), "spec.params.learning_rate", "at most 1"),
    (ppo(learning_rate=Value(number=float("nan"))), "spec.params.learning_rate", "finite"),
    (ppo(learning_rate=Value(text="high")), "spec.params.learning_rate", "a number is expected"),
    (ppo(num_envs=Value(number=4.5)), "spec.params.num_envs", "an integer is expected"),
    (ppo(num_envs=Value(integer=0)), "spec.params.num_envs", "at least 1"),
    (ppo(anneal=Value(integer=1)), "spec.params.anneal", "a boolean is expected"),
    (ppo(device=Value(text="gpu")), "spec.params.device", "cpu, cuda"),
    (ppo(device=Value()), "spec.params.device", "text is expected"),
]


@pytest.mark.parametrize(
    ("bad", "field", "reports"), BAD, ids=[f"{f}-{n}" for n, (_, f, _s) in enumerate(BAD)]
)
def test_bad_input_names_the_field_and_the_remedy(bad: RunSpec, field: str, reports: str) -> None:
    found = violations(bad, RUNNERS)
    assert [v.field for v in found] == [field]
    assert reports in found[0].message


def test_all_violations_are_reported_at_once() -> None:
    assert len(violations(spec(priority=200, pool="a b", seed=2**63), RUNNERS)) == 3


def test_a_field_this_server_does_not_know_is_refused_not_ignored() -> None:
    newer = RunSpec.FromString(spec().SerializeToString() + b"\xfa\x06\x03abc")
    assert [v.field for v in violations(newer, RUNNERS)] == ["spec"]


def test_a_good_spec_is_accepted_and_filled_in() -> None:
    good = ppo(num_envs=Value(integer=8), learning_rate=Value(integer=1))
    assert violations(good, RUNNERS) == []
    full = with_defaults(good, RUNNERS)
    assert (full.seed, full.priority, full.pool, full.mode) == (1, 50, "default", TRAIN)
    assert full.params["num_envs"].integer == 8
    assert with_defaults(ppo(), RUNNERS).params["learning_rate"].number == 3e-4
    assert violations(full, RUNNERS) == []


def test_a_seed_of_zero_and_a_priority_of_zero_are_kept() -> None:
    full = with_defaults(spec(seed=0, priority=0), RUNNERS)
    assert (full.seed, full.priority) == (0, 0)


def worker(name: str, *, pools: tuple[str, ...] = ("default",), online: bool = True, **has: object) -> Worker:
    capacity = Capacity(**{"cpus": 4, "memory_mib": 8000, **has})  # type: ignore[arg-type]
    return Worker(id=name, pools=pools, online=online, capacity=capacity)


SMALL = worker("small")
WITH_GPU = worker("gpu", memory_mib=4000, gpus=["0"])


@pytest.mark.parametrize(
    ("wanted", "field", "reports"),
    [
        (spec(gpus=2), "spec.gpus", "2 is more than any worker of pool 'default' has: the most any has is 1"),
        (spec(limits=Limits(memory_mib=9000)), "spec.limits.memory_mib", "the most is 8,000 MiB"),
        (spec(limits=Limits(cpus=5)), "spec.limits.cpus", "the most is 4 cores"),
        (spec(gpus=1, limits=Limits(memory_mib=6000)), "spec.limits", "all of this at once"),
    ],
)
def test_a_run_that_no_worker_could_ever_hold_is_refused(wanted: RunSpec, field: str, reports: str) -> None:
    found = capacity_violations(wanted, Fleet([SMALL, WITH_GPU]))
    assert [v.field for v in found] == [field]
    assert reports in found[0].message


def test_a_run_is_not_refused_for_workers_of_other_pools_or_for_want_of_any() -> None:
    wanted = spec(gpus=1)
    assert [v.message for v in capacity_violations(wanted, Fleet([SMALL]))] == [
        "1 is more than any worker of pool 'default' has: none has a GPU"
    ]
    assert capacity_violations(wanted, Fleet([])) == []
    assert capacity_violations(wanted, Fleet([worker("w", online=False), worker("v", pools=("gpu",))])) == []
    assert capacity_violations(wanted, Fleet([SMALL, WITH_GPU])) == []
    assert capacity_violations(wanted, Fleet([SMALL, Worker(id="old", pools=["default"], online=True)])) == []


def with_disk(name: str, free_mib: int | None, pool: str = "default") -> Worker:
    machine = MachineStatus(disk_free=free_mib << 20) if free_mib is not None else None
    return Worker(id=name, online=True, pools=[pool], machine=machine)


@pytest.mark.parametrize(
    ("wanted", "notices"),
    [
        (spec(), []),
        (spec(limits=Limits(disk_mib=2000)), []),
        (spec(dataset=Dataset(name="d", size=1000 << 20)), []),
        (
            spec(limits=Limits(disk_mib=2001)),
            [
                "limits.disk_mib allows 2,001 MiB, and no worker of pool 'default' has that much free now: "
                "the most is 2,000 MiB"
            ],
        ),
        (
            spec(dataset=Dataset(name="d", size=1500 << 20)),
            [
                "dataset d needs 3,000 MiB of disk unless a worker has it already, and no worker of pool "
                "'default' has that much free now: the most is 2,000 MiB"
            ],
        ),
    ],
)
def test_a_run_that_needs_more_disk_than_any_worker_has_free_is_noticed(
    wanted: RunSpec, notices: list[str]
) -> None:
    workers = [with_disk("a", 1000), with_disk("b", 2000), with_disk("c", 90_000, pool="far")]
    assert disk_notices(wanted, Fleet(workers)) == notices
    # One that reports no disk may have enough.
    assert disk_notices(wanted, Fleet([*workers, with_disk("old", None)])) == []
    assert disk_notices(wanted, Fleet([])) == []


def test_a_training_on_the_cpu_next_to_an_idle_gpu_is_noticed() -> None:
    info = RunnerInfo(name="script", uses_gpu=True)
    (notice,) = unused_gpu_notices(spec(limits=Limits(cpus=2)), info, Fleet([SMALL, WITH_GPU]))
    assert notice == (
        "gpus is 0: it trains on the CPU with 2 threads (limits.cpus), and worker gpu has a GPU. "
        "Set gpus: 1 to use it"
    )
    assert unused_gpu_notices(spec(), info, Fleet([SMALL])) == []
    assert unused_gpu_notices(spec(gpus=1), info, Fleet([WITH_GPU])) == []
    assert unused_gpu_notices(spec(params={"cuda": Value(boolean=False)}), info, Fleet([WITH_GPU])) == []
    assert unused_gpu_notices(spec(mode=EVALUATE), info, Fleet([WITH_GPU])) == []
    assert unused_gpu_notices(spec(), RunnerInfo(uses_gpu=True, takes_command=True), Fleet([WITH_GPU])) == []


def test_max_episodes_is_for_trainings() -> None:
    assert [v.field for v in violations(spec(max_episodes=5), RUNNERS)] == []
    (found,) = (v for v in violations(spec(max_episodes=5, mode=PLAY), RUNNERS) if "episodes" in v.field)
    assert (found.field, found.message) == ("spec.max_episodes", "is for trainings: use play.episodes")


def test_every_limit_within_its_range_is_accepted() -> None:
    limits = Limits(memory_mib=1024, cpus=0.5, processes=64, disk_mib=100, wall_seconds=60)
    good = spec(limits=limits, gpus=1, warm_start=WarmStart(run_id=RUN, digest="a" * 64))
    assert violations(good, RUNNERS) == []


GYM = RunnerInfo(name="builtin", modes=[TRAIN], open_envs=True)


def worker_with(*envs: str, online: bool = True, not_ready: str = "") -> Worker:
    info = RunnerInfo(name="builtin", modes=[TRAIN], open_envs=True, envs=envs, not_ready=not_ready)
    return Worker(id=f"w{len(envs)}{not_ready}", online=online, runners=[info])


@pytest.mark.parametrize(
    ("workers", "known"),
    [
        ([], []),
        ([worker_with("CartPole-v1")], ["CartPole-v1"]),
        ([worker_with("CartPole-v1", online=False)], []),
        ([worker_with("CartPole-v1"), worker_with()], []),
        ([worker_with("CartPole-v1"), worker_with(not_ready="no torch")], ["CartPole-v1"]),
        (
            [worker_with("CartPole-v1"), worker_with("Ant-v5", "Pong-v5")],
            ["Ant-v5", "CartPole-v1", "Pong-v5"],
        ),
    ],
)
def test_envs_are_known_only_when_every_ready_worker_reports_them(
    workers: list[Worker], known: list[str]
) -> None:
    assert list(Fleet(workers).catalog.known({"builtin": GYM})["builtin"].envs) == known


@pytest.mark.parametrize(
    ("env", "variables", "what"),
    [
        ("CartPole-v1", {}, ""),
        ("CartPole", {}, "Did you mean 'CartPole-v1'?"),
        ("LunarLander-v2", {}, "Did you mean 'LunarLander-v3'?"),
        ("my_package:Maze-v0", {}, ""),
        ("Maze-v0", {"PYTHONPATH": "/mine"}, ""),
        ("", {}, "is missing: an env such as CartPole-v1"),
    ],
)
def test_an_env_of_gymnasium_is_checked_by_its_id(env: str, variables: dict[str, str], what: str) -> None:
    info = RunnerInfo(name="gym", modes=[TRAIN], open_envs=True, envs=["CartPole-v1", "LunarLander-v3"])
    found_problems = violations(RunSpec(runner="gym", env=env, variables=variables), {"gym": info})
    assert [problem.field for problem in found_problems] == (["spec.env"] if what else [])
    assert not what or what in found_problems[0].message


def test_whether_a_run_may_start_warm_is_up_to_its_algorithm() -> None:
    algos = [AlgoInfo(name="cold", warm_starts=False), AlgoInfo(name="as_runner"), AlgoInfo(name="warm")]
    algos[2].warm_starts = True
    for runner_can in (True, False):
        info = RunnerInfo(name="mixed", modes=[TRAIN], algos=algos, warm_starts=runner_can)
        problems = {
            algo.name: violations(
                RunSpec(runner="mixed", algo=algo.name, warm_start=WarmStart(run_id=RUN)), {"mixed": info}
            )
            for algo in algos
        }
        assert [v.field for v in problems["cold"]] == ["spec.warm_start"]
        assert not problems["warm"]
        assert bool(problems["as_runner"]) != runner_can
    assert "runner mixed cannot begin" in problems["cold"][0].message


def test_cuda_that_is_required_needs_a_gpu_and_cuda_without_one_is_on_cpu() -> None:
    required = ppo(require_cuda=Value(boolean=True))
    [found] = gpu_violations(required)
    assert (found.field, "set gpus to 1" in found.message) == ("spec.params.require_cuda", True)
    required.gpus = 1
    assert list(gpu_violations(required)) == []
    wanted = ppo(cuda=Value(boolean=True))
    assert "trains on CPU" in gpu_notices(wanted)[0]
    wanted.gpus = 1
    assert gpu_notices(wanted) == gpu_notices(ppo(cuda=Value(boolean=False))) == gpu_notices(ppo()) == []
