"""Limits, room and GPUs: real processes that take too much, and runs that must wait."""

from __future__ import annotations

import asyncio
import json
import re
import signal
import sys
from pathlib import Path

import grpc
import pytest

from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    LIMIT,
    NOT_STARTED,
    AttemptExited,
    Fact,
    RunQueued,
    RunSubmitted,
)
from runspine.wire.v1.run_pb2 import QUEUED, Beat
from runspine.wire.v1.spec_pb2 import FULL, Capture, Limits, RunSpec, Value
from runspine.wire.v1.telemetry_pb2 import WORKER
from runspine.wire.v1.trainer_pb2 import GetRequest, ListRequest, SubmitRequest, ValidateRequest
from tests.kit.orchestrator import orchestrator
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

UNTIL_RECEIVED = "import os, time\nwhile not os.path.exists({go!r}): time.sleep(0.02)\n"


async def beat_of(rig: Rig, name: str = "w1") -> Beat:
    body = json.dumps({"last_by_subj": f"beats.{name}"}).encode()
    return Beat.FromString((await rig.link.request("$JS.API.DIRECT.GET.BEATS", body)).data)


async def waits(rig: Rig, run_id: str, name: str = "w1") -> str:
    """What a run waits for, as a worker reports it."""

    async def probe() -> str | None:
        return next(
            (each.reason for each in (await beat_of(rig, name)).waiting if each.run_id == run_id), None
        )

    return await eventually(probe)


async def emitted(rig: Rig, run_id: str, beginning: str) -> str:
    async def probe() -> str | None:
        return next((text for text in await rig.texts(run_id) if text.startswith(beginning)), None)

    return await eventually(probe)


ONE_HOARDER = "held = []\nimport time\nwhile True:\n    held.append(b'x' * (8 << 20)); time.sleep(0.02)"
# No one of them is above the limit; all together are.
MANY_HOARDERS = """
import os, time
for _ in range(4):
    if os.fork() == 0:
        held = b'x' * (60 << 20)
        time.sleep(600)
time.sleep(600)
"""


@pytest.mark.parametrize("script", [ONE_HOARDER, MANY_HOARDERS], ids=["one", "many"])
async def test_a_run_over_its_memory_limit_ends_with_the_figures(rig: Rig, script: str) -> None:
    rig.worker()
    run_id = await rig.python(script, limits=Limits(memory_mib=150))
    exited = await rig.exited(run_id)
    assert exited.outcome == LIMIT
    found = re.match(
        r"used ([\d,]+) MiB of memory, more than limits.memory_mib: 150\W.*Raise it", exited.reason
    )
    assert found, exited.reason
    assert 150 <= int(found[1].replace(",", "")) < 1000
    ours = [line.text for line in await rig.lines(run_id) if line.source == WORKER]
    assert ours[0].startswith("limits: memory 150 MiB (")
    assert ours[-1] == exited.reason


async def test_memory_that_processes_share_counts_once(rig: Rig) -> None:
    rig.worker()
    script = """
import os, time
held = b'x' * (60 << 20)
children = []
for _ in range(4):
    if (pid := os.fork()) == 0:
        time.sleep(2)
        os._exit(0)
for _ in range(4): os.wait()
"""
    run_id = await rig.python(script, limits=Limits(memory_mib=200))
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.reason) == (EXITED, "exit code 0")


async def test_a_run_over_its_disk_limit_ends_with_the_figures(rig: Rig) -> None:
    rig.worker()
    script = (
        "import time\nfor n in range(1000): open(f'f{n}', 'wb').write(b'x' * (1 << 20)); time.sleep(0.02)"
    )
    run_id = await rig.python(script, limits=Limits(disk_mib=10))
    exited = await rig.exited(run_id)
    assert exited.outcome == LIMIT
    assert re.match(
        r"wrote \d+ MiB into its directory, more than limits.disk_mib: 10\. Raise it", exited.reason
    )


async def test_a_file_without_end_is_cut_off_by_the_kernel(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.submit(
        "dd", "if=/dev/zero", "of=big", "bs=1M", "count=1", "seek=200", limits=Limits(disk_mib=10)
    )
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.signal) == (LIMIT, signal.SIGXFSZ)
    assert "limits.disk_mib: 10" in exited.reason


@pytest.mark.parametrize(
    "script",
    [
        "import subprocess, time\np = [subprocess.Popen(['sleep', '99']) for _ in range(12)]\ntime.sleep(99)",
        "import threading, time\nfor _ in range(12): threading.Thread(target=time.sleep, args=(99,)).start()",
    ],
    ids=["processes", "threads"],
)
async def test_a_run_over_its_process_limit_ends_with_the_figures(rig: Rig, script: str) -> None:
    rig.worker()
    run_id = await rig.python(script, limits=Limits(processes=8))
    exited = await rig.exited(run_id)
    assert exited.outcome == LIMIT
    assert re.search(r"processes and threads, more than limits.processes: 8\. Raise it", exited.reason)


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        ("raise SystemExit(3)", "exit code 3, with nothing on stderr: see its log"),
        (
            "import os, signal; os.kill(os.getpid(), signal.SIGSEGV)",
            "killed by SIGSEGV: a crash in native code",
        ),
        (
            "import no_such_package",
            "exit code 1: ModuleNotFoundError: No module named 'no_such_package'. Install it",
        ),
    ],
)
async def test_an_end_within_all_limits_keeps_its_own_reason(rig: Rig, script: str, reason: str) -> None:
    rig.worker()
    limits = Limits(memory_mib=500, disk_mib=100, processes=50, wall_seconds=60, cpus=1)
    exited = await rig.exited(await rig.python(script, limits=limits))
    assert exited.outcome == EXITED
    assert exited.reason.startswith(reason)


async def test_a_trainer_is_confined_and_has_as_many_threads_as_cores(rig: Rig) -> None:
    rig.worker()
    script = """
import json, os, resource
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps([resource.getrlimit(resource.RLIMIT_CORE), status["NoNewPrivs"].strip()]))
names = "OMP_NUM_THREADS MKL_NUM_THREADS OPENBLAS_NUM_THREADS".split()
print(*(os.environ[name] for name in names))
env = os.environ
print(repr(env["CUDA_VISIBLE_DEVICES"]), env.get("RUNSPINE_CAPTURE"), env["RUNSPINE_ENV_KWARGS"])
"""
    plain = await rig.python(script)
    two = await rig.python(
        script,
        limits=Limits(cpus=2),
        variables={"MKL_NUM_THREADS": "7"},
        env_kwargs={"size": Value(integer=4)},
        capture=Capture(observations=FULL),
    )
    for run_id in (plain, two):
        await rig.exited(run_id)
    assert await rig.texts(plain) == ['[[0, 0], "1"]', "1 1 1", "'' None {}"]
    assert (await rig.texts(two))[-3:] == ['[[0, 0], "1"]', "2 7 2", "'' full {\"size\": 4}"]


async def test_each_gpu_goes_to_one_run_at_a_time_and_none_to_the_others(rig: Rig) -> None:
    rig.worker(slots=4, RUNSPINE_WORKER_GPUS="2")
    assert list((await rig.online()).worker_online.capacity.gpus) == ["0", "1"]
    script = "import os; print('has', os.environ['CUDA_VISIBLE_DEVICES'], flush=True)\n"
    go = str(rig.folder / "go")
    holding = script + UNTIL_RECEIVED.format(go=go)
    first, second = [await rig.python(holding, gpus=1) for _ in range(2)]
    assert {await emitted(rig, first, "has"), await emitted(rig, second, "has")} == {"has 0", "has 1"}
    third = await rig.python(script, gpus=2)
    assert await waits(rig, third) == "needs 2 GPUs, 0 of 2 free"
    without = await rig.python(script)
    await rig.exited(without)
    assert await rig.texts(without) == ["has "]
    assert await rig.attempts(third) == []
    Path(go).touch()
    await rig.exited(third)
    assert await rig.texts(third) == ["has 0,1"]


async def test_a_run_that_needs_a_gpu_where_none_is_stays_queued_with_the_reason(rig: Rig) -> None:
    rig.worker(CUDA_VISIBLE_DEVICES="")
    run_id = await rig.python("print('never')", gpus=1)
    assert await waits(rig, run_id) == "needs 1 GPU, this worker has none"
    assert await rig.attempts(run_id) == []


async def test_memory_and_cores_are_given_away_once(rig: Rig) -> None:
    rig.worker(slots=3)
    capacity = (await rig.online()).worker_online.capacity
    assert capacity.cpus >= 1
    most = int(capacity.memory_mib * 0.6)
    go = str(rig.folder / "go")
    first = await rig.python(UNTIL_RECEIVED.format(go=go), limits=Limits(memory_mib=most))
    await rig.started(first)
    second = await rig.python("print('now')", limits=Limits(memory_mib=most))
    free = capacity.memory_mib - most
    assert await waits(rig, second) == (
        f"needs {most:,} MiB of memory, {free:,} of {capacity.memory_mib:,} free"
    )
    never = await rig.python("print('never')", limits=Limits(cpus=capacity.cpus + 1))
    assert await waits(rig, never) == (
        f"needs {capacity.cpus + 1:g} cores, this worker has {capacity.cpus:g}"
    )
    Path(go).touch()
    assert (await rig.exited(second)).exit_code == 0
    assert await rig.attempts(never) == []


async def test_small_runs_do_not_keep_a_large_one_waiting_for_ever(rig: Rig) -> None:
    rig.worker(slots=3, RUNSPINE_WORKER_GPUS="2", RUNSPINE_RESERVE_AFTER="1")
    go = str(rig.folder / "go")
    first = await rig.python(UNTIL_RECEIVED.format(go=go), gpus=1)
    await rig.started(first)
    large = await rig.python("print('now')", gpus=2)
    assert await waits(rig, large) == "needs 2 GPUs, 1 of 2 free"
    await asyncio.sleep(1.5)
    small = await rig.python("print('later')", gpus=1)
    assert (await waits(rig, small)).startswith(f"room is kept for run {large}, which has waited ")
    other = await rig.python("print('wants no GPU')")
    assert (await rig.exited(other)).exit_code == 0
    Path(go).touch()
    assert (await rig.exited(large)).exit_code == 0
    assert (await rig.exited(small)).exit_code == 0
    started = [(await rig.started(run_id)).at for run_id in (large, small)]
    assert started[0] < started[1]


async def test_each_runner_may_have_a_python_of_its_own(rig: Rig) -> None:
    other = rig.folder / "python-of-scripts"
    other.symlink_to(sys.executable)
    rig.worker(RUNSPINE_RUNNER_PYTHON=json.dumps({"script": str(other)}))
    run_id = await rig.python("print('ran')")
    assert (await rig.exited(run_id)).exit_code == 0
    assert (await rig.started(run_id)).attempt_started.command[0] == str(other)


async def test_a_python_that_does_not_exist_is_reported_before_and_at_the_launch(rig: Rig) -> None:
    rig.worker(RUNSPINE_RUNNER_PYTHON_SCRIPT="/no/such/python")
    infos = {info.name: info for info in (await rig.online()).worker_online.runners}
    assert "RUNSPINE_RUNNER_PYTHON_SCRIPT names /no/such/python" in infos["script"].not_ready
    exited = await rig.exited(await rig.python("print('never')"))
    assert exited.outcome == NOT_STARTED
    assert "RUNSPINE_RUNNER_PYTHON_SCRIPT names /no/such/python" in exited.reason


def field_of(error: grpc.RpcError) -> str:
    assert error.code() == grpc.StatusCode.INVALID_ARGUMENT
    return str(error.details())


async def test_the_orchestrator_refuses_what_can_never_fit_and_shows_what_waits(
    rig: Rig, nats_server: NatsServer, tmp_path: Path
) -> None:
    with orchestrator(nats_server, tmp_path) as service:
        stub = await asyncio.to_thread(service.stub)
        rig.worker(slots=3, RUNSPINE_WORKER_GPUS="1")
        await rig.online()
        go = str(rig.folder / "go")

        async def submit(script: str, gpus: int) -> str:
            spec = RunSpec(runner="script", command=["python", "-c", script], gpus=gpus)
            answer = await asyncio.to_thread(stub.Submit, SubmitRequest(spec=spec))
            return str(answer.run.id)

        async def refused() -> str | None:
            try:
                run_id = await submit("pass", 2)
            except grpc.RpcError as error:
                return field_of(error)
            await rig.cancel(run_id)
            return None

        assert "spec.gpus" in await eventually(refused)
        first = await submit(UNTIL_RECEIVED.format(go=go), 1)
        await rig.started(first)
        second = await submit("print('now')", 1)

        async def reason() -> str | None:
            run = (await asyncio.to_thread(stub.Get, GetRequest(run_id=second))).run
            return run.reason if run.phase == QUEUED else None

        assert await eventually(reason) == "waits: needs 1 GPU, 0 of 1 free (worker w1)"
        listed = (await asyncio.to_thread(stub.List, ListRequest(phases=[QUEUED]))).runs
        assert [each.run.reason for each in listed] == ["waits: needs 1 GPU, 0 of 1 free (worker w1)"]
        Path(go).touch()
        assert (await rig.exited(second)).exit_code == 0


async def test_an_env_that_no_worker_knows_is_refused_when_it_is_submitted(
    rig: Rig, nats_server: NatsServer, tmp_path: Path
) -> None:
    with orchestrator(nats_server, tmp_path) as service:
        stub = await asyncio.to_thread(service.stub)
        # A cache of its own: the envs are found out while the worker is at work already.
        rig.worker(XDG_CACHE_HOME=str(tmp_path / "cache"))
        await rig.online()

        async def refused(env: str, runner: str = "builtin") -> str | None:
            spec = RunSpec(runner=runner, algo="ppo", env=env, total_steps=512)
            try:
                await asyncio.to_thread(stub.Validate, ValidateRequest(spec=spec))
            except grpc.RpcError as error:
                return field_of(error)
            return None

        emitted = await eventually(lambda: refused("CartPole"), 60)
        assert "spec.env" in emitted
        assert "Did you mean 'CartPole-v1'?" in emitted
        assert "Did you mean 'Pendulum-v1'?" in (await refused("Pendulun-v1", "sb3") or "")
        assert await refused("CartPole-v1") is None
        # Whether a package has it is known to the worker that tries the launch.
        # A busy worker answers too late, and then nothing is refused.
        assert "No module named 'some_package'" in await eventually(
            lambda: refused("some_package:Maze-v0"), 60
        )
        onlines = [f for f in await rig.received("workers.w1") if f.HasField("worker_online")]
        assert len(onlines) == 2
        again = rig.worker("w2", XDG_CACHE_HOME=str(tmp_path / "cache"))
        first = (await rig.online("w2")).worker_online
        assert "CartPole-v1" in next(info.envs for info in first.runners if info.name == "builtin")
        again.term()


async def test_what_a_built_in_run_lacks_ends_it_with_what_to_do(rig: Rig, tmp_path: Path) -> None:
    """The worker looks again: a spec may be older than its worker, or name what only a launch can find."""
    bare = tmp_path / "bare" / "bin" / "python"
    bare.parent.mkdir(parents=True)
    bare.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')
    bare.chmod(0o755)
    rig.worker(RUNSPINE_RUNNER_PYTHON=json.dumps({"sb3": str(bare)}))

    async def end(env: str = "CartPole-v1", runner: str = "builtin", **params: Value) -> AttemptExited:
        run_id = new_ulid()
        spec = RunSpec(runner=runner, algo="ppo", env=env, total_steps=512, params=params)
        submitted = RunSubmitted(run_id=run_id, name="test", spec=spec)
        await rig.decide(run_id, Fact(run_submitted=submitted), Fact(run_queued=RunQueued(attempt=1)))
        await rig.offer(run_id, 1)
        return await rig.exited(run_id, seconds=60)

    unknown = await end(env="CartPool-v1")
    assert unknown.outcome == NOT_STARTED
    assert "is not one that Gymnasium knows here. Did you mean 'CartPole-v1'?" in unknown.reason
    cuda = await end(require_cuda=Value(boolean=True))
    assert cuda.exit_code == 1
    assert "no CUDA device is available" in cuda.reason
    assert "use a worker with a GPU" in cuda.reason
    missing = await end(runner="sb3")
    assert missing.outcome == NOT_STARTED
    assert "pip install 'runspine[sb3]'" in missing.reason
