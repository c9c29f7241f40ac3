"""Jobs of Slurm as squeue lists them, and why one ended. Pure: no command is run here."""

from __future__ import annotations

import re
from dataclasses import dataclass

from runspine.wire.v1.facts_pb2 import (
    CANCELLED_BY_OPERATOR,
    ENGINE_CAUSE_UNSPECIFIED,
    ENGINE_REQUEUED,
    NODE_FAILED,
    OUT_OF_MEMORY,
    PREEMPTED,
    TIME_LIMIT,
    WORKER_FAILED,
    EngineCause,
    EngineStop,
)

ENGINE = "slurm"
_COLUMNS = (
    "JobID",
    "Name",
    "State",
    "RestartCnt",
    "NodeList",
    "PreemptTime",
    "TimeLeft",
    "TimeLimit",
    "Reason",
)
# What squeue is asked for; ended jobs are listed for a while (MinJobAge).
LISTING = ("--noheader", "--states=all", "--Format", ",".join(f"{name}:|" for name in _COLUMNS))
_NOTHING = ("", "N/A", "None", "(null)", "Unknown")
# Slurm sends a warning up to a minute early.
MAX_EARLY_SECONDS = 90
UNDERWAY = frozenset(
    {"RUNNING", "CONFIGURING", "COMPLETING", "SUSPENDED", "STOPPED", "SIGNALING", "STAGE_OUT", "RESIZING"}
)
WAITING = frozenset({"PENDING", "REQUEUED", "REQUEUE_HOLD", "REQUEUE_FED", "SPECIAL_EXIT", "RESV_DEL_HOLD"})
_CAUSES: dict[str, EngineCause] = {
    "CANCELLED": CANCELLED_BY_OPERATOR,
    "REVOKED": CANCELLED_BY_OPERATOR,
    "TIMEOUT": TIME_LIMIT,
    "DEADLINE": TIME_LIMIT,
    "PREEMPTED": PREEMPTED,
    "NODE_FAIL": NODE_FAILED,
    "BOOT_FAIL": NODE_FAILED,
    "OUT_OF_MEMORY": OUT_OF_MEMORY,
    "FAILED": WORKER_FAILED,
}


@dataclass(frozen=True, slots=True)
class SlurmJob:
    """One line of squeue."""

    id: str
    name: str
    state: str
    # How often Slurm has put it back into its queue.
    restarts: int = 0
    nodes: str = ""
    preempted: bool = False
    # Until its time limit; None when there is none or it is over.
    seconds_left: int | None = None
    limit: str = ""
    # Why it waits, or why it is ending.
    reason: str = ""


def parse_jobs(text: str) -> list[SlurmJob]:
    """The jobs of a listing; lines of another form are skipped."""
    found = []
    for line in text.splitlines():
        words = [word.strip() for word in line.split("|", len(_COLUMNS) - 1)]
        if len(words) < len(_COLUMNS) or not words[3].isdigit():
            continue
        job_id, name, state, restarts, nodes, preempted, left, limit, reason = words
        found.append(
            SlurmJob(
                job_id,
                name,
                state,
                int(restarts),
                "" if nodes in _NOTHING else nodes,
                preempted not in _NOTHING,
                seconds_of(left),
                limit,
                reason.rstrip("|").strip(),
            )
        )
    return found


def seconds_of(text: str) -> int | None:
    """Seconds of a duration such as 1-02:03:04; None for words such as UNLIMITED."""
    found = re.fullmatch(r"(?:(\d+)-)?(?:(\d+):)?(\d+):(\d+)", text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(word or 0) for word in found.groups())
    return ((days * 24 + hours) * 60 + minutes) * 60 + seconds


def why_ending(job: SlurmJob | None, job_id: str, own_restarts: int, warning_seconds: float) -> EngineStop:
    """Why Slurm signals the job that asks, as far as the listing shows."""
    if job is None:
        return engine_stop(ENGINE_CAUSE_UNSPECIFIED, job_id)
    cause = ENGINE_CAUSE_UNSPECIFIED
    if job.preempted:
        cause = PREEMPTED
    elif job.restarts > own_restarts:
        cause = ENGINE_REQUEUED
    elif job.reason in ("TimeLimit", "DeadLine") or (
        job.state == "RUNNING"
        and job.seconds_left is not None
        and job.seconds_left <= warning_seconds + MAX_EARLY_SECONDS
    ):
        cause = TIME_LIMIT
    elif job.state == "COMPLETING":
        cause = CANCELLED_BY_OPERATOR
    elif job.state in _CAUSES:
        cause = _CAUSES[job.state]
    return engine_stop(cause, job_id, job.nodes, job.limit)


def why_ended(job: SlurmJob, node: str, node_is_down: bool) -> EngineStop | None:
    """Why a job that is over, or back in the queue, ended; None when it ended by itself."""
    if job.state in _CAUSES:
        return engine_stop(_CAUSES[job.state], job.id, job.nodes or node, job.limit)
    if job.state not in WAITING or not job.restarts:
        return None
    if job.preempted:
        return engine_stop(PREEMPTED, job.id, node)
    if node_is_down:
        return engine_stop(NODE_FAILED, job.id, node)
    # Without its node it is not certain that its processes have ended.
    return engine_stop(ENGINE_REQUEUED if node else ENGINE_CAUSE_UNSPECIFIED, job.id, node)


def engine_stop(cause: EngineCause, job_id: str, node: str = "", limit: str = "") -> EngineStop:
    """The stop with its sentence."""
    job, on = f"Slurm job {job_id}", f" on {node}" if node else ""
    sentences: dict[EngineCause, str] = {
        ENGINE_CAUSE_UNSPECIFIED: f"{job} is being ended, for a reason that Slurm does not state",
        PREEMPTED: f"{job} was preempted{on}",
        ENGINE_REQUEUED: f"{job} was put back into Slurm's queue by an operator",
        TIME_LIMIT: f"{job} reached its time limit{f' of {limit}' if limit else ''}",
        CANCELLED_BY_OPERATOR: f"{job} was cancelled with scancel",
        NODE_FAILED: f"node {node or '(unknown)'} of {job} failed or was set down",
        OUT_OF_MEMORY: f"{job} used more memory than it had requested{on}",
        WORKER_FAILED: f"the worker in {job} failed{on}; its output is in the pool's directory",
    }
    return EngineStop(engine=ENGINE, placement=job_id, cause=cause, reason=sentences[cause], node=node)
