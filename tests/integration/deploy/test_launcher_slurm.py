"""The Slurm launcher on a real slurmctld with four slurmd: fifty runs, each ended by Slurm or by itself.

RUNSPINE_TEST_SLURM_RUNS sets how many runs (50).
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import re
import sys
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from functools import partial
from pathlib import Path

import pytest
import yaml

from runspine.embedded import Stack, running_stack
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.facts_pb2 import CANCELLED_BY_OPERATOR, NODE_FAILED, TIME_LIMIT
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, FAILED, QUEUED, RUNNING
from runspine.wire.v1.spec_pb2 import Limits, RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.servers.slurm import CPUS, SlurmCluster, missing, running_slurm
from tests.kit.stack import worker_variables
from tests.kit.steps import read_steps
from tests.kit.waiting import eventually

RUNS = int(os.environ.get("RUNSPINE_TEST_SLURM_RUNS", "50"))
TRAINER = ROOT / "tests" / "kit" / "trainers" / "checkpointed.py"
PARTITIONS = {
    "low": "Nodes=n1,n2,n3,n4 Default=YES PriorityTier=1 GraceTime=20 MaxTime=60 DefaultTime=30 State=UP",
    "high": "Nodes=n1,n2,n3,n4 PriorityTier=10 PreemptMode=OFF MaxTime=60 DefaultTime=30 State=UP",
}
# Of the workers' starts on a busy machine; a lease that lapses for silence is another matter.
SETTINGS = {"RUNSPINE_STALE_AFTER": "8", "RUNSPINE_LOST_AFTER": "20"}
pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(3000),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@pytest.fixture
def slurm() -> Iterator[SlurmCluster]:
    with running_slurm(4, PARTITIONS) as cluster:
        yield cluster


class Lab:
    """A stack, a launcher for three pools of the cluster, and the runs that were submitted."""

    def __init__(self, stack: Stack, client: Client, cluster: SlurmCluster, folder: Path) -> None:
        self.stack, self.client, self.slurm, self.folder = stack, client, cluster, folder
        # The one place outside its run directory that a sandboxed trainer may write to.
        (folder / "ledger").mkdir()
        self.ledger = folder / "ledger" / "lives"
        self.ledger.touch()
        self.steps: dict[str, int] = {}

    @contextlib.asynccontextmanager
    async def launching(self) -> AsyncIterator[asyncio.subprocess.Process]:
        received = {**worker_variables(self.stack), "PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT)}
        received["RUNSPINE_SANDBOX_PATHS"] = f"{self.ledger.parent}:rw"
        env_file = self.folder / "worker.env"
        env_file.write_text("".join(f"{name}={value}\n" for name, value in received.items()))
        env_file.chmod(0o600)
        base = {
            "launcher": "slurm", "python": sys.executable, "env_file": str(env_file), "poll_seconds": 1,
            "directory": str(self.folder / "placements"), "memory_mib": 128, "overhead_mib": 64, "cpus": 1,
            "warning_seconds": 20, "partition": "low",
        }  # fmt: skip
        (self.folder / "placements").mkdir(exist_ok=True)
        pools = {
            "low": {**base, "time_limit_minutes": 20},
            "high": {**base, "partition": "high", "time_limit_minutes": 20},
            "brief": {**base, "time_limit_minutes": 1},
        }
        (self.folder / "pools.yaml").write_text(yaml.safe_dump({"pools": pools}))
        environment = {
            **clean_environment(),
            **worker_variables(self.stack),
            **self.slurm.variables,
            "RUNSPINE_NATS_USER": "launcher",
            "RUNSPINE_NATS_PASSWORD": self.stack.credentials.nats["launcher"],
            "RUNSPINE_SIGNING_KEY": self.stack.credentials.signing["launcher"],
            "RUNSPINE_LAUNCHER_POOLS": str(self.folder / "pools.yaml"),
            "PYTHONPATH": str(ROOT),
        }
        with (self.folder / "launcher.log").open("ab") as log:
            process = await asyncio.create_subprocess_exec(
                sys.executable, "-m", "runspine.services.launcher", env=environment, stdout=log, stderr=log
            )
        try:
            yield process
        finally:
            if process.returncode is None:
                process.terminate()
            await process.wait()

    async def submit(self, pool: str, steps: int, pause: float = 0.1, every: int = 20) -> str:
        numbers = [str(steps), str(pause), str(every)]
        spec = RunSpec(
            runner="script", command=["python", str(TRAINER), str(self.ledger), *numbers], env="Toy-v0",
            algo="none", pool=pool, limits=Limits(cpus=1), seed=len(self.steps),
        )  # fmt: skip
        run = (await asyncio.to_thread(self.client.submit, spec)).run.id
        self.steps[run] = steps
        return run

    async def get(self, run: str) -> GetResponse:
        return await asyncio.to_thread(self.client.get, run)

    async def phase(self, run: str) -> int:
        return (await self.get(run)).run.phase

    def training(self, pool: str) -> dict[str, tuple[str, str]]:
        """Jobs in which a trainer has begun, by run: job and node."""
        listed = self.slurm.run("squeue", "-h", "-t", "running", "-O", "JobID:|,Name:|,NodeList:|")
        found = {}
        begun = {tuple(line.split()[:2]) for line in self.ledger.read_text().splitlines()}
        for line in listed.splitlines():
            job, name, node = (word.strip() for word in line.split("|")[:3])
            if name.startswith(f"runspine-{pool}-"):
                run, attempt, _ = name.rsplit("-", 3)[1:]
                if (run, attempt) in begun:
                    found[run] = (job, node)
        return found

    async def until_training(self, pool: str, count: int, left_out: set[str]) -> dict[str, tuple[str, str]]:
        def probe() -> dict[str, tuple[str, str]]:
            found = {run: at for run, at in self.training(pool).items() if run not in left_out}
            failed = [run for run in self.steps if self.client.get(run).run.phase == FAILED]
            assert not failed, self.client.get(failed[0])
            return found if len(found) >= count else {}

        return await eventually(probe, 600, f"{count} runs of {pool} train", poll=0.5)

    async def until_ended(self, runs: set[str], seconds: float = 1500) -> dict[str, GetResponse]:
        deadline = time.monotonic() + seconds
        found: dict[str, GetResponse] = {}
        while len(found) < len(runs):
            assert time.monotonic() < deadline, f"{len(runs) - len(found)} have not ended"
            for run in runs - found.keys():
                got = await self.get(run)
                if got.run.phase in (COMPLETED, FAILED, CANCELLED):
                    found[run] = got
            await asyncio.sleep(1)
        return found

    async def check_steps(self, run: str, got: GetResponse) -> None:
        """Every step once: those of an attempt count up to where the next one resumed."""
        bounds = [attempt.resumed_from.step for attempt in got.attempts[1:]] + [self.steps[run]]
        began = {attempt.number: attempt.resumed_from.step for attempt in got.attempts}
        ends = {attempt.number: bound for attempt, bound in zip(got.attempts, bounds, strict=True)}
        effective = [
            int(str(step.action))
            for step in await read_steps(self.stack, run)
            if began[step.attempt] <= int(str(step.action)) < ends[step.attempt]
        ]
        assert sorted(effective) == list(range(self.steps[run])), (run, bounds, len(effective))

    def overlaps(self) -> list[str]:
        """Runs of which two processes lived at the same time."""
        lives: dict[tuple[str, str], list[float]] = {}
        for line in self.ledger.read_text().splitlines():
            run, attempt, at, _ = line.split()
            lives.setdefault((run, attempt), []).append(float(at))
        found = []
        for (run, attempt), times in lives.items():
            for (other, later), others in lives.items():
                if run == other and int(later) > int(attempt) and min(others) < max(times):
                    found.append(f"{run}: attempt {later} began before attempt {attempt} ended")
        return found


@contextlib.asynccontextmanager
async def lab(folder: Path, slurm: SlurmCluster) -> AsyncIterator[Lab]:
    parts = {"nats", "s3", "orchestrator", "artifacts"}
    async with running_stack(folder / "home", only=parts, settings=SETTINGS) as stack:
        with Client(find_endpoint({"RUNSPINE_HOME": str(folder / "home")})) as client:
            yield Lab(stack, client, slurm, folder)


async def test_fifty_runs_end_once_and_true_though_slurm_ends_their_jobs_in_every_way(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    async with lab(tmp_path, slurm) as runs:
        few = max(1, RUNS // 5)
        low = [await runs.submit("low", 250 + 3 * n) for n in range(RUNS - few - 4)]
        slow = [await runs.submit("brief", 700, 0.1) for _ in range(2)]
        # It keeps no checkpoint: another attempt would come as far.
        stuck = await runs.submit("brief", 5000, 0.1, every=0)
        async with runs.launching() as launcher:
            cancelled, disturbed, lost = await _disturb(runs, launcher, low)
        async with runs.launching():
            waiting = await runs.submit("low", 10)
            high = [await runs.submit("high", 150) for _ in range(few)]
            found = await runs.until_ended({*low, *slow, stuck, waiting, *high})
            await eventually(lambda: not runs.training("low"), 120)
        await _check(runs, found, cancelled, {stuck})
        _report(found)
        for run in disturbed | lost:
            assert len(found[run].attempts) > 1, found[run]
        _check_reasons(found, cancelled, disturbed, lost, slow, stuck)
        preempted = [run for run in low if any("preempted" in text for text in _reasons(found[run]))]
        assert preempted, "nothing was preempted"
        # What a Slurm job left was continued, from a checkpoint wherever there was one.
        assert all(each.attempts[-1].resumed_from.step > 0 for run, each in found.items() if run in slow)


async def _disturb(
    runs: Lab, launcher: asyncio.subprocess.Process, low: list[str]
) -> tuple[set[str], set[str], set[str]]:
    """Cancel, requeue and lose jobs during training; the runs that were cancelled, requeued and lost."""
    first = await runs.until_training("low", min(8, len(low) // 2), set())
    cancelled = set(list(first)[:2])
    for run in cancelled:
        await asyncio.to_thread(runs.slurm.run, "scancel", first[run][0])
    pending = await asyncio.to_thread(_waiting_job, runs)
    if pending:
        run, job = pending
        await asyncio.to_thread(runs.slurm.run, "scancel", job)
        cancelled.add(run)
    disturbed = set(list(first)[2:4])
    for run in disturbed:
        await asyncio.to_thread(runs.slurm.run, "scontrol", "requeue", first[run][0])
    nodes = Counter(node for run, (_, node) in first.items() if run not in cancelled | disturbed)
    node = runs.slurm.nodes[nodes.most_common(1)[0][0]]
    await asyncio.to_thread(runs.slurm.lose, node)
    begun = {run for run, (_, place) in first.items() if place == node.name}
    lost = {run for run in begun - cancelled - disturbed if await runs.phase(run) not in (COMPLETED, QUEUED)}
    for run in cancelled:
        await eventually(partial(_is, runs, run, CANCELLED), 120, f"{run} is cancelled")
    for run in lost:
        await eventually(partial(_has_attempts, runs, run, 2), 300, f"{run} was queued again")
    await asyncio.to_thread(runs.slurm.bring_back, node)
    launcher.kill()
    return cancelled, disturbed, lost


def _waiting_job(runs: Lab) -> tuple[str, str] | None:
    listed = runs.slurm.run("squeue", "-h", "-t", "pending", "-O", "JobID:|,Name:|,RestartCnt:|")
    for line in listed.splitlines():
        job, name, restarts = (word.strip() for word in line.split("|")[:3])
        if name.startswith("runspine-low-") and restarts == "0":
            return name.rsplit("-", 3)[1], job
    return None


def _is(runs: Lab, run: str, phase: int) -> bool:
    return runs.client.get(run).run.phase == phase


def _has_attempts(runs: Lab, run: str, count: int) -> bool:
    return runs.client.get(run).run.attempt >= count


def _reasons(got: GetResponse) -> list[str]:
    return [attempt.exited.reason for attempt in got.attempts if attempt.exited.HasField("engine_stop")]


async def _check(runs: Lab, found: dict[str, GetResponse], cancelled: set[str], failed: set[str]) -> None:
    assert not runs.overlaps()
    for run, got in found.items():
        expected = CANCELLED if run in cancelled else FAILED if run in failed else COMPLETED
        assert got.run.phase == expected, got
        assert [each.number for each in got.attempts] == list(range(1, len(got.attempts) + 1)), got
        if got.run.phase == COMPLETED:
            await runs.check_steps(run, got)


def _check_reasons(
    found: dict[str, GetResponse],
    cancelled: set[str],
    disturbed: set[str],
    lost: set[str],
    slow: list[str],
    stuck: str,
) -> None:
    for run in cancelled:
        assert "scancel" in found[run].run.reason, found[run].run
        causes = [each.exited.engine_stop.cause for each in found[run].attempts]
        assert causes[-1:] in ([], [CANCELLED_BY_OPERATOR]), found[run]
    for run in disturbed:
        assert any("queue by an operator" in text for text in _reasons(found[run])), found[run]
    for run in [*slow, stuck]:
        causes = [each.exited.engine_stop.cause for each in found[run].attempts]
        assert TIME_LIMIT in causes, found[run]
    assert "no checkpoint" in found[stuck].run.reason
    assert NODE_FAILED not in {each.exited.engine_stop.cause for run in lost for each in found[run].attempts}


def _report(found: dict[str, GetResponse]) -> None:
    counted: Counter[str] = Counter()
    for got in found.values():
        for attempt in got.attempts:
            ended = attempt.exited.reason or "by the engine, with its node"
            counted[re.sub(r"Slurm job \d+ | on n\d", "", ended)] += 1
    attempts = sum(len(got.attempts) for got in found.values())
    print(f"{len(found)} runs, {attempts} attempts, {CPUS} cores a node", dict(counted))


async def test_a_job_of_a_node_that_failed_leaves_its_reason_on_the_log(
    tmp_path: Path, slurm: SlurmCluster
) -> None:
    async with lab(tmp_path, slurm) as runs, runs.launching():
        run = await runs.submit("low", 400)
        _, node = (await runs.until_training("low", 1, set()))[run]
        await asyncio.to_thread(runs.slurm.lose, runs.slurm.nodes[node])
        await eventually(lambda: _has_attempts(runs, run, 2), 200)
        requeued = (await runs.get(run)).run
        assert f"node {node} of Slurm job" in requeued.reason, requeued
        assert requeued.phase in (QUEUED, RUNNING)
        found = await runs.until_ended({run})
        await runs.check_steps(run, found[run])
