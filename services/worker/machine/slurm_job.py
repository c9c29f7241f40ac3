"""The Slurm job that this worker runs in: why Slurm ends it, and how much time is left."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Mapping

import structlog

from runspine.domain.slurm import LISTING, parse_jobs, why_ending
from runspine.wire.v1.facts_pb2 import EngineStop

log = structlog.get_logger()

ASK_SECONDS = 8.0
# Between SIGTERM and SIGKILL Slurm leaves KillWait, 30 s unless the site has changed it.
MAX_GRACE_SECONDS = 15.0


class SlurmAllocation:
    """Asks Slurm once why it ends the job."""

    def __init__(self, job_id: str, restarts: int, warning_seconds: float) -> None:
        self._id = job_id
        self._restarts = restarts
        self._warning_seconds = warning_seconds
        # Whether Slurm has sent SIGUSR1: the job then goes on for the warning time.
        self.warned = False
        self._asked: asyncio.Future[EngineStop] | None = None

    @property
    def grace_seconds(self) -> float:
        """How long a trainer may take for its checkpoint; the other half is for uploads."""
        return self._warning_seconds / 2 if self.warned else MAX_GRACE_SECONDS

    def stop(self) -> asyncio.Future[EngineStop]:
        """Why the job is being ended; may be awaited more than once."""
        if self._asked is None:
            self._asked = asyncio.ensure_future(self._ask())
        return self._asked

    async def _ask(self) -> EngineStop:
        command = ["squeue", *LISTING, f"--jobs={self._id}"]
        text = ""
        try:
            text = (await asyncio.to_thread(_output, command)).decode(errors="replace")
        except (OSError, subprocess.SubprocessError) as error:
            log.warning("slurm.away", error=str(error))
        jobs = parse_jobs(text)
        stop = why_ending(jobs[0] if jobs else None, self._id, self._restarts, self._warning_seconds)
        log.info("slurm.ends_job", job=self._id, reason=stop.reason)
        return stop


def find_job(environment: Mapping[str, str], warning_seconds: float) -> SlurmAllocation | None:
    """The job of this process; None outside Slurm."""
    job_id = environment.get("SLURM_JOB_ID", "")
    if not job_id:
        return None
    return SlurmAllocation(job_id, int(environment.get("SLURM_RESTART_COUNT") or 0), warning_seconds)


def _output(command: list[str]) -> bytes:
    done = subprocess.run(command, capture_output=True, timeout=ASK_SECONDS, check=True)
    return done.stdout
