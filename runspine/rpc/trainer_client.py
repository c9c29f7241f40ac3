"""The gRPC client of a stack, used by the command line and by scripts."""

from __future__ import annotations

import contextlib
import itertools
import re
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import grpc
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from runspine.errors import (
    DeniedError,
    InvalidError,
    RefusedError,
    RunNotFoundError,
    RunspineError,
    UnreachableError,
    Violation,
)
from runspine.ids import new_ulid
from runspine.rpc.channel import Tls, handshake_problem, open_channel
from runspine.rpc.endpoint import Endpoint, find_endpoint
from runspine.rpc.lines_once import LinesOnce
from runspine.rpc.siblings import Siblings
from runspine.wire.v1 import artifacts_pb2 as artifacts
from runspine.wire.v1 import processes_pb2 as processes
from runspine.wire.v1 import telemetry_pb2 as telemetry
from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceStub
from runspine.wire.v1.run_pb2 import Quarantine, Run, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2_grpc import TelemetryServiceStub
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

Answer = TypeVar("Answer")
# Called with the seconds that a stream has waited for its service.
OnWait = Callable[[float], None]

CALL_SECONDS = 30.0
# py-spy looks at each process of the run.
STACKS_SECONDS = 75.0
# How long an interrupted stream is retried.
STREAM_RETRY_SECONDS = 60.0
OPTIONS = [
    ("grpc.max_receive_message_length", 64 << 20),
    ("grpc.max_send_message_length", 64 << 20),
    # A restarted service should be found again within a second, not a minute.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.min_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 1000),
    ("grpc.enable_http_proxy", 0),
]
_NO_CONNECTION = re.compile(
    r"failed to connect|connection (refused|reset|closed)|connections to all|socket|ipv[46]:|"
    r"errors resolving|goaway|broken pipe|cancelling all calls",
    re.IGNORECASE,
)


class Client:
    """Synchronous client. Calls raise RunspineError; every retry of a submission has the same key."""

    def __init__(self, endpoint: Endpoint | None = None) -> None:
        self.endpoint = endpoint or find_endpoint()
        self._trainer = Siblings(self.endpoint.trainer, self._open, TrainerServiceStub)
        self._telemetry = Siblings(self.endpoint.telemetry, self._open, TelemetryServiceStub)
        self._artifacts = Siblings(self.endpoint.artifacts, self._open, ArtifactServiceStub)
        token = self.endpoint.token
        self._metadata = [("authorization", f"Bearer {token}")] if token else []

    def _open(self, address: str, more: Any) -> grpc.Channel:
        tls = Tls.from_environment() if self.endpoint.tls is None else self.endpoint.tls
        options = [*OPTIONS, *more]
        channel: grpc.Channel = open_channel(address, tls, options=options, token=self.endpoint.token)
        return channel

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        for service in (self._trainer, self._telemetry, self._artifacts):
            for channel in service.channels:
                channel.close()

    def submit(self, spec: RunSpec, key: str = "") -> trainer.SubmitResponse:
        request = trainer.SubmitRequest(spec=spec, idempotency_key=key or new_ulid())
        return self._call("Submit", request, trainer.SubmitResponse)

    def validate(self, spec: RunSpec) -> trainer.ValidateResponse:
        return self._call("Validate", trainer.ValidateRequest(spec=spec), trainer.ValidateResponse)

    def resubmit(self, run: str, spec: RunSpec | None = None, key: str = "") -> trainer.SubmitResponse:
        request = trainer.ResubmitRequest(run_id=run, spec=spec, idempotency_key=key or new_ulid())
        return self._call("Resubmit", request, trainer.SubmitResponse)

    def cancel(self, run: str, reason: str = "") -> Run:
        request = trainer.CancelRequest(run_id=run, reason=reason)
        return self._call("Cancel", request, trainer.CancelResponse).run

    def get(self, run: str) -> trainer.GetResponse:
        """A run by its id, a unique prefix of it, or its name."""
        return self._call("Get", trainer.GetRequest(run_id=run), trainer.GetResponse)

    def pages(self, request: trainer.ListRequest) -> Iterator[trainer.ListResponse]:
        """Every page of a listing, requested as they are consumed."""
        page = trainer.ListRequest()
        page.CopyFrom(request)
        while True:
            answer = self._call("List", page, trainer.ListResponse)
            yield answer
            if not answer.next_page_token:
                return
            page.page_token = answer.next_page_token

    def set_priority(self, run: str, priority: int) -> Run:
        request = trainer.SetPriorityRequest(run_id=run, priority=priority)
        return self._call("SetPriority", request, trainer.SetPriorityResponse).run

    def set_labels(self, run: str, labels: Mapping[str, str]) -> Run:
        """Set labels of a run; an empty value removes a label."""
        request = trainer.SetLabelsRequest(run_id=run, labels=labels)
        return self._call("SetLabels", request, trainer.SetLabelsResponse).run

    def runners(self, runner: str = "", *, with_help: bool = False) -> Sequence[RunnerInfo]:
        """All runners of the fleet, or one; `with_help` adds the help of each algorithm."""
        request = trainer.ListRunnersRequest(runner=runner, with_help=with_help)
        return self._call("ListRunners", request, trainer.ListRunnersResponse).runners

    def workers(self) -> Sequence[Worker]:
        return self._call("ListWorkers", trainer.ListWorkersRequest(), trainer.ListWorkersResponse).workers

    def prune_dataset_cache(self, worker_id: str, dataset: str) -> trainer.PruneDatasetCacheResponse:
        request = trainer.PruneDatasetCacheRequest(worker_id=worker_id, dataset=dataset)
        return self._call("PruneDatasetCache", request, trainer.PruneDatasetCacheResponse)

    def describe_log(self) -> Sequence[trainer.StreamInfo]:
        return self._describe_log().streams

    def quarantines(self) -> Sequence[Quarantine]:
        """Subjects that are quarantined now."""
        return self._describe_log().quarantines

    def _describe_log(self) -> trainer.DescribeLogResponse:
        return self._call("DescribeLog", trainer.DescribeLogRequest(), trainer.DescribeLogResponse)

    def search_audit(self, request: trainer.SearchAuditRequest) -> trainer.SearchAuditResponse:
        return self._call("SearchAudit", request, trainer.SearchAuditResponse)

    def list_notices(self, request: trainer.ListNoticesRequest) -> trainer.ListNoticesResponse:
        return self._call("ListNotices", request, trainer.ListNoticesResponse)

    def test_channel(self, channel: str) -> str:
        """The id under which the notice of the test is listed."""
        request = trainer.TestChannelRequest(channel=channel)
        return self._call("TestChannel", request, trainer.TestChannelResponse).test_id

    def retry_notice(self, notice_id: str) -> trainer.Notice:
        request = trainer.RetryNoticeRequest(id=notice_id)
        return self._call("RetryNotice", request, trainer.RetryNoticeResponse).notice

    def dump_stacks(self, run: str) -> processes.DumpStacksResponse:
        """The processes of a running run with their Python stacks."""
        request = processes.DumpStacksRequest(run_id=run)
        return self._call("DumpStacks", request, processes.DumpStacksResponse, deadline=STACKS_SECONDS)

    def attach(self, requests: Iterable[processes.AttachRequest]) -> Iterator[processes.AttachResponse]:
        """A terminal next to a trainer, until it ends or the iterator is closed. It is not retried."""
        number, stub = self._trainer.choose()
        call = stub.Attach(iter(requests), metadata=self._metadata)
        try:
            yield from call
        except grpc.RpcError as error:
            raise translated(error, self._trainer.addresses[number], self.endpoint.token) from error
        finally:
            call.cancel()

    def watch(
        self,
        run_id: str = "",
        *,
        after: int = 0,
        until_end: bool = False,
        more: Mapping[str, int] | None = None,
        on_wait: OnWait | None = None,
    ) -> Iterator[trainer.WatchResponse]:
        """Facts and progress after a position; continues after an outage of the orchestrator.

        `more` names further streams, ARTIFACTS or ATTEMPTS, each with the position to begin after.
        """
        request = trainer.WatchRequest(
            run_id=run_id, after=after, until_end=until_end, streams=more, positions=more
        )
        for message in self._stream(self._trainer, "Watch", request, on_wait):
            if message.stream:
                request.positions[message.stream] = message.position
            elif message.facts and message.position <= request.after:
                continue  # seen before the connection was lost
            else:
                request.after = max(request.after, message.position)
            yield message

    def read_log(
        self, stream: str, *, after: int = 0, subject: str = "", follow: bool = False
    ) -> Iterator[trainer.LogRecord]:
        request = trainer.ReadLogRequest(stream=stream, after=after, subject=subject, follow=follow)
        for record in self._stream(self._trainer, "ReadLog", request, None):
            request.after = record.sequence
            yield record

    def logs(
        self, run_id: str, *, after: int = 0, follow: bool = False, on_wait: OnWait | None = None
    ) -> Iterator[telemetry.StreamLogsResponse]:
        """Lines after a position, each once; continues after an outage of the telemetry service."""
        request = telemetry.StreamLogsRequest(run_id=run_id, after=after, follow=follow)
        once = LinesOnce(request)
        for message in self.stream_telemetry("StreamLogs", request, on_wait):
            if lines := once.take(message):
                yield telemetry.StreamLogsResponse(
                    position=message.position, attempt=message.attempt, lines=lines
                )

    def call_telemetry(self, name: str, request: Any, kind: type[Answer]) -> Answer:
        """Call the telemetry service; TelemetryClient has a method for each call."""
        return self._call(name, request, kind, self._telemetry)

    def stream_telemetry(self, name: str, request: Any, on_wait: OnWait | None = None) -> Iterator[Any]:
        """A stream of the telemetry service; the caller advances `request.after`."""
        return self._stream(self._telemetry, name, request, on_wait)

    def call_artifacts(
        self, name: str, request: Any, kind: type[Answer], deadline: float = CALL_SECONDS
    ) -> Answer:
        """Call the artifacts service; ArtifactClient has a method for each call."""
        return self._call(name, request, kind, self._artifacts, deadline)

    def stream_artifacts(self, name: str, request: Any) -> Iterator[Any]:
        return self._stream(self._artifacts, name, request, None)

    def send_artifact(self, parts: Iterable[artifacts.ImportRequest]) -> artifacts.ImportResponse:
        """Import an artifact part by part. It is not retried, as parts may come from a pipe."""
        return self._send("Import", parts, artifacts.ImportResponse)

    def send_code(self, parts: Iterable[artifacts.StoreCodeRequest]) -> artifacts.StoreCodeResponse:
        """Store objects of a code tree. It is not retried; what was stored before stays stored."""
        return self._send("StoreCode", parts, artifacts.StoreCodeResponse)

    def _send(self, name: str, parts: Iterable[Any], kind: type[Answer]) -> Answer:
        """Send a stream to the artifacts service; waits for one that is starting before the first part."""
        number, stub = self._artifacts.choose()
        connected = grpc.channel_ready_future(self._artifacts.channels[number])
        with contextlib.suppress(grpc.FutureTimeoutError):
            connected.result(self.endpoint.patience)
        connected.cancel()
        problems: list[RunspineError] = []
        try:
            answer = getattr(stub, name)(_noting(parts, problems), metadata=self._metadata)
        except grpc.RpcError as error:
            if problems:
                raise problems[0] from error
            raise translated(error, self._artifacts.addresses[number], self.endpoint.token) from error
        assert isinstance(answer, kind)
        return answer

    def _call(
        self, name: str, request: Any, kind: type[Answer], service: Siblings | None = None,
        deadline: float = CALL_SECONDS,
    ) -> Answer:  # fmt: skip
        """Call a method; UNAVAILABLE is retried with the same request, and so with the same key: at every
        other address of the service at once, then after a pause. So is silence, where there is another."""
        service = service or self._trainer
        give_up = time.monotonic() + self.endpoint.patience
        pause = 0.1
        for tried in itertools.count():
            number, stub = service.choose()
            seconds = service.seconds(tried, deadline)
            try:
                answer = getattr(stub, name)(request, timeout=seconds, metadata=self._metadata)
                assert isinstance(answer, kind)
                return answer
            except grpc.RpcError as error:
                again = (tried + 1) % len(service) > 0
                silent = seconds < deadline and error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
                away = silent or is_away(error)
                if not away or (not again and time.monotonic() + pause > give_up):
                    raise translated(error, service.addresses[number], self.endpoint.token) from error
            service.leave(number)
            if not again:
                time.sleep(pause)
                pause = min(pause * 2, 1.0)
        raise AssertionError("unreachable")

    def _stream(self, service: Siblings, name: str, request: Any, on_wait: OnWait | None) -> Iterator[Any]:
        """Messages of a stream; the caller advances `request`, so that a retry continues there."""
        away_since: float | None = None
        patience = self.endpoint.patience
        pause = 0.1
        tried = 0
        while True:
            number, stub = service.choose()
            call = getattr(stub, name)(request, metadata=self._metadata)
            try:
                for message in call:
                    away_since, pause, patience, tried = None, 0.1, STREAM_RETRY_SECONDS, 0
                    yield message
                return
            except grpc.RpcError as error:
                now = time.monotonic()
                tried += 1
                away_since = now if away_since is None else away_since
                again = tried % len(service) > 0
                if not is_away(error) or (not again and now + pause > away_since + patience):
                    raise translated(error, service.addresses[number], self.endpoint.token) from error
            finally:
                call.cancel()
            service.leave(number)
            if again:
                continue
            if on_wait is not None:
                on_wait(time.monotonic() - away_since)
            time.sleep(pause)
            pause = min(pause * 2, 1.0)


def _noting(parts: Iterable[Any], problems: list[RunspineError]) -> Iterator[Any]:
    """The parts; gRPC hides an error of the iterator, so it is noted."""
    try:
        yield from parts
    except RunspineError as error:
        problems.append(error)
        raise


def is_away(error: grpc.RpcError) -> bool:
    """Whether the call may succeed elsewhere or later."""
    # A retry does not change a refused certificate.
    return bool(error.code() == grpc.StatusCode.UNAVAILABLE) and not handshake_problem(error.details() or "")


def translated(error: grpc.RpcError, address: str, token: str) -> RunspineError:
    """A gRPC error as the error that a user can act on."""
    details = error.details() or ""
    match error.code():
        case grpc.StatusCode.INVALID_ARGUMENT:
            violations = _violations(error)
            return InvalidError("not accepted" if violations else details or "not accepted", violations)
        case grpc.StatusCode.NOT_FOUND:
            return RunNotFoundError(details or "no such run")
        case grpc.StatusCode.FAILED_PRECONDITION | grpc.StatusCode.ABORTED | grpc.StatusCode.ALREADY_EXISTS:
            return RefusedError(details or "refused")
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            return RefusedError(details or "a limit of the service is reached")
        case grpc.StatusCode.UNAUTHENTICATED:
            remedy = f"{address} does not accept the token" if token else "set RUNSPINE_TOKEN"
            return DeniedError(details or remedy)
        case grpc.StatusCode.PERMISSION_DENIED:
            return DeniedError(details or "the token does not allow this")
        case grpc.StatusCode.UNAVAILABLE if problem := handshake_problem(details):
            return DeniedError(f"no secure connection to {address}: {problem}")
        case grpc.StatusCode.UNAVAILABLE if _answered(details):
            return UnreachableError(f"the service at {address} cannot work now: {details}")
        case grpc.StatusCode.UNAVAILABLE:
            return UnreachableError(f"nothing answers at {address}: is the stack up? try `runspine up`")
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            return UnreachableError(
                f"no reply from {address} within {CALL_SECONDS:.0f} s; the call may still have taken effect"
            )
    return RunspineError(f"{address} answered {error.code().name}: {details}")


def _answered(details: str) -> bool:
    """Whether the service itself replied UNAVAILABLE, rather than the connection failed."""
    return not _NO_CONNECTION.search(details)


def _violations(error: grpc.RpcError) -> list[Violation]:
    status = rpc_status.from_call(cast(grpc.Call, error))
    if status is None:
        return []
    found: list[Violation] = []
    for detail in status.details:
        if detail.Is(error_details_pb2.BadRequest.DESCRIPTOR):
            request = error_details_pb2.BadRequest()
            detail.Unpack(request)
            found += [Violation(v.field, v.description) for v in request.field_violations]
    return found
