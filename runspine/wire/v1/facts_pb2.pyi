from runspine.wire.v1 import preflight_pb2 as _preflight_pb2
from runspine.wire.v1 import runner_pb2 as _runner_pb2
from runspine.wire.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class CallOutcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    CALL_OUTCOME_UNSPECIFIED: _ClassVar[CallOutcome]
    DONE: _ClassVar[CallOutcome]
    REFUSED: _ClassVar[CallOutcome]
    NOT_DONE: _ClassVar[CallOutcome]

class EngineCause(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    ENGINE_CAUSE_UNSPECIFIED: _ClassVar[EngineCause]
    PREEMPTED: _ClassVar[EngineCause]
    ENGINE_REQUEUED: _ClassVar[EngineCause]
    TIME_LIMIT: _ClassVar[EngineCause]
    CANCELLED_BY_OPERATOR: _ClassVar[EngineCause]
    NODE_FAILED: _ClassVar[EngineCause]
    OUT_OF_MEMORY: _ClassVar[EngineCause]
    WORKER_FAILED: _ClassVar[EngineCause]

class TrackingState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    TRACKING_STATE_UNSPECIFIED: _ClassVar[TrackingState]
    OFFLINE: _ClassVar[TrackingState]
    SYNCING: _ClassVar[TrackingState]
    SYNCED: _ClassVar[TrackingState]

class Outcome(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OUTCOME_UNSPECIFIED: _ClassVar[Outcome]
    EXITED: _ClassVar[Outcome]
    STOPPED: _ClassVar[Outcome]
    LIMIT: _ClassVar[Outcome]
    NOT_STARTED: _ClassVar[Outcome]
    LOST: _ClassVar[Outcome]
    HANDED_BACK: _ClassVar[Outcome]
    FINISHED: _ClassVar[Outcome]
CALL_OUTCOME_UNSPECIFIED: CallOutcome
DONE: CallOutcome
REFUSED: CallOutcome
NOT_DONE: CallOutcome
ENGINE_CAUSE_UNSPECIFIED: EngineCause
PREEMPTED: EngineCause
ENGINE_REQUEUED: EngineCause
TIME_LIMIT: EngineCause
CANCELLED_BY_OPERATOR: EngineCause
NODE_FAILED: EngineCause
OUT_OF_MEMORY: EngineCause
WORKER_FAILED: EngineCause
TRACKING_STATE_UNSPECIFIED: TrackingState
OFFLINE: TrackingState
SYNCING: TrackingState
SYNCED: TrackingState
OUTCOME_UNSPECIFIED: Outcome
EXITED: Outcome
STOPPED: Outcome
LIMIT: Outcome
NOT_STARTED: Outcome
LOST: Outcome
HANDED_BACK: Outcome
FINISHED: Outcome

class Commit(_message.Message):
    __slots__ = ("id", "number", "previous", "writer", "facts", "signer", "signature")
    ID_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    FACTS_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    number: int
    previous: bytes
    writer: str
    facts: _containers.RepeatedCompositeFieldContainer[Fact]
    signer: str
    signature: bytes
    def __init__(self, id: _Optional[str] = ..., number: _Optional[int] = ..., previous: _Optional[bytes] = ..., writer: _Optional[str] = ..., facts: _Optional[_Iterable[_Union[Fact, _Mapping]]] = ..., signer: _Optional[str] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Fact(_message.Message):
    __slots__ = ("at", "run_submitted", "run_queued", "run_started", "run_went_stale", "run_came_back", "run_cancel_requested", "run_completed", "run_failed", "run_cancelled", "run_requeued", "run_priority_changed", "run_labelled", "key_reserved", "attempt_started", "attempt_progressed", "attempt_exited", "artifact_produced", "artifact_given_up", "trainer_described", "tracking_reported", "worker_online", "worker_offline", "folders_removed", "artifact_indexed", "artifact_corrupt", "artifact_mended", "artifact_pinned", "artifact_unpinned", "artifact_pruned", "artifact_restored", "artifact_erased", "alias_set", "alias_removed", "checkpoint_imported", "checkpoint_activated", "checkpoint_retired", "retention_set", "janitor_elected", "janitor_resigned", "subject_released", "key_introduced", "key_revoked", "signing_began", "call_recorded", "notices_configured", "notice_due", "notice_claimed", "notice_sent", "notice_failed", "notice_retry_requested", "channel_test_requested", "placement_ended")
    AT_FIELD_NUMBER: _ClassVar[int]
    RUN_SUBMITTED_FIELD_NUMBER: _ClassVar[int]
    RUN_QUEUED_FIELD_NUMBER: _ClassVar[int]
    RUN_STARTED_FIELD_NUMBER: _ClassVar[int]
    RUN_WENT_STALE_FIELD_NUMBER: _ClassVar[int]
    RUN_CAME_BACK_FIELD_NUMBER: _ClassVar[int]
    RUN_CANCEL_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    RUN_COMPLETED_FIELD_NUMBER: _ClassVar[int]
    RUN_FAILED_FIELD_NUMBER: _ClassVar[int]
    RUN_CANCELLED_FIELD_NUMBER: _ClassVar[int]
    RUN_REQUEUED_FIELD_NUMBER: _ClassVar[int]
    RUN_PRIORITY_CHANGED_FIELD_NUMBER: _ClassVar[int]
    RUN_LABELLED_FIELD_NUMBER: _ClassVar[int]
    KEY_RESERVED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_STARTED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_PROGRESSED_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_EXITED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_PRODUCED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_GIVEN_UP_FIELD_NUMBER: _ClassVar[int]
    TRAINER_DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TRACKING_REPORTED_FIELD_NUMBER: _ClassVar[int]
    WORKER_ONLINE_FIELD_NUMBER: _ClassVar[int]
    WORKER_OFFLINE_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_INDEXED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_CORRUPT_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_MENDED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_PINNED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_UNPINNED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_PRUNED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_RESTORED_FIELD_NUMBER: _ClassVar[int]
    ARTIFACT_ERASED_FIELD_NUMBER: _ClassVar[int]
    ALIAS_SET_FIELD_NUMBER: _ClassVar[int]
    ALIAS_REMOVED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_IMPORTED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_ACTIVATED_FIELD_NUMBER: _ClassVar[int]
    CHECKPOINT_RETIRED_FIELD_NUMBER: _ClassVar[int]
    RETENTION_SET_FIELD_NUMBER: _ClassVar[int]
    JANITOR_ELECTED_FIELD_NUMBER: _ClassVar[int]
    JANITOR_RESIGNED_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_RELEASED_FIELD_NUMBER: _ClassVar[int]
    KEY_INTRODUCED_FIELD_NUMBER: _ClassVar[int]
    KEY_REVOKED_FIELD_NUMBER: _ClassVar[int]
    SIGNING_BEGAN_FIELD_NUMBER: _ClassVar[int]
    CALL_RECORDED_FIELD_NUMBER: _ClassVar[int]
    NOTICES_CONFIGURED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_DUE_FIELD_NUMBER: _ClassVar[int]
    NOTICE_CLAIMED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_SENT_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FAILED_FIELD_NUMBER: _ClassVar[int]
    NOTICE_RETRY_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    CHANNEL_TEST_REQUESTED_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_ENDED_FIELD_NUMBER: _ClassVar[int]
    at: int
    run_submitted: RunSubmitted
    run_queued: RunQueued
    run_started: RunStarted
    run_went_stale: RunWentStale
    run_came_back: RunCameBack
    run_cancel_requested: RunCancelRequested
    run_completed: RunCompleted
    run_failed: RunFailed
    run_cancelled: RunCancelled
    run_requeued: RunRequeued
    run_priority_changed: RunPriorityChanged
    run_labelled: RunLabelled
    key_reserved: KeyReserved
    attempt_started: AttemptStarted
    attempt_progressed: AttemptProgressed
    attempt_exited: AttemptExited
    artifact_produced: ArtifactProduced
    artifact_given_up: ArtifactGivenUp
    trainer_described: TrainerDescribed
    tracking_reported: TrackingReported
    worker_online: WorkerOnline
    worker_offline: WorkerOffline
    folders_removed: FoldersRemoved
    artifact_indexed: ArtifactIndexed
    artifact_corrupt: ArtifactCorrupt
    artifact_mended: ArtifactMended
    artifact_pinned: ArtifactPinned
    artifact_unpinned: ArtifactUnpinned
    artifact_pruned: ArtifactPruned
    artifact_restored: ArtifactRestored
    artifact_erased: ArtifactErased
    alias_set: AliasSet
    alias_removed: AliasRemoved
    checkpoint_imported: CheckpointImported
    checkpoint_activated: CheckpointActivated
    checkpoint_retired: CheckpointRetired
    retention_set: RetentionSet
    janitor_elected: JanitorElected
    janitor_resigned: JanitorResigned
    subject_released: SubjectReleased
    key_introduced: KeyIntroduced
    key_revoked: KeyRevoked
    signing_began: SigningBegan
    call_recorded: CallRecorded
    notices_configured: NoticesConfigured
    notice_due: NoticeDue
    notice_claimed: NoticeClaimed
    notice_sent: NoticeSent
    notice_failed: NoticeFailed
    notice_retry_requested: NoticeRetryRequested
    channel_test_requested: ChannelTestRequested
    placement_ended: PlacementEnded
    def __init__(self, at: _Optional[int] = ..., run_submitted: _Optional[_Union[RunSubmitted, _Mapping]] = ..., run_queued: _Optional[_Union[RunQueued, _Mapping]] = ..., run_started: _Optional[_Union[RunStarted, _Mapping]] = ..., run_went_stale: _Optional[_Union[RunWentStale, _Mapping]] = ..., run_came_back: _Optional[_Union[RunCameBack, _Mapping]] = ..., run_cancel_requested: _Optional[_Union[RunCancelRequested, _Mapping]] = ..., run_completed: _Optional[_Union[RunCompleted, _Mapping]] = ..., run_failed: _Optional[_Union[RunFailed, _Mapping]] = ..., run_cancelled: _Optional[_Union[RunCancelled, _Mapping]] = ..., run_requeued: _Optional[_Union[RunRequeued, _Mapping]] = ..., run_priority_changed: _Optional[_Union[RunPriorityChanged, _Mapping]] = ..., run_labelled: _Optional[_Union[RunLabelled, _Mapping]] = ..., key_reserved: _Optional[_Union[KeyReserved, _Mapping]] = ..., attempt_started: _Optional[_Union[AttemptStarted, _Mapping]] = ..., attempt_progressed: _Optional[_Union[AttemptProgressed, _Mapping]] = ..., attempt_exited: _Optional[_Union[AttemptExited, _Mapping]] = ..., artifact_produced: _Optional[_Union[ArtifactProduced, _Mapping]] = ..., artifact_given_up: _Optional[_Union[ArtifactGivenUp, _Mapping]] = ..., trainer_described: _Optional[_Union[TrainerDescribed, _Mapping]] = ..., tracking_reported: _Optional[_Union[TrackingReported, _Mapping]] = ..., worker_online: _Optional[_Union[WorkerOnline, _Mapping]] = ..., worker_offline: _Optional[_Union[WorkerOffline, _Mapping]] = ..., folders_removed: _Optional[_Union[FoldersRemoved, _Mapping]] = ..., artifact_indexed: _Optional[_Union[ArtifactIndexed, _Mapping]] = ..., artifact_corrupt: _Optional[_Union[ArtifactCorrupt, _Mapping]] = ..., artifact_mended: _Optional[_Union[ArtifactMended, _Mapping]] = ..., artifact_pinned: _Optional[_Union[ArtifactPinned, _Mapping]] = ..., artifact_unpinned: _Optional[_Union[ArtifactUnpinned, _Mapping]] = ..., artifact_pruned: _Optional[_Union[ArtifactPruned, _Mapping]] = ..., artifact_restored: _Optional[_Union[ArtifactRestored, _Mapping]] = ..., artifact_erased: _Optional[_Union[ArtifactErased, _Mapping]] = ..., alias_set: _Optional[_Union[AliasSet, _Mapping]] = ..., alias_removed: _Optional[_Union[AliasRemoved, _Mapping]] = ..., checkpoint_imported: _Optional[_Union[CheckpointImported, _Mapping]] = ..., checkpoint_activated: _Optional[_Union[CheckpointActivated, _Mapping]] = ..., checkpoint_retired: _Optional[_Union[CheckpointRetired, _Mapping]] = ..., retention_set: _Optional[_Union[RetentionSet, _Mapping]] = ..., janitor_elected: _Optional[_Union[JanitorElected, _Mapping]] = ..., janitor_resigned: _Optional[_Union[JanitorResigned, _Mapping]] = ..., subject_released: _Optional[_Union[SubjectReleased, _Mapping]] = ..., key_introduced: _Optional[_Union[KeyIntroduced, _Mapping]] = ..., key_revoked: _Optional[_Union[KeyRevoked, _Mapping]] = ..., signing_began: _Optional[_Union[SigningBegan, _Mapping]] = ..., call_recorded: _Optional[_Union[CallRecorded, _Mapping]] = ..., notices_configured: _Optional[_Union[NoticesConfigured, _Mapping]] = ..., notice_due: _Optional[_Union[NoticeDue, _Mapping]] = ..., notice_claimed: _Optional[_Union[NoticeClaimed, _Mapping]] = ..., notice_sent: _Optional[_Union[NoticeSent, _Mapping]] = ..., notice_failed: _Optional[_Union[NoticeFailed, _Mapping]] = ..., notice_retry_requested: _Optional[_Union[NoticeRetryRequested, _Mapping]] = ..., channel_test_requested: _Optional[_Union[ChannelTestRequested, _Mapping]] = ..., placement_ended: _Optional[_Union[PlacementEnded, _Mapping]] = ...) -> None: ...

class CallRecorded(_message.Message):
    __slots__ = ("request_id", "service", "method", "caller", "scope", "peer", "forwarded", "outcome", "code", "reason", "target", "count")
    REQUEST_ID_FIELD_NUMBER: _ClassVar[int]
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    CALLER_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PEER_FIELD_NUMBER: _ClassVar[int]
    FORWARDED_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    request_id: str
    service: str
    method: str
    caller: str
    scope: str
    peer: str
    forwarded: str
    outcome: CallOutcome
    code: str
    reason: str
    target: str
    count: int
    def __init__(self, request_id: _Optional[str] = ..., service: _Optional[str] = ..., method: _Optional[str] = ..., caller: _Optional[str] = ..., scope: _Optional[str] = ..., peer: _Optional[str] = ..., forwarded: _Optional[str] = ..., outcome: _Optional[_Union[CallOutcome, str]] = ..., code: _Optional[str] = ..., reason: _Optional[str] = ..., target: _Optional[str] = ..., count: _Optional[int] = ...) -> None: ...

class RunSubmitted(_message.Message):
    __slots__ = ("run_id", "name", "spec", "submitted_by", "parent", "idempotency_key", "preflight")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    IDEMPOTENCY_KEY_FIELD_NUMBER: _ClassVar[int]
    PREFLIGHT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    spec: _spec_pb2.RunSpec
    submitted_by: str
    parent: str
    idempotency_key: str
    preflight: _preflight_pb2.Preflight
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., submitted_by: _Optional[str] = ..., parent: _Optional[str] = ..., idempotency_key: _Optional[str] = ..., preflight: _Optional[_Union[_preflight_pb2.Preflight, _Mapping]] = ...) -> None: ...

class RunQueued(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class RunStarted(_message.Message):
    __slots__ = ("attempt", "worker_id")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    worker_id: str
    def __init__(self, attempt: _Optional[int] = ..., worker_id: _Optional[str] = ...) -> None: ...

class RunWentStale(_message.Message):
    __slots__ = ("attempt", "last_heard")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    last_heard: int
    def __init__(self, attempt: _Optional[int] = ..., last_heard: _Optional[int] = ...) -> None: ...

class RunCameBack(_message.Message):
    __slots__ = ("attempt",)
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    def __init__(self, attempt: _Optional[int] = ...) -> None: ...

class RunCancelRequested(_message.Message):
    __slots__ = ("requested_by", "reason")
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    requested_by: str
    reason: str
    def __init__(self, requested_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class RunCompleted(_message.Message):
    __slots__ = ("attempt", "counts", "reason")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    counts: Counts
    reason: str
    def __init__(self, attempt: _Optional[int] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., reason: _Optional[str] = ...) -> None: ...

class RunFailed(_message.Message):
    __slots__ = ("attempt", "reason", "counts")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    reason: str
    counts: Counts
    def __init__(self, attempt: _Optional[int] = ..., reason: _Optional[str] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ...) -> None: ...

class RunCancelled(_message.Message):
    __slots__ = ("attempt", "reason", "counts")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    reason: str
    counts: Counts
    def __init__(self, attempt: _Optional[int] = ..., reason: _Optional[str] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ...) -> None: ...

class RunRequeued(_message.Message):
    __slots__ = ("attempt", "reason", "not_before", "lost", "got_further", "handed_back")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    LOST_FIELD_NUMBER: _ClassVar[int]
    GOT_FURTHER_FIELD_NUMBER: _ClassVar[int]
    HANDED_BACK_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    reason: str
    not_before: int
    lost: bool
    got_further: bool
    handed_back: bool
    def __init__(self, attempt: _Optional[int] = ..., reason: _Optional[str] = ..., not_before: _Optional[int] = ..., lost: _Optional[bool] = ..., got_further: _Optional[bool] = ..., handed_back: _Optional[bool] = ...) -> None: ...

class RunPriorityChanged(_message.Message):
    __slots__ = ("priority", "changed_by")
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    priority: int
    changed_by: str
    def __init__(self, priority: _Optional[int] = ..., changed_by: _Optional[str] = ...) -> None: ...

class RunLabelled(_message.Message):
    __slots__ = ("labels", "changed_by")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    LABELS_FIELD_NUMBER: _ClassVar[int]
    CHANGED_BY_FIELD_NUMBER: _ClassVar[int]
    labels: _containers.ScalarMap[str, str]
    changed_by: str
    def __init__(self, labels: _Optional[_Mapping[str, str]] = ..., changed_by: _Optional[str] = ...) -> None: ...

class KeyReserved(_message.Message):
    __slots__ = ("run_id", "name", "spec_digest")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_DIGEST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    name: str
    spec_digest: bytes
    def __init__(self, run_id: _Optional[str] = ..., name: _Optional[str] = ..., spec_digest: _Optional[bytes] = ...) -> None: ...

class Counts(_message.Message):
    __slots__ = ("steps", "episodes", "metrics", "log_lines", "malformed", "dropped", "not_finite")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    LOG_LINES_FIELD_NUMBER: _ClassVar[int]
    MALFORMED_FIELD_NUMBER: _ClassVar[int]
    DROPPED_FIELD_NUMBER: _ClassVar[int]
    NOT_FINITE_FIELD_NUMBER: _ClassVar[int]
    steps: int
    episodes: int
    metrics: int
    log_lines: int
    malformed: int
    dropped: int
    not_finite: int
    def __init__(self, steps: _Optional[int] = ..., episodes: _Optional[int] = ..., metrics: _Optional[int] = ..., log_lines: _Optional[int] = ..., malformed: _Optional[int] = ..., dropped: _Optional[int] = ..., not_finite: _Optional[int] = ...) -> None: ...

class AttemptStarted(_message.Message):
    __slots__ = ("attempt", "worker_id", "host", "command", "directory", "resumed_from", "versions", "provenance")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FROM_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    worker_id: str
    host: str
    command: _containers.RepeatedScalarFieldContainer[str]
    directory: str
    resumed_from: ResumedFrom
    versions: _containers.ScalarMap[str, str]
    provenance: Provenance
    def __init__(self, attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., host: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., directory: _Optional[str] = ..., resumed_from: _Optional[_Union[ResumedFrom, _Mapping]] = ..., versions: _Optional[_Mapping[str, str]] = ..., provenance: _Optional[_Union[Provenance, _Mapping]] = ...) -> None: ...

class Provenance(_message.Message):
    __slots__ = ("python", "python_path", "system", "machine", "cpu", "cpus", "memory_mib", "gpus", "gpu_driver", "packages", "package_count", "image", "determinism", "runspine", "virtualenv")
    class DeterminismEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    PYTHON_PATH_FIELD_NUMBER: _ClassVar[int]
    SYSTEM_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CPU_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_DRIVER_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    PACKAGE_COUNT_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    DETERMINISM_FIELD_NUMBER: _ClassVar[int]
    RUNSPINE_FIELD_NUMBER: _ClassVar[int]
    VIRTUALENV_FIELD_NUMBER: _ClassVar[int]
    python: str
    python_path: str
    system: str
    machine: str
    cpu: str
    cpus: float
    memory_mib: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    gpu_driver: str
    packages: str
    package_count: int
    image: str
    determinism: _containers.ScalarMap[str, str]
    runspine: str
    virtualenv: str
    def __init__(self, python: _Optional[str] = ..., python_path: _Optional[str] = ..., system: _Optional[str] = ..., machine: _Optional[str] = ..., cpu: _Optional[str] = ..., cpus: _Optional[float] = ..., memory_mib: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ..., gpu_driver: _Optional[str] = ..., packages: _Optional[str] = ..., package_count: _Optional[int] = ..., image: _Optional[str] = ..., determinism: _Optional[_Mapping[str, str]] = ..., runspine: _Optional[str] = ..., virtualenv: _Optional[str] = ...) -> None: ...

class ResumedFrom(_message.Message):
    __slots__ = ("run_id", "attempt", "digest", "step", "warm_start", "name", "episodes")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    WARM_START_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    digest: str
    step: int
    warm_start: bool
    name: str
    episodes: int
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., digest: _Optional[str] = ..., step: _Optional[int] = ..., warm_start: _Optional[bool] = ..., name: _Optional[str] = ..., episodes: _Optional[int] = ...) -> None: ...

class ArtifactProduced(_message.Message):
    __slots__ = ("attempt", "kind", "name", "digest", "size", "key", "step", "meta", "episodes")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    kind: str
    name: str
    digest: str
    size: int
    key: str
    step: int
    meta: _containers.MessageMap[str, _spec_pb2.Value]
    episodes: int
    def __init__(self, attempt: _Optional[int] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ..., key: _Optional[str] = ..., step: _Optional[int] = ..., meta: _Optional[_Mapping[str, _spec_pb2.Value]] = ..., episodes: _Optional[int] = ...) -> None: ...

class AttemptProgressed(_message.Message):
    __slots__ = ("attempt", "progress")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    progress: Progress
    def __init__(self, attempt: _Optional[int] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ...) -> None: ...

class Progress(_message.Message):
    __slots__ = ("step", "total_steps", "episodes", "last_return", "steps_per_second", "counts", "mean_return", "evaluation", "held_back", "held_back_seconds", "last_step_at", "agent_returns", "stalled_since")
    class AgentReturnsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: float
        def __init__(self, key: _Optional[str] = ..., value: _Optional[float] = ...) -> None: ...
    STEP_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    LAST_RETURN_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    MEAN_RETURN_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_FIELD_NUMBER: _ClassVar[int]
    HELD_BACK_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_RETURNS_FIELD_NUMBER: _ClassVar[int]
    STALLED_SINCE_FIELD_NUMBER: _ClassVar[int]
    step: int
    total_steps: int
    episodes: int
    last_return: float
    steps_per_second: float
    counts: Counts
    mean_return: float
    evaluation: EvaluationSummary
    held_back: str
    held_back_seconds: float
    last_step_at: int
    agent_returns: _containers.ScalarMap[str, float]
    stalled_since: int
    def __init__(self, step: _Optional[int] = ..., total_steps: _Optional[int] = ..., episodes: _Optional[int] = ..., last_return: _Optional[float] = ..., steps_per_second: _Optional[float] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., mean_return: _Optional[float] = ..., evaluation: _Optional[_Union[EvaluationSummary, _Mapping]] = ..., held_back: _Optional[str] = ..., held_back_seconds: _Optional[float] = ..., last_step_at: _Optional[int] = ..., agent_returns: _Optional[_Mapping[str, float]] = ..., stalled_since: _Optional[int] = ...) -> None: ...

class EvaluationSummary(_message.Message):
    __slots__ = ("digest", "batches", "episodes", "mean", "std", "minimum", "maximum", "deterministic", "env")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    digest: str
    batches: int
    episodes: int
    mean: float
    std: float
    minimum: float
    maximum: float
    deterministic: bool
    env: str
    def __init__(self, digest: _Optional[str] = ..., batches: _Optional[int] = ..., episodes: _Optional[int] = ..., mean: _Optional[float] = ..., std: _Optional[float] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., deterministic: _Optional[bool] = ..., env: _Optional[str] = ...) -> None: ...

class AttemptExited(_message.Message):
    __slots__ = ("attempt", "worker_id", "outcome", "exit_code", "signal", "reason", "stderr_tail", "counts", "progress", "artifacts_pending", "engine_stop")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    OUTCOME_FIELD_NUMBER: _ClassVar[int]
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    SIGNAL_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    STDERR_TAIL_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_PENDING_FIELD_NUMBER: _ClassVar[int]
    ENGINE_STOP_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    worker_id: str
    outcome: Outcome
    exit_code: int
    signal: int
    reason: str
    stderr_tail: str
    counts: Counts
    progress: Progress
    artifacts_pending: int
    engine_stop: EngineStop
    def __init__(self, attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., outcome: _Optional[_Union[Outcome, str]] = ..., exit_code: _Optional[int] = ..., signal: _Optional[int] = ..., reason: _Optional[str] = ..., stderr_tail: _Optional[str] = ..., counts: _Optional[_Union[Counts, _Mapping]] = ..., progress: _Optional[_Union[Progress, _Mapping]] = ..., artifacts_pending: _Optional[int] = ..., engine_stop: _Optional[_Union[EngineStop, _Mapping]] = ...) -> None: ...

class EngineStop(_message.Message):
    __slots__ = ("engine", "placement", "cause", "reason", "node")
    ENGINE_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_FIELD_NUMBER: _ClassVar[int]
    CAUSE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    engine: str
    placement: str
    cause: EngineCause
    reason: str
    node: str
    def __init__(self, engine: _Optional[str] = ..., placement: _Optional[str] = ..., cause: _Optional[_Union[EngineCause, str]] = ..., reason: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class PlacementEnded(_message.Message):
    __slots__ = ("attempt", "stop", "worker_id")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    stop: EngineStop
    worker_id: str
    def __init__(self, attempt: _Optional[int] = ..., stop: _Optional[_Union[EngineStop, _Mapping]] = ..., worker_id: _Optional[str] = ...) -> None: ...

class TrainerDescribed(_message.Message):
    __slots__ = ("attempt", "config_json", "protocol", "writer", "notice")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    CONFIG_JSON_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    NOTICE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    config_json: str
    protocol: int
    writer: str
    notice: str
    def __init__(self, attempt: _Optional[int] = ..., config_json: _Optional[str] = ..., protocol: _Optional[int] = ..., writer: _Optional[str] = ..., notice: _Optional[str] = ...) -> None: ...

class TrackingReported(_message.Message):
    __slots__ = ("attempt", "tracking")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    TRACKING_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    tracking: Tracking
    def __init__(self, attempt: _Optional[int] = ..., tracking: _Optional[_Union[Tracking, _Mapping]] = ...) -> None: ...

class Tracking(_message.Message):
    __slots__ = ("service", "url", "entity", "project", "name", "run", "state")
    SERVICE_FIELD_NUMBER: _ClassVar[int]
    URL_FIELD_NUMBER: _ClassVar[int]
    ENTITY_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUN_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    service: str
    url: str
    entity: str
    project: str
    name: str
    run: str
    state: TrackingState
    def __init__(self, service: _Optional[str] = ..., url: _Optional[str] = ..., entity: _Optional[str] = ..., project: _Optional[str] = ..., name: _Optional[str] = ..., run: _Optional[str] = ..., state: _Optional[_Union[TrackingState, str]] = ...) -> None: ...

class ArtifactGivenUp(_message.Message):
    __slots__ = ("attempt", "kind", "name", "reason", "digest")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    kind: str
    name: str
    reason: str
    digest: str
    def __init__(self, attempt: _Optional[int] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., reason: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class WorkerOnline(_message.Message):
    __slots__ = ("worker_id", "host", "pools", "slots", "runners", "version", "capacity", "sandbox", "sandbox_missing")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    host: str
    pools: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    runners: _containers.RepeatedCompositeFieldContainer[_runner_pb2.RunnerInfo]
    version: str
    capacity: Capacity
    sandbox: str
    sandbox_missing: str
    def __init__(self, worker_id: _Optional[str] = ..., host: _Optional[str] = ..., pools: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., runners: _Optional[_Iterable[_Union[_runner_pb2.RunnerInfo, _Mapping]]] = ..., version: _Optional[str] = ..., capacity: _Optional[_Union[Capacity, _Mapping]] = ..., sandbox: _Optional[str] = ..., sandbox_missing: _Optional[str] = ...) -> None: ...

class Capacity(_message.Message):
    __slots__ = ("cpus", "memory_mib", "gpus")
    CPUS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    cpus: float
    memory_mib: int
    gpus: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, cpus: _Optional[float] = ..., memory_mib: _Optional[int] = ..., gpus: _Optional[_Iterable[str]] = ...) -> None: ...

class WorkerOffline(_message.Message):
    __slots__ = ("worker_id", "reason")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    reason: str
    def __init__(self, worker_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class FoldersRemoved(_message.Message):
    __slots__ = ("worker_id", "folders")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    FOLDERS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    folders: _containers.RepeatedCompositeFieldContainer[RemovedFolder]
    def __init__(self, worker_id: _Optional[str] = ..., folders: _Optional[_Iterable[_Union[RemovedFolder, _Mapping]]] = ...) -> None: ...

class RemovedFolder(_message.Message):
    __slots__ = ("run_id", "bytes", "rule")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    bytes: int
    rule: str
    def __init__(self, run_id: _Optional[str] = ..., bytes: _Optional[int] = ..., rule: _Optional[str] = ...) -> None: ...

class ArtifactIndexed(_message.Message):
    __slots__ = ("artifact", "produced_at")
    ARTIFACT_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_AT_FIELD_NUMBER: _ClassVar[int]
    artifact: ArtifactProduced
    produced_at: int
    def __init__(self, artifact: _Optional[_Union[ArtifactProduced, _Mapping]] = ..., produced_at: _Optional[int] = ...) -> None: ...

class ArtifactCorrupt(_message.Message):
    __slots__ = ("digest", "flaw", "found_by", "produced_at")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FLAW_FIELD_NUMBER: _ClassVar[int]
    FOUND_BY_FIELD_NUMBER: _ClassVar[int]
    PRODUCED_AT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    flaw: str
    found_by: str
    produced_at: int
    def __init__(self, digest: _Optional[str] = ..., flaw: _Optional[str] = ..., found_by: _Optional[str] = ..., produced_at: _Optional[int] = ...) -> None: ...

class ArtifactMended(_message.Message):
    __slots__ = ("digest", "found_by")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    FOUND_BY_FIELD_NUMBER: _ClassVar[int]
    digest: str
    found_by: str
    def __init__(self, digest: _Optional[str] = ..., found_by: _Optional[str] = ...) -> None: ...

class ArtifactPinned(_message.Message):
    __slots__ = ("digest", "pinned_by", "reason")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    PINNED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    digest: str
    pinned_by: str
    reason: str
    def __init__(self, digest: _Optional[str] = ..., pinned_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class ArtifactUnpinned(_message.Message):
    __slots__ = ("digest", "unpinned_by")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    UNPINNED_BY_FIELD_NUMBER: _ClassVar[int]
    digest: str
    unpinned_by: str
    def __init__(self, digest: _Optional[str] = ..., unpinned_by: _Optional[str] = ...) -> None: ...

class ArtifactPruned(_message.Message):
    __slots__ = ("digest", "size", "kind", "name", "rule", "scope", "batch", "pruned_by", "undo_until", "term", "aliases")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    PRUNED_BY_FIELD_NUMBER: _ClassVar[int]
    UNDO_UNTIL_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    size: int
    kind: str
    name: str
    rule: str
    scope: str
    batch: str
    pruned_by: str
    undo_until: int
    term: int
    aliases: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, digest: _Optional[str] = ..., size: _Optional[int] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., rule: _Optional[str] = ..., scope: _Optional[str] = ..., batch: _Optional[str] = ..., pruned_by: _Optional[str] = ..., undo_until: _Optional[int] = ..., term: _Optional[int] = ..., aliases: _Optional[_Iterable[str]] = ...) -> None: ...

class ArtifactRestored(_message.Message):
    __slots__ = ("digest", "batch", "restored_by")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BATCH_FIELD_NUMBER: _ClassVar[int]
    RESTORED_BY_FIELD_NUMBER: _ClassVar[int]
    digest: str
    batch: str
    restored_by: str
    def __init__(self, digest: _Optional[str] = ..., batch: _Optional[str] = ..., restored_by: _Optional[str] = ...) -> None: ...

class ArtifactErased(_message.Message):
    __slots__ = ("digest", "size")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    digest: str
    size: int
    def __init__(self, digest: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class AliasSet(_message.Message):
    __slots__ = ("alias", "digest", "set_by")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    alias: str
    digest: str
    set_by: str
    def __init__(self, alias: _Optional[str] = ..., digest: _Optional[str] = ..., set_by: _Optional[str] = ...) -> None: ...

class AliasRemoved(_message.Message):
    __slots__ = ("alias", "removed_by")
    ALIAS_FIELD_NUMBER: _ClassVar[int]
    REMOVED_BY_FIELD_NUMBER: _ClassVar[int]
    alias: str
    removed_by: str
    def __init__(self, alias: _Optional[str] = ..., removed_by: _Optional[str] = ...) -> None: ...

class CheckpointImported(_message.Message):
    __slots__ = ("source", "env", "algo", "runner", "seed", "step", "digest", "key", "size", "meta", "name", "imported_by", "project", "kind")
    class MetaEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    META_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    IMPORTED_BY_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    source: str
    env: str
    algo: str
    runner: str
    seed: int
    step: int
    digest: str
    key: str
    size: int
    meta: _containers.MessageMap[str, _spec_pb2.Value]
    name: str
    imported_by: str
    project: str
    kind: str
    def __init__(self, source: _Optional[str] = ..., env: _Optional[str] = ..., algo: _Optional[str] = ..., runner: _Optional[str] = ..., seed: _Optional[int] = ..., step: _Optional[int] = ..., digest: _Optional[str] = ..., key: _Optional[str] = ..., size: _Optional[int] = ..., meta: _Optional[_Mapping[str, _spec_pb2.Value]] = ..., name: _Optional[str] = ..., imported_by: _Optional[str] = ..., project: _Optional[str] = ..., kind: _Optional[str] = ...) -> None: ...

class CheckpointActivated(_message.Message):
    __slots__ = ("actor", "digest", "activated_by", "env")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ACTIVATED_BY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    actor: str
    digest: str
    activated_by: str
    env: str
    def __init__(self, actor: _Optional[str] = ..., digest: _Optional[str] = ..., activated_by: _Optional[str] = ..., env: _Optional[str] = ...) -> None: ...

class CheckpointRetired(_message.Message):
    __slots__ = ("actor", "digest", "env")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    actor: str
    digest: str
    env: str
    def __init__(self, actor: _Optional[str] = ..., digest: _Optional[str] = ..., env: _Optional[str] = ...) -> None: ...

class RetentionSet(_message.Message):
    __slots__ = ("scope", "profile", "set_by")
    SCOPE_FIELD_NUMBER: _ClassVar[int]
    PROFILE_FIELD_NUMBER: _ClassVar[int]
    SET_BY_FIELD_NUMBER: _ClassVar[int]
    scope: str
    profile: RetentionProfile
    set_by: str
    def __init__(self, scope: _Optional[str] = ..., profile: _Optional[_Union[RetentionProfile, _Mapping]] = ..., set_by: _Optional[str] = ...) -> None: ...

class JanitorElected(_message.Message):
    __slots__ = ("term", "holder")
    TERM_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    term: int
    holder: str
    def __init__(self, term: _Optional[int] = ..., holder: _Optional[str] = ...) -> None: ...

class JanitorResigned(_message.Message):
    __slots__ = ("term", "holder")
    TERM_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    term: int
    holder: str
    def __init__(self, term: _Optional[int] = ..., holder: _Optional[str] = ...) -> None: ...

class RetentionProfile(_message.Message):
    __slots__ = ("max_videos_per_run", "max_checkpoints_per_run", "max_runs_per_agent", "max_age_seconds", "max_bytes", "grace_seconds", "undo_seconds", "automatic", "max_tensorboard_runs", "max_wandb_runs")
    MAX_VIDEOS_PER_RUN_FIELD_NUMBER: _ClassVar[int]
    MAX_CHECKPOINTS_PER_RUN_FIELD_NUMBER: _ClassVar[int]
    MAX_RUNS_PER_AGENT_FIELD_NUMBER: _ClassVar[int]
    MAX_AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MAX_BYTES_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    UNDO_SECONDS_FIELD_NUMBER: _ClassVar[int]
    AUTOMATIC_FIELD_NUMBER: _ClassVar[int]
    MAX_TENSORBOARD_RUNS_FIELD_NUMBER: _ClassVar[int]
    MAX_WANDB_RUNS_FIELD_NUMBER: _ClassVar[int]
    max_videos_per_run: int
    max_checkpoints_per_run: int
    max_runs_per_agent: int
    max_age_seconds: float
    max_bytes: int
    grace_seconds: float
    undo_seconds: float
    automatic: bool
    max_tensorboard_runs: int
    max_wandb_runs: int
    def __init__(self, max_videos_per_run: _Optional[int] = ..., max_checkpoints_per_run: _Optional[int] = ..., max_runs_per_agent: _Optional[int] = ..., max_age_seconds: _Optional[float] = ..., max_bytes: _Optional[int] = ..., grace_seconds: _Optional[float] = ..., undo_seconds: _Optional[float] = ..., automatic: _Optional[bool] = ..., max_tensorboard_runs: _Optional[int] = ..., max_wandb_runs: _Optional[int] = ...) -> None: ...

class NoticesConfigured(_message.Message):
    __slots__ = ("channels", "rules")
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    RULES_FIELD_NUMBER: _ClassVar[int]
    channels: _containers.RepeatedScalarFieldContainer[str]
    rules: _containers.RepeatedCompositeFieldContainer[NoticeRuleState]
    def __init__(self, channels: _Optional[_Iterable[str]] = ..., rules: _Optional[_Iterable[_Union[NoticeRuleState, _Mapping]]] = ...) -> None: ...

class NoticeRuleState(_message.Message):
    __slots__ = ("name", "digest", "after")
    class AfterEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    after: _containers.ScalarMap[str, int]
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., after: _Optional[_Mapping[str, int]] = ...) -> None: ...

class NoticeDue(_message.Message):
    __slots__ = ("id", "run_id", "rule", "event", "target", "number", "caused_at", "title", "text", "labels", "run_name")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    RULE_FIELD_NUMBER: _ClassVar[int]
    EVENT_FIELD_NUMBER: _ClassVar[int]
    TARGET_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    CAUSED_AT_FIELD_NUMBER: _ClassVar[int]
    TITLE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    RUN_NAME_FIELD_NUMBER: _ClassVar[int]
    id: str
    run_id: str
    rule: str
    event: str
    target: str
    number: int
    caused_at: int
    title: str
    text: str
    labels: _containers.ScalarMap[str, str]
    run_name: str
    def __init__(self, id: _Optional[str] = ..., run_id: _Optional[str] = ..., rule: _Optional[str] = ..., event: _Optional[str] = ..., target: _Optional[str] = ..., number: _Optional[int] = ..., caused_at: _Optional[int] = ..., title: _Optional[str] = ..., text: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., run_name: _Optional[str] = ...) -> None: ...

class NoticeClaimed(_message.Message):
    __slots__ = ("id", "holder", "ends_at")
    ID_FIELD_NUMBER: _ClassVar[int]
    HOLDER_FIELD_NUMBER: _ClassVar[int]
    ENDS_AT_FIELD_NUMBER: _ClassVar[int]
    id: str
    holder: str
    ends_at: int
    def __init__(self, id: _Optional[str] = ..., holder: _Optional[str] = ..., ends_at: _Optional[int] = ...) -> None: ...

class NoticeSent(_message.Message):
    __slots__ = ("id", "tries")
    ID_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    id: str
    tries: int
    def __init__(self, id: _Optional[str] = ..., tries: _Optional[int] = ...) -> None: ...

class NoticeFailed(_message.Message):
    __slots__ = ("id", "tries", "reason", "retry_at", "dead")
    ID_FIELD_NUMBER: _ClassVar[int]
    TRIES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    RETRY_AT_FIELD_NUMBER: _ClassVar[int]
    DEAD_FIELD_NUMBER: _ClassVar[int]
    id: str
    tries: int
    reason: str
    retry_at: int
    dead: bool
    def __init__(self, id: _Optional[str] = ..., tries: _Optional[int] = ..., reason: _Optional[str] = ..., retry_at: _Optional[int] = ..., dead: _Optional[bool] = ...) -> None: ...

class NoticeRetryRequested(_message.Message):
    __slots__ = ("id", "requested_by")
    ID_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    id: str
    requested_by: str
    def __init__(self, id: _Optional[str] = ..., requested_by: _Optional[str] = ...) -> None: ...

class ChannelTestRequested(_message.Message):
    __slots__ = ("channel", "requested_by")
    CHANNEL_FIELD_NUMBER: _ClassVar[int]
    REQUESTED_BY_FIELD_NUMBER: _ClassVar[int]
    channel: str
    requested_by: str
    def __init__(self, channel: _Optional[str] = ..., requested_by: _Optional[str] = ...) -> None: ...

class SubjectReleased(_message.Message):
    __slots__ = ("first", "last", "released_by", "reason")
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    RELEASED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    first: int
    last: int
    released_by: str
    reason: str
    def __init__(self, first: _Optional[int] = ..., last: _Optional[int] = ..., released_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class KeyIntroduced(_message.Message):
    __slots__ = ("public_key", "role", "worker_id", "expires_at", "root")
    PUBLIC_KEY_FIELD_NUMBER: _ClassVar[int]
    ROLE_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    EXPIRES_AT_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    public_key: bytes
    role: str
    worker_id: str
    expires_at: int
    root: bytes
    def __init__(self, public_key: _Optional[bytes] = ..., role: _Optional[str] = ..., worker_id: _Optional[str] = ..., expires_at: _Optional[int] = ..., root: _Optional[bytes] = ...) -> None: ...

class KeyRevoked(_message.Message):
    __slots__ = ("last", "revoked_by", "reason")
    class LastEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LAST_FIELD_NUMBER: _ClassVar[int]
    REVOKED_BY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    last: _containers.ScalarMap[str, int]
    revoked_by: str
    reason: str
    def __init__(self, last: _Optional[_Mapping[str, int]] = ..., revoked_by: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class SigningBegan(_message.Message):
    __slots__ = ("last",)
    class LastEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: int
        def __init__(self, key: _Optional[str] = ..., value: _Optional[int] = ...) -> None: ...
    LAST_FIELD_NUMBER: _ClassVar[int]
    last: _containers.ScalarMap[str, int]
    def __init__(self, last: _Optional[_Mapping[str, int]] = ...) -> None: ...
