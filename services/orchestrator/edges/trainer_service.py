"""TrainerService over gRPC: commands to the log, answers from the board."""

from __future__ import annotations

import hashlib
from collections.abc import AsyncIterator, Iterable
from dataclasses import dataclass, field
from typing import Any

from runspine.clock import now_micros
from runspine.domain.run import RunRefusedError, fold
from runspine.domain.run.commands import Cancel, Command, SetLabels, SetPriority, Submit
from runspine.errors import Violation
from runspine.eventlog import EventLog, Recorded
from runspine.eventlog.decider import Handled, handle
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import AUDIT, FACT_STREAMS, NOTICES, RUNS, key_subject, run_subject
from runspine.ids import is_ulid, new_ulid, run_name
from runspine.rpc.auth import caller, caller_scope
from runspine.rpc.errors import (
    AmbiguousError,
    InvalidInputError,
    LimitError,
    NotFoundError,
    translate_errors,
)
from runspine.runners.help import with_help
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.caller_limits import NO_LIMITS, CallerLimits
from runspine.services.orchestrator.core.capacity import (
    capacity_violations,
    disk_notices,
    unused_gpu_notices,
)
from runspine.services.orchestrator.core.gpu_rules import gpu_notices, gpu_violations
from runspine.services.orchestrator.core.indexes.progress_feed import ProgressFeed
from runspine.services.orchestrator.core.launch_verdict import unknown
from runspine.services.orchestrator.core.listing import list_runs
from runspine.services.orchestrator.core.spec_rules import (
    label_violations,
    violations,
    with_defaults,
)
from runspine.services.orchestrator.edges.audit_search import search_audit
from runspine.services.orchestrator.edges.cache_requests import CacheRequests
from runspine.services.orchestrator.edges.launch_checks import LaunchChecks
from runspine.services.orchestrator.edges.name_lookup import look_up_names
from runspine.services.orchestrator.edges.notice_calls import NoticeCalls
from runspine.services.orchestrator.edges.run_processes import RunProcesses
from runspine.services.orchestrator.edges.scheduler import Scheduler
from runspine.services.orchestrator.edges.watch import MORE_STREAMS, more_streams, watch_all, watch_run
from runspine.spec.nearest import not_accepted
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact, KeyReserved
from runspine.wire.v1.processes_pb2 import (
    AttachRequest,
    AttachResponse,
    DumpStacksRequest,
    DumpStacksResponse,
)
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceServicer

MAX_KEY = 200
READ_ONLY = "a launch check runs the env's code on a worker, and this token may only read"


@dataclass(slots=True)
class TrainerCalls:
    """What the calls of TrainerService share."""

    event_log: EventLog
    board: Board
    projector: Projector
    scheduler: Scheduler
    installed: dict[str, RunnerInfo]
    launch_checks: LaunchChecks
    caches: CacheRequests
    notices: NoticeCalls
    processes: RunProcesses
    limits: CallerLimits = NO_LIMITS
    # Shared by all watching clients.
    feed: ProgressFeed = field(init=False)

    def __post_init__(self) -> None:
        self.feed = ProgressFeed(self.board)

    def runners(self) -> dict[str, RunnerInfo]:
        """Runners that workers report, and those installed in this process."""
        return self.board.fleet.catalog.known(self.installed)


@translate_errors
class TrainerServicer(TrainerServiceServicer):
    """The calls of TrainerService."""

    def __init__(self, trainer: TrainerCalls) -> None:
        self._trainer = trainer

    async def Submit(self, request: wire.SubmitRequest, _: Any) -> wire.SubmitResponse:
        return await self._submit(request.spec, request.idempotency_key, parent="")

    async def Resubmit(self, request: wire.ResubmitRequest, _: Any) -> wire.SubmitResponse:
        old = await self._find(request.run_id)
        spec = RunSpec()
        spec.CopyFrom(request.spec if request.HasField("spec") else old.spec)
        return await self._submit(spec, request.idempotency_key, parent=old.id)

    async def Validate(self, request: wire.ValidateRequest, _: Any) -> wire.ValidateResponse:
        spec = await self._checked(request.spec)
        if caller_scope.get() == "read":
            found = unknown(READ_ONLY, now_micros())
        else:
            found = await self._trainer.launch_checks.check(spec)
        if found.violations:
            raise InvalidInputError(found.violations)
        notices = [*self._notices(spec), *found.notices]
        return wire.ValidateResponse(spec=spec, notices=notices, preflight=found.preflight)

    async def Cancel(self, request: wire.CancelRequest, _: Any) -> wire.CancelResponse:
        _refuse_long("reason", request.reason)
        run = await self._find(request.run_id)
        command = Cancel(at=now_micros(), by=caller.get(), reason=request.reason)
        return wire.CancelResponse(run=(await self._command(run.id, command)).run)

    async def SetPriority(self, request: wire.SetPriorityRequest, _: Any) -> wire.SetPriorityResponse:
        if request.priority > 100:
            what = f"{request.priority} is out of range: 0 (last) to 100 (first)"
            raise InvalidInputError([Violation("priority", what)])
        run = await self._find(request.run_id)
        command = SetPriority(at=now_micros(), priority=request.priority, by=caller.get())
        return wire.SetPriorityResponse(run=(await self._command(run.id, command)).run)

    async def SetLabels(self, request: wire.SetLabelsRequest, _: Any) -> wire.SetLabelsResponse:
        found = list(label_violations(request.labels, "labels"))
        if found:
            raise InvalidInputError(found)
        run = await self._find(request.run_id)
        command = SetLabels(at=now_micros(), labels=dict(request.labels), by=caller.get())
        return wire.SetLabelsResponse(run=(await self._command(run.id, command)).run)

    async def Get(self, request: wire.GetRequest, _: Any) -> wire.GetResponse:
        run = await self._find(request.run_id)
        history = self._trainer.board.attempts.get(run.id)
        return wire.GetResponse(
            run=self._trainer.board.with_wait_reasons(run, now_micros()),
            attempts=history.attempts if history else [],
            progress=self._trainer.board.progress(run),
        )

    async def List(self, request: wire.ListRequest, _: Any) -> wire.ListResponse:
        return list_runs(self._trainer.board, request, now_micros())

    async def Watch(self, request: wire.WatchRequest, _: Any) -> AsyncIterator[wire.WatchResponse]:
        log, board, projector = self._trainer.event_log, self._trainer.board, self._trainer.projector
        for name in (*request.streams, *request.positions):
            if name not in MORE_STREAMS:
                raise InvalidInputError([Violation("streams", not_accepted(name, MORE_STREAMS))])
        if request.run_id:
            run = await self._find(request.run_id)
            more = more_streams(request.streams, request.positions, run.id)
            events = watch_run(log, board, projector, run.id, request.after, request.until_end, more)
        else:
            more = more_streams(request.streams, request.positions)
            feed = self._trainer.feed if request.progress else None
            events = watch_all(log, board, projector, request.after, feed, more)
        async for event in events:
            yield event

    async def ListRunners(self, request: wire.ListRunnersRequest, _: Any) -> wire.ListRunnersResponse:
        runners = self._trainer.runners()
        chosen = [runners[name] for name in sorted(runners) if request.runner in ("", name)]
        return wire.ListRunnersResponse(
            runners=[with_help(info) for info in chosen] if request.with_help else chosen
        )

    async def ListWorkers(self, _request: wire.ListWorkersRequest, _: Any) -> wire.ListWorkersResponse:
        return wire.ListWorkersResponse(workers=self._trainer.board.listed_workers())

    async def PruneDatasetCache(
        self, request: wire.PruneDatasetCacheRequest, _: Any
    ) -> wire.PruneDatasetCacheResponse:
        return await self._trainer.caches.prune(request)

    async def ReadLog(self, request: wire.ReadLogRequest, _: Any) -> AsyncIterator[wire.LogRecord]:
        _known_stream(request.stream, caller_scope.get())
        records = self._trainer.event_log.follow(
            request.stream, after=request.after, subject=request.subject, live=request.follow
        )
        async for recorded in records:
            yield wire.LogRecord(
                stream=recorded.stream,
                sequence=recorded.sequence,
                subject=recorded.subject,
                commit=recorded.data,
                stored_at=recorded.stored_at,
                digest=recorded.digest,
            )

    async def DescribeLog(self, _request: wire.DescribeLogRequest, _: Any) -> wire.DescribeLogResponse:
        quarantines = self._trainer.board.quarantines
        response = wire.DescribeLogResponse(quarantines=[quarantines[name] for name in sorted(quarantines)])
        for stream in FACT_STREAMS:
            extent = await self._trainer.event_log.extent(stream)
            response.streams.add(
                name=stream,
                first_sequence=extent.first,
                last_sequence=extent.last,
                commits=extent.commits,
                bytes=extent.bytes,
                witness=self._trainer.projector.witnesses.get(stream),
            )
        return response

    async def SearchAudit(self, request: wire.SearchAuditRequest, _: Any) -> wire.SearchAuditResponse:
        return await search_audit(self._trainer.event_log, request)

    async def ListNotices(self, request: wire.ListNoticesRequest, _: Any) -> wire.ListNoticesResponse:
        return await self._trainer.notices.list(request)

    async def TestChannel(self, request: wire.TestChannelRequest, _: Any) -> wire.TestChannelResponse:
        return await self._trainer.notices.test(request)

    async def RetryNotice(self, request: wire.RetryNoticeRequest, _: Any) -> wire.RetryNoticeResponse:
        return await self._trainer.notices.retry(request)

    async def DumpStacks(self, request: DumpStacksRequest, _: Any) -> DumpStacksResponse:
        return await self._trainer.processes.stacks(await self._find(request.run_id))

    async def Attach(self, requests: AsyncIterator[AttachRequest], _: Any) -> AsyncIterator[AttachResponse]:
        first = await anext(aiter(requests), AttachRequest())
        run = await self._find(first.begin.run_id)
        async for response in self._trainer.processes.attach(run, first, requests):
            yield response

    async def _submit(self, given: RunSpec, key: str, parent: str) -> wire.SubmitResponse:
        spec = await self._checked(given)
        found = await self._trainer.launch_checks.check(spec)
        if found.violations and not (key and await self._is_submitted(key)):
            raise InvalidInputError(found.violations)
        at = now_micros()
        run_id, name = new_ulid(), spec.name or run_name(spec.env, spec.algo or _program(spec), spec.seed, at)
        problem = self._trainer.limits.active_problem(self._trainer.board, caller.get())
        if problem and not (key and await self._is_submitted(key)):
            raise LimitError(problem)
        if key:
            _refuse_long("idempotency_key", key)
            wanted = KeyReserved(run_id=run_id, name=name, spec_digest=_digest(given))
            reserved = await self._reserve(key, wanted, at)
            run_id, name = reserved.run_id, reserved.name
            known = await self._read_run(run_id)
            if known is not None:
                return wire.SubmitResponse(run=known, created=False)
        command = Submit(
            at=at,
            run_id=run_id,
            name=name,
            spec=spec,
            by=caller.get(),
            parent=parent,
            key=key,
            preflight=found.preflight,
        )
        handled = await self._command(run_id, command)
        notices = [*self._notices(spec), *found.notices] if handled.facts else []
        return wire.SubmitResponse(run=handled.run, created=bool(handled.facts), notices=notices)

    async def _is_submitted(self, key: str) -> bool:
        """Whether a run was submitted under this key: a retry gets it, whatever its launch would do now."""
        reserved, _ = await self._trainer.event_log.read(_key_subject(key))
        run_ids = [fact.key_reserved.run_id for each in reserved for fact in each.commit.facts]
        return bool(run_ids and (await self._trainer.event_log.read(run_subject(run_ids[0])))[0])

    async def _reserve(self, key: str, wanted: KeyReserved, at: int) -> KeyReserved:
        """The run that this idempotency key stands for: the first submit with it decides."""
        subject = _key_subject(key)
        mine = [Fact(at=at, key_reserved=wanted)]
        handled = await handle(
            self._trainer.event_log, subject, lambda first: [] if first else mine, _first_reserved
        )
        reserved = handled.state
        assert reserved is not None, "a key is reserved by somebody"
        if reserved.spec_digest != wanted.spec_digest:
            what = f"was used for run {reserved.run_id} with another spec: take a new key"
            raise InvalidInputError([Violation("idempotency_key", what)])
        return reserved

    async def _checked(self, given: RunSpec) -> RunSpec:
        runners, board = self._trainer.runners(), self._trainer.board
        spec, missing = await look_up_names(self._trainer.event_log, self._trainer.projector, board, given)
        pools = self._trainer.limits.pool_violations(board, spec.pool, caller_scope.get())
        notify = await self._trainer.notices.violations(spec)
        found = [*violations(spec, runners), *missing, *gpu_violations(spec), *pools, *notify]
        found = found or capacity_violations(spec, board.fleet)
        if found:
            raise InvalidInputError(found)
        return with_defaults(spec, runners)

    def _notices(self, spec: RunSpec) -> list[str]:
        fleet = self._trainer.board.fleet
        serving = fleet.pool(spec.pool)
        notices = gpu_notices(spec)
        if not serving.online:
            return [*notices, f"no worker serves pool {spec.pool!r} now: the run will wait"]
        if not serving.ready[spec.runner]:
            notices.append(f"no worker of pool {spec.pool!r} has runner {spec.runner!r} ready")
        info = self._trainer.runners().get(spec.runner)
        return (notices or unused_gpu_notices(spec, info, fleet)) + disk_notices(spec, fleet)

    async def _find(self, text: str) -> Run:
        found = self._trainer.board.find(text)
        if not found and is_ulid(text):
            run = await self._read_run(text)
            if run is not None:
                return run
        if not found:
            raise NotFoundError(f"there is no run {text[:80]!r}: give an id, the beginning of one, or a name")
        if len(found) > 1:
            raise AmbiguousError(
                f"{text!r} is the beginning of several ids: {', '.join(r.id for r in found)}"
            )
        return found[0]

    async def _read_run(self, run_id: str) -> Run | None:
        """A run as it is on the log. The board is waited for: no later answer may show an earlier state."""
        history, version = await self._trainer.event_log.read(run_subject(run_id))
        if not history:
            return None
        await self._trainer.projector.require(RUNS, version.sequence)
        return _fold_history(history)

    async def _command(self, run_id: str, command: Command) -> Handled[Run]:
        """Carry a command out and wait for the board, so that the caller sees its own change.

        A refusal shows the run's phase: the board must have it as well before the caller learns of it.
        """
        try:
            handled = await self._trainer.scheduler.command(run_id, command)
        except RunRefusedError:
            _, version = await self._trainer.event_log.read(run_subject(run_id))
            await self._trainer.projector.require(RUNS, version.sequence)
            raise
        await self._trainer.projector.require(RUNS, handled.position)
        return handled


def _key_subject(key: str) -> str:
    return key_subject(hashlib.sha256(key.encode()).hexdigest())


def _fold_history(history: list[Recorded]) -> Run:
    return fold(fact for recorded in history for fact in recorded.commit.facts)


def _first_reserved(facts: Iterable[Fact], before: KeyReserved | None) -> KeyReserved | None:
    return before or next((fact.key_reserved for fact in facts), None)


def _refuse_long(field: str, text: str) -> None:
    if len(text) > MAX_KEY:
        raise InvalidInputError(
            [Violation(field, f"{len(text)} characters, more than the {MAX_KEY} accepted")]
        )


def _known_stream(stream: str, scope: str) -> None:
    if stream == AUDIT and scope != "admin":
        raise InvalidInputError([Violation("stream", "the audit trail is read with the scope 'admin'")])
    if stream not in (*FACT_STREAMS, AUDIT, NOTICES):
        raise InvalidInputError([Violation("stream", not_accepted(stream, FACT_STREAMS))])


def _digest(spec: RunSpec) -> bytes:
    return hashlib.sha256(spec.SerializeToString(deterministic=True)).digest()


def _program(spec: RunSpec) -> str:
    """The program's name, for the name of a run without an algorithm."""
    words = [word for word in spec.command if not word.startswith("-")]
    script = next((word for word in words if word.endswith(".py")), words[0] if words else spec.runner)
    return script.rsplit("/", 1)[-1].removesuffix(".py")
