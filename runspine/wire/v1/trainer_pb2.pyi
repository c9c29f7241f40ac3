from runspine.wire.v1 import facts_pb2 as _facts_pb2
from runspine.wire.v1 import preflight_pb2 as _preflight_pb2
from runspine.wire.v1 import processes_pb2 as _processes_pb2
from runspine.wire.v1 import run_pb2 as _run_pb2
from runspine.wire.v1 import runner_pb2 as _runner_pb2
from runspine.wire.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class NoticeState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    NOTICE_STATE_UNSPECIFIED: _ClassVar[NoticeState]
    PENDING: _ClassVar[NoticeState]
    SENT: _ClassVar[NoticeState]
    DEAD: _ClassVar[NoticeState]
NOTICE_STATE_UNSPECIFIED: NoticeState
PENDING: NoticeState
SENT: NoticeState
DEAD: NoticeState

class ListNoticesRequest(_message.Message):
    __slots__ = ("run_id", "dead", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    dead: bool
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., dead: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class ListNoticesResponse(_message.Message):
    __slots__ = ("notices", "channels")
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    notices: _containers.RepeatedCompositeFieldContainer[Notice]
    channels: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, notices: _Optional[_Iterable[_Union[Notice, _Mapping]]] = ..., channels: _Optional[_Iterable[str]] = ...) -> None: ...

class Notice(_message.Message):
    __slots__ = ("due", "state", "tries", "reason", "at")
    DUE_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    due: _facts_pb2.NoticeDue
    state: NoticeState
    tries: int
    reason: str
    at: int
    def __init__(self, due: _Optional[_Union[_facts_pb2.NoticeDue, _Mapping]] = ..., state: _Optional[_Union[NoticeState, str]] = ..., tries: _Optional[int] = ..., reason: _Optional[str] = ..., at: _Optional[int] = ...) -> None: ...

class TestChannelRequest(_message.Message):
    __slots__ = ("channel",)
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    channel: str
    def __init__(self, channel: _Optional[str] = ...) -> None: ...

class TestChannelResponse(_message.Message):
    __slots__ = ("test_id",)
    TEST_ID_FIELD_NUMBER: _ClassVar[int]
    test_id: str
    def __init__(self, test_id: _Optional[str] = ...) -> None: ...

class RetryNoticeRequest(_message.Message):
    __slots__ = ("id",)
    ID_FIELD_NUMBER: _ClassVar[int]
    id: str
    def __init__(self, id: _Optional[str] = ...) -> None: ...

class RetryNoticeResponse(_message.Message):
    __slots__ = ("notice",)
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    notice: Notice
    def __init__(self, notice: _Optional[_Union[Notice, _Mapping]] = ...) -> None: ...

class SearchAuditRequest(_message.Message):
    __slots__ = ("caller", "method", "text", "refused", "since", "limit", "before")
    CALLER_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    BEFORE_FIELD_NUMBER: _ClassVar[int]
    caller: str
    method: str
    text: str
    refused: bool
    since: int
    limit: int
    before: int
    def __init__(self, caller: _Optional[str] = ..., method: _Optional[str] = ..., text: _Optional[str] = ..., refused: _Optional[bool] = ..., since: _Optional[int] = ..., limit: _Optional[int] = ..., before: _Optional[int] = ...) -> None: ...

class SearchAuditResponse(_message.Message):
    __slots__ = ("entries", "next_before")
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    NEXT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[AuditEntry]
    next_before: int
    def __init__(self, entries: _Optional[_Iterable[_Union[AuditEntry, _Mapping]]] = ..., next_before: _Optional[int] = ...) -> None: ...

class AuditEntry(_message.Message):
    __slots__ = ("at", "call", "sequence")
    AT_FIELD_NUMBER: _ClassVar[int]
    CALL_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    at: int
    call: _facts_pb2.CallRecorded
    sequence: int
    def __init__(self, at: _Optional[int] = ..., call: _Optional[_Union[_facts_pb2.CallRecorded, _Mapping]] = ..., sequence: _Optional[int] = ...) -> None: ...

class PruneDatasetCacheRequest(_message.Message):
    __slots__ = ("worker_id", "dataset")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    dataset: str
    def __init__(self, worker_id: _Optional[str] = ..., dataset: _Optional[str] = ...) -> None: ...

class PruneDatasetCacheResponse(_message.Message):
    __slots__ = ("workers", "digest")
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[_run_pb2.Worker]
    digest: str
    def __init__(self, workers: _Optional[_Iterable[_Union[_run_pb2.Worker, _Mapping]]] = ..., digest: _Optional[str] = ...) -> None: ...

class SubmitRequest(_message.Message):
    __slots__ = ("spec", "idempotency_key")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    spec: _spec_pb2.RunSpec
    idempotency_key: str
    def __init__(self, spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., idempotency_key: _Optional[str] = ...) -> None: ...

class SubmitResponse(_message.Message):
    __slots__ = ("run", "created", "notices")
    RUN_FIELD_NUMBER: _ClassVar[int]
    CREATED_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    created: bool
    notices: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ..., created: _Optional[bool] = ..., notices: _Optional[_Iterable[str]] = ...) -> None: ...

class ValidateRequest(_message.Message):
    __slots__ = ("spec",)
    SPEC_FIELD_NUMBER: _ClassVar[int]
    spec: _spec_pb2.RunSpec
    def __init__(self, spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ...) -> None: ...

class ValidateResponse(_message.Message):
    __slots__ = ("spec", "notices", "preflight")
    SPEC_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    PREFLIGHT_FIELD_NUMBER: _ClassVar[int]
    spec: _spec_pb2.RunSpec
    notices: _containers.RepeatedScalarFieldContainer[str]
    preflight: _preflight_pb2.Preflight
    def __init__(self, spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., notices: _Optional[_Iterable[str]] = ..., preflight: _Optional[_Union[_preflight_pb2.Preflight, _Mapping]] = ...) -> None: ...

class CancelRequest(_message.Message):
    __slots__ = ("run_id", "reason")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class CancelResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ...) -> None: ...

class GetRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class GetResponse(_message.Message):
    __slots__ = ("run", "attempts", "progress")
    RUN_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    attempts: _containers.RepeatedCompositeFieldContainer[_run_pb2.Attempt]
    progress: _facts_pb2.Progress
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ..., attempts: _Optional[_Iterable[_Union[_run_pb2.Attempt, _Mapping]]] = ..., progress: _Optional[_Union[_facts_pb2.Progress, _Mapping]] = ...) -> None: ...

class ListRequest(_message.Message):
    __slots__ = ("phases", "env", "algo", "runner", "project", "labels", "name", "submitted_after", "submitted_before", "page_size", "page_token", "params", "submitted_by")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    PHASES_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AFTER_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BEFORE_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    phases: _containers.RepeatedScalarFieldContainer[_run_pb2.Phase]
    env: str
    algo: str
    runner: str
    project: str
    labels: _containers.ScalarMap[str, str]
    name: str
    submitted_after: int
    submitted_before: int
    page_size: int
    page_token: str
    params: _containers.MessageMap[str, _spec_pb2.Value]
    submitted_by: str
    def __init__(self, phases: _Optional[_Iterable[_Union[_run_pb2.Phase, str]]] = ..., env: _Optional[str] = ..., algo: _Optional[str] = ..., runner: _Optional[str] = ..., project: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., name: _Optional[str] = ..., submitted_after: _Optional[int] = ..., submitted_before: _Optional[int] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ..., params: _Optional[_Mapping[str, _spec_pb2.Value]] = ..., submitted_by: _Optional[str] = ...) -> None: ...

class ListResponse(_message.Message):
    __slots__ = ("runs", "next_page_token", "total")
    RUNS_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[RunSummary]
    next_page_token: str
    total: int
    def __init__(self, runs: _Optional[_Iterable[_Union[RunSummary, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class RunSummary(_message.Message):
    __slots__ = ("run", "progress", "tracking")
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    TRACKING_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    progress: _facts_pb2.Progress
    tracking: _facts_pb2.Tracking
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ..., progress: _Optional[_Union[_facts_pb2.Progress, _Mapping]] = ..., tracking: _Optional[_Union[_facts_pb2.Tracking, _Mapping]] = ...) -> None: ...

class WatchRequest(_message.Message):
    __slots__ = ("run_id", "after", "until_end", "progress", "streams", "positions")
    class PositionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    UNTIL_END_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    POSITIONS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after: int
    until_end: bool
    progress: bool
    streams: _containers.RepeatedScalarFieldContainer[str]
    positions: _containers.ScalarMap[str, int]
    def __init__(self, run_id: _Optional[str] = ..., after: _Optional[int] = ..., until_end: _Optional[bool] = ..., progress: _Optional[bool] = ..., streams: _Optional[_Iterable[str]] = ..., positions: _Optional[_Mapping[str, int]] = ...) -> None: ...

class WatchResponse(_message.Message):
    __slots__ = ("position", "run_id", "facts", "run", "progress", "stream", "subject")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    position: int
    run_id: str
    facts: _containers.RepeatedCompositeFieldContainer[_facts_pb2.Fact]
    run: _run_pb2.Run
    progress: _facts_pb2.Progress
    stream: str
    subject: str
    def __init__(self, position: _Optional[int] = ..., run_id: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[_facts_pb2.Fact, _Mapping]]] = ..., run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ..., progress: _Optional[_Union[_facts_pb2.Progress, _Mapping]] = ..., stream: _Optional[str] = ..., subject: _Optional[str] = ...) -> None: ...

class ResubmitRequest(_message.Message):
    __slots__ = ("run_id", "idempotency_key", "spec")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    idempotency_key: str
    spec: _spec_pb2.RunSpec
    def __init__(self, run_id: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ...) -> None: ...

class SetPriorityRequest(_message.Message):
    __slots__ = ("run_id", "priority")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    priority: int
    def __init__(self, run_id: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class SetPriorityResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ...) -> None: ...

class SetLabelsRequest(_message.Message):
    __slots__ = ("run_id", "labels")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    labels: _containers.ScalarMap[str, str]
    def __init__(self, run_id: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ...) -> None: ...

class SetLabelsResponse(_message.Message):
    __slots__ = ("run",)
    RUN_FIELD_NUMBER: _ClassVar[int]
    run: _run_pb2.Run
    def __init__(self, run: _Optional[_Union[_run_pb2.Run, _Mapping]] = ...) -> None: ...

class ListRunnersRequest(_message.Message):
    __slots__ = ("with_help", "runner")
    WITH_HELP_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    with_help: bool
    runner: str
    def __init__(self, with_help: _Optional[bool] = ..., runner: _Optional[str] = ...) -> None: ...

class ListRunnersResponse(_message.Message):
    __slots__ = ("runners",)
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    runners: _containers.RepeatedCompositeFieldContainer[_runner_pb2.RunnerInfo]
    def __init__(self, runners: _Optional[_Iterable[_Union[_runner_pb2.RunnerInfo, _Mapping]]] = ...) -> None: ...

class ListWorkersRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListWorkersResponse(_message.Message):
    __slots__ = ("workers",)
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    workers: _containers.RepeatedCompositeFieldContainer[_run_pb2.Worker]
    def __init__(self, workers: _Optional[_Iterable[_Union[_run_pb2.Worker, _Mapping]]] = ...) -> None: ...

class ReadLogRequest(_message.Message):
    __slots__ = ("stream", "after", "subject", "follow")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    stream: str
    after: int
    subject: str
    follow: bool
    def __init__(self, stream: _Optional[str] = ..., after: _Optional[int] = ..., subject: _Optional[str] = ..., follow: _Optional[bool] = ...) -> None: ...

class LogRecord(_message.Message):
    __slots__ = ("stream", "sequence", "subject", "commit", "stored_at", "digest")
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    STORED_AT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    stream: str
    sequence: int
    subject: str
    commit: bytes
    stored_at: int
    digest: bytes
    def __init__(self, stream: _Optional[str] = ..., sequence: _Optional[int] = ..., subject: _Optional[str] = ..., commit: _Optional[bytes] = ..., stored_at: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class DescribeLogRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class DescribeLogResponse(_message.Message):
    __slots__ = ("streams", "quarantines")
    STREAMS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINES_FIELD_NUMBER: _ClassVar[int]
    streams: _containers.RepeatedCompositeFieldContainer[StreamInfo]
    quarantines: _containers.RepeatedCompositeFieldContainer[_run_pb2.Quarantine]
    def __init__(self, streams: _Optional[_Iterable[_Union[StreamInfo, _Mapping]]] = ..., quarantines: _Optional[_Iterable[_Union[_run_pb2.Quarantine, _Mapping]]] = ...) -> None: ...

class StreamInfo(_message.Message):
    __slots__ = ("name", "first_sequence", "last_sequence", "commits", "bytes", "witness")
    NAME_FIELD_NUMBER: _ClassVar[int]
    FIRST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    COMMITS_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    WITNESS_FIELD_NUMBER: _ClassVar[int]
    name: str
    first_sequence: int
    last_sequence: int
    commits: int
    bytes: int
    witness: _run_pb2.Cursor
    def __init__(self, name: _Optional[str] = ..., first_sequence: _Optional[int] = ..., last_sequence: _Optional[int] = ..., commits: _Optional[int] = ..., bytes: _Optional[int] = ..., witness: _Optional[_Union[_run_pb2.Cursor, _Mapping]] = ...) -> None: ...
