"""Launch checks: whom to ask, and what follows from the answers. Pure."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum

from runspine.errors import Violation
from runspine.services.orchestrator.core.indexes.fleet import Fleet
from runspine.wire.v1.preflight_pb2 import (
    PREFLIGHT_READY,
    PREFLIGHT_UNKNOWN,
    Preflight,
    PreflightReply,
    PreflightRequest,
)
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec

# Fields that change nothing about a launch: runs that differ in these share an answer.
_FOR_PEOPLE = ("name", "labels", "notes", "priority", "project", "retry")
# A reply is kept with the run for ever.
MAX_REPLY_BYTES = 128 << 10


class Answered(Enum):
    """How a worker answered a launch check."""

    READY = "ready"
    PROBLEMS = "problems"
    # It could not answer now.
    UNKNOWN = "unknown"
    # It is not connected, or of a version without launch checks.
    ABSENT = "absent"
    # Nothing arrived in time.
    SILENT = "silent"


@dataclass(frozen=True, slots=True)
class LaunchAnswer:
    """What one worker answered, or that it did not."""

    worker_id: str
    kind: Answered
    reply: PreflightReply = field(default_factory=PreflightReply)


@dataclass(frozen=True, slots=True)
class LaunchVerdict:
    """What is known about a launch: `violations` when it would be refused."""

    preflight: Preflight
    violations: tuple[Violation, ...] = ()
    notices: tuple[str, ...] = ()


def result_of(found: LaunchVerdict) -> str:
    """One word for a verdict."""
    if found.violations:
        return "refused"
    return "ready" if found.preflight.state == PREFLIGHT_READY else "unknown"


def answer_of(worker_id: str, reply: PreflightReply) -> LaunchAnswer:
    """The answer in a worker's reply."""
    if reply.unknown or reply.ByteSize() > MAX_REPLY_BYTES:
        return LaunchAnswer(worker_id, Answered.UNKNOWN, reply)
    return LaunchAnswer(worker_id, Answered.PROBLEMS if reply.problems else Answered.READY, reply)


def launch_request(spec: RunSpec, runs: Mapping[str, Run]) -> PreflightRequest:
    """The request for a spec with all its defaults; for an evaluation, with the env of the training."""
    request = PreflightRequest(spec=spec)
    trained = runs.get(spec.evaluation.run_id) if spec.mode == EVALUATE else None
    if trained is not None and trained.spec.env and trained.spec.env != spec.env:
        request.trained_env = trained.spec.env
        for name, value in trained.spec.env_kwargs.items():
            request.trained_env_kwargs[name].CopyFrom(value)
    return request


def launch_digest(request: PreflightRequest) -> bytes:
    """Digest of what decides on a launch."""
    relevant = PreflightRequest()
    relevant.CopyFrom(request)
    for name in _FOR_PEOPLE:
        relevant.spec.ClearField(name)
    return hashlib.sha256(relevant.SerializeToString(deterministic=True)).digest()


def unanswered(spec: RunSpec, fleet: Fleet, now: int) -> LaunchVerdict:
    """The verdict when there is nobody to ask."""
    if not fleet.pool(spec.pool).online:
        return unknown(f"no worker serves pool {spec.pool!r} now", now)
    return unknown(f"no worker of pool {spec.pool!r} has runner {spec.runner!r} and room for the run", now)


def unknown(reason: str, now: int, notices: Sequence[str] = ()) -> LaunchVerdict:
    """Nothing is known, for this reason."""
    return LaunchVerdict(Preflight(state=PREFLIGHT_UNKNOWN, at=now, reason=reason), notices=tuple(notices))


def verdict(answers: Sequence[LaunchAnswer], now: int) -> LaunchVerdict:
    """What follows from the answers of the workers that were asked.

    One that would start the run is enough. It is refused only when every worker that is there would refuse
    it: one that did not answer might start it.
    """
    refused = [answer for answer in answers if answer.kind is Answered.PROBLEMS]
    for answer in answers:
        if answer.kind is Answered.READY:
            return _ready(answer, refused, now)
    open_answers = [answer for answer in answers if answer.kind in (Answered.UNKNOWN, Answered.SILENT)]
    if refused and not open_answers:
        return LaunchVerdict(Preflight(), violations=_violations(refused[0]))
    if open_answers:
        reason = "; ".join(_reason(answer) for answer in open_answers[:3])
    else:
        names = ", ".join(answer.worker_id for answer in answers[:3])
        reason = f"worker {names} takes no launch checks: it is stopped, unreachable or of an older version"
    return unknown(reason, now, _refusals(refused))


def _ready(answer: LaunchAnswer, refused: list[LaunchAnswer], now: int) -> LaunchVerdict:
    preflight = Preflight(
        state=PREFLIGHT_READY,
        at=now,
        worker_id=answer.worker_id,
        command=answer.reply.command,
        directory=answer.reply.directory,
    )
    return LaunchVerdict(preflight, notices=(*answer.reply.notices, *_refusals(refused)))


def _violations(answer: LaunchAnswer) -> tuple[Violation, ...]:
    return tuple(Violation(each.field, each.message) for each in answer.reply.problems)


def _refusals(refused: list[LaunchAnswer]) -> list[str]:
    return [
        f"worker {answer.worker_id} would refuse it: {each.field}: {each.message}"
        for answer in refused[:3]
        for each in answer.reply.problems[:1]
    ]


def _reason(answer: LaunchAnswer) -> str:
    if answer.kind is Answered.SILENT:
        return f"worker {answer.worker_id} did not answer in time"
    return answer.reply.unknown or f"the answer of worker {answer.worker_id} is too large"
