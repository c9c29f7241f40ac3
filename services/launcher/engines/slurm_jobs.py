"""Launcher on Slurm: a job for each run, through sbatch, squeue, scontrol and scancel as an ordinary user."""

from __future__ import annotations

import asyncio
import os
import subprocess
import time
from dataclasses import replace

import structlog

from runspine.domain.slurm import LISTING, UNDERWAY, WAITING, SlurmJob, parse_jobs, why_ended
from runspine.services.launcher.core.placement import Placement, PlacementState
from runspine.services.launcher.engines.port import EngineAwayError, NotLaunchableError
from runspine.services.launcher.engines.slurm_script import (
    arguments,
    job_name,
    parse_name,
    script,
    worker_id,
)
from runspine.services.launcher.pools import SlurmPool
from runspine.wire.v1.run_pb2 import Run

log = structlog.get_logger()

CALL_SECONDS = 30.0
# Nothing of the launcher's own settings reaches a job: sbatch passes its environment on.
PASSED = ("PATH", "HOME", "USER", "LOGNAME", "LANG", "SLURM_CONF", "TZ")
# What slurmctld reports while it is away; every other refusal is of the job.
_AWAY = ("Unable to contact slurm controller", "Socket timed out", "Connection refused", "Zero Bytes")
_AWAY_CODES = ("slurm_load_jobs error", "Transport endpoint", "slurmctld", "munge")
DOWN_STATES = ("down", "fail", "error", "unk", "power")


class SlurmJobs:
    """Launcher with jobs of Slurm."""

    def __init__(self, pool_name: str, pool: SlurmPool) -> None:
        self._name = pool_name
        self._pool = pool
        self._jobs: dict[str, SlurmJob] = {}
        self._due = 0.0
        # By job: the node on which it was seen last, which Slurm forgets when it requeues a job.
        self._nodes: dict[str, str] = {}
        self._down: set[str] = set()

    async def launch(self, run: Run) -> None:
        """Give the run a job, or the run's job that Slurm has put back into its queue."""
        own = [job for job in self._jobs.values() if self._is_of(job, run.id) and job.restarts]
        if waiting := [job for job in own if self._is_requeued(job)]:
            await self._adopt(waiting[-1], run)
        elif any(job.state == "COMPLETING" and self._label(job)[2] < job.restarts for job in own):
            log.info("job.being_requeued", pool=self._name, run_id=run.id)
        else:
            await self._submit(run)

    async def cancel(self, placement: Placement) -> None:
        await self._call("scancel", "--quiet", placement.name)
        self._jobs.pop(placement.name, None)
        self._due = 0.0

    async def placements(self) -> list[Placement]:
        if time.monotonic() >= self._due:
            await self._list()
        return [self._placement(job) for job in self._jobs.values()]

    async def close(self) -> None:
        """Nothing is held open; jobs stay."""

    async def _submit(self, run: Run) -> None:
        reply = await self._call(
            "sbatch", *arguments(run, self._name, self._pool), given=script(run, self._name, self._pool)
        )
        job_id = reply.strip().partition(";")[0]
        self._jobs[job_id] = SlurmJob(job_id, job_name(self._name, run.id, run.attempt, 0), "PENDING")

    async def _adopt(self, job: SlurmJob, run: Run) -> None:
        """Rename a requeued job for this attempt, and start it without the delay that Slurm adds."""
        name = job_name(self._name, run.id, run.attempt, job.restarts)
        await self._call("scontrol", "update", f"JobId={job.id}", f"JobName={name}", "StartTime=now")
        log.info("job.adopted", pool=self._name, run_id=run.id, attempt=run.attempt, job=job.id)
        self._jobs[job.id] = replace(job, name=name)

    async def _list(self) -> None:
        text = await self._call("squeue", *LISTING, f"--user={os.geteuid()}")
        self._jobs = {job.id: job for job in parse_jobs(text) if parse_name(self._name, job.name)}
        seen = {job.id: job.nodes for job in self._jobs.values() if job.nodes}
        self._nodes = {name: node for name, node in (self._nodes | seen).items() if name in self._jobs}
        requeued = {self._nodes.get(job.id, "") for job in self._jobs.values() if self._is_requeued(job)}
        self._down = await self._which_are_down(requeued - {""})
        self._due = time.monotonic() + self._pool.poll_seconds

    async def _which_are_down(self, nodes: set[str]) -> set[str]:
        if not nodes:
            return set()
        listed = await self._call("sinfo", "--noheader", "-N", "-n", ",".join(sorted(nodes)), "-o", "%N %t")
        pairs = (line.split() for line in listed.splitlines() if len(line.split()) == 2)
        # A star marks a node that does not respond.
        return {node for node, state in pairs if state.startswith(DOWN_STATES) or state.endswith("*")}

    def _placement(self, job: SlurmJob) -> Placement:
        run_id, attempt, restarts = self._label(job)
        node = self._nodes.get(job.id, "")
        state, stop = PlacementState.OVER, None
        if self._is_requeued(job):
            state, stop = PlacementState.REQUEUED, why_ended(job, node, node in self._down)
        elif job.state in WAITING:
            state = PlacementState.WAITING
        elif job.state in UNDERWAY:
            state = PlacementState.RUNNING
        else:
            stop = why_ended(job, node, node in self._down)
        worker = worker_id(run_id, job.id, restarts)
        return Placement(job.id, run_id, attempt, state, job.reason, stop, worker)

    def _label(self, job: SlurmJob) -> tuple[str, int, int]:
        label = parse_name(self._name, job.name)
        assert label is not None, job
        return label

    def _is_of(self, job: SlurmJob, run_id: str) -> bool:
        return self._label(job)[0] == run_id

    def _is_requeued(self, job: SlurmJob) -> bool:
        """Whether Slurm has put it back since it was named for an attempt."""
        return job.state in WAITING and job.restarts > self._label(job)[2]

    async def _call(self, program: str, *arguments: str, given: str = "") -> str:
        return await asyncio.to_thread(_run, program, arguments, given)


def _run(program: str, arguments: tuple[str, ...], given: str) -> str:
    """The output of a command of Slurm. Raises EngineAwayError, NotLaunchableError."""
    environment = {name: os.environ[name] for name in PASSED if name in os.environ}
    try:
        done = subprocess.run(
            [program, *arguments],
            input=given,
            capture_output=True,
            text=True,
            env=environment,
            timeout=CALL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise EngineAwayError(f"{program}: {error}") from error
    if done.returncode == 0:
        return done.stdout
    message = f"{program}: {' '.join(done.stderr.split())[:300] or f'exit code {done.returncode}'}"
    if program == "scancel" and "Invalid job id" in message:
        return ""
    if program == "sbatch" and not any(word in message for word in (*_AWAY, *_AWAY_CODES)):
        raise NotLaunchableError(message)
    raise EngineAwayError(message)
