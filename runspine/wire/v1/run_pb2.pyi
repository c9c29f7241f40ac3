from runspine.wire.v1 import facts_pb2 as _facts_pb2
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

class Phase(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PHASE_UNSPECIFIED: _ClassVar[Phase]
    SUBMITTED: _ClassVar[Phase]
    QUEUED: _ClassVar[Phase]
    RUNNING: _ClassVar[Phase]
    STALE: _ClassVar[Phase]
    CANCELLING: _ClassVar[Phase]
    COMPLETED: _ClassVar[Phase]
    FAILED: _ClassVar[Phase]
    CANCELLED: _ClassVar[Phase]
    QUARANTINED: _ClassVar[Phase]
PHASE_UNSPECIFIED: Phase
SUBMITTED: Phase
QUEUED: Phase
RUNNING: Phase
STALE: Phase
CANCELLING: Phase
COMPLETED: Phase
FAILED: Phase
CANCELLED: Phase
QUARANTINED: Phase

class Quarantine(_message.Message):
    __slots__ = ("subject", "stream", "first", "last", "messages", "reason", "at", "released")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    MESSAGES_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    RELEASED_FIELD_NUMBER: _ClassVar[int]
    subject: str
    stream: str
    first: int
    last: int
    messages: int
    reason: str
    at: int
    released: int
    def __init__(self, subject: _Optional[str] = ..., stream: _Optional[str] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., messages: _Optional[int] = ..., reason: _Optional[str] = ..., at: _Optional[int] = ..., released: _Optional[int] = ...) -> None: ...

class ChainState(_message.Message):
    __slots__ = ("subjects", "heads", "quarantines")
    SUBJECTS_FIELD_NUMBER: _ClassVar[int]
    HEADS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINES_FIELD_NUMBER: _ClassVar[int]
    subjects: _containers.RepeatedScalarFieldContainer[str]
    heads: _containers.RepeatedScalarFieldContainer[bytes]
    quarantines: _containers.RepeatedCompositeFieldContainer[Quarantine]
    def __init__(self, subjects: _Optional[_Iterable[str]] = ..., heads: _Optional[_Iterable[bytes]] = ..., quarantines: _Optional[_Iterable[_Union[Quarantine, _Mapping]]] = ...) -> None: ...

class Run(_message.Message):
    __slots__ = ("id", "name", "spec", "phase", "attempt", "worker_id", "reason", "priority", "labels", "submitted_by", "parent", "submitted_at", "queued_at", "not_before", "started_at", "ended_at", "last_heard", "failures", "losses", "counts", "position", "fruitless_losses", "preflight", "hand_backs", "quarantine")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    SPEC_FIELD_NUMBER: _ClassVar[int]
    PHASE_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_BY_FIELD_NUMBER: _ClassVar[int]
    PARENT_FIELD_NUMBER: _ClassVar[int]
    SUBMITTED_AT_FIELD_NUMBER: _ClassVar[int]
    QUEUED_AT_FIELD_NUMBER: _ClassVar[int]
    NOT_BEFORE_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    LOSSES_FIELD_NUMBER: _ClassVar[int]
    COUNTS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    FRUITLESS_LOSSES_FIELD_NUMBER: _ClassVar[int]
    PREFLIGHT_FIELD_NUMBER: _ClassVar[int]
    HAND_BACKS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    spec: _spec_pb2.RunSpec
    phase: Phase
    attempt: int
    worker_id: str
    reason: str
    priority: int
    labels: _containers.ScalarMap[str, str]
    submitted_by: str
    parent: str
    submitted_at: int
    queued_at: int
    not_before: int
    started_at: int
    ended_at: int
    last_heard: int
    failures: int
    losses: int
    counts: _facts_pb2.Counts
    position: int
    fruitless_losses: int
    preflight: _preflight_pb2.Preflight
    hand_backs: int
    quarantine: Quarantine
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., phase: _Optional[_Union[Phase, str]] = ..., attempt: _Optional[int] = ..., worker_id: _Optional[str] = ..., reason: _Optional[str] = ..., priority: _Optional[int] = ..., labels: _Optional[_Mapping[str, str]] = ..., submitted_by: _Optional[str] = ..., parent: _Optional[str] = ..., submitted_at: _Optional[int] = ..., queued_at: _Optional[int] = ..., not_before: _Optional[int] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., last_heard: _Optional[int] = ..., failures: _Optional[int] = ..., losses: _Optional[int] = ..., counts: _Optional[_Union[_facts_pb2.Counts, _Mapping]] = ..., position: _Optional[int] = ..., fruitless_losses: _Optional[int] = ..., preflight: _Optional[_Union[_preflight_pb2.Preflight, _Mapping]] = ..., hand_backs: _Optional[int] = ..., quarantine: _Optional[_Union[Quarantine, _Mapping]] = ...) -> None: ...

class Attempt(_message.Message):
    __slots__ = ("number", "worker_id", "host", "command", "directory", "started_at", "ended_at", "exited", "progress", "resumed_from", "artifacts", "artifacts_pending", "versions", "described", "tracking", "folder_removed_at", "provenance")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    STARTED_AT_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    EXITED_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    RESUMED_FROM_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_FIELD_NUMBER: _ClassVar[int]
    ARTIFACTS_PENDING_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    DESCRIBED_FIELD_NUMBER: _ClassVar[int]
    TRACKING_FIELD_NUMBER: _ClassVar[int]
    FOLDER_REMOVED_AT_FIELD_NUMBER: _ClassVar[int]
    PROVENANCE_FIELD_NUMBER: _ClassVar[int]
    number: int
    worker_id: str
    host: str
    command: _containers.RepeatedScalarFieldContainer[str]
    directory: str
    started_at: int
    ended_at: int
    exited: _facts_pb2.AttemptExited
    progress: _facts_pb2.Progress
    resumed_from: _facts_pb2.ResumedFrom
    artifacts: _containers.RepeatedCompositeFieldContainer[_facts_pb2.ArtifactProduced]
    artifacts_pending: int
    versions: _containers.ScalarMap[str, str]
    described: _facts_pb2.TrainerDescribed
    tracking: _facts_pb2.Tracking
    folder_removed_at: int
    provenance: _facts_pb2.Provenance
    def __init__(self, number: _Optional[int] = ..., worker_id: _Optional[str] = ..., host: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., directory: _Optional[str] = ..., started_at: _Optional[int] = ..., ended_at: _Optional[int] = ..., exited: _Optional[_Union[_facts_pb2.AttemptExited, _Mapping]] = ..., progress: _Optional[_Union[_facts_pb2.Progress, _Mapping]] = ..., resumed_from: _Optional[_Union[_facts_pb2.ResumedFrom, _Mapping]] = ..., artifacts: _Optional[_Iterable[_Union[_facts_pb2.ArtifactProduced, _Mapping]]] = ..., artifacts_pending: _Optional[int] = ..., versions: _Optional[_Mapping[str, str]] = ..., described: _Optional[_Union[_facts_pb2.TrainerDescribed, _Mapping]] = ..., tracking: _Optional[_Union[_facts_pb2.Tracking, _Mapping]] = ..., folder_removed_at: _Optional[int] = ..., provenance: _Optional[_Union[_facts_pb2.Provenance, _Mapping]] = ...) -> None: ...

class AttemptHistory(_message.Message):
    __slots__ = ("attempts", "placement_ended")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    PLACEMENT_ENDED_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[Attempt]
    placement_ended: _facts_pb2.PlacementEnded
    def __init__(self, attempts: _Optional[_Iterable[_Union[Attempt, _Mapping]]] = ..., placement_ended: _Optional[_Union[_facts_pb2.PlacementEnded, _Mapping]] = ...) -> None: ...

class Worker(_message.Message):
    __slots__ = ("id", "host", "pools", "slots", "runners", "version", "online", "since", "last_heard", "running", "reason", "capacity", "machine", "cached_datasets", "quarantine", "sandbox", "sandbox_missing")
    ID_FIELD_NUMBER: _ClassVar[int]
    HOST_FIELD_NUMBER: _ClassVar[int]
    POOLS_FIELD_NUMBER: _ClassVar[int]
    SLOTS_FIELD_NUMBER: _ClassVar[int]
    RUNNERS_FIELD_NUMBER: _ClassVar[int]
    VERSION_FIELD_NUMBER: _ClassVar[int]
    ONLINE_FIELD_NUMBER: _ClassVar[int]
    SINCE_FIELD_NUMBER: _ClassVar[int]
    LAST_HEARD_FIELD_NUMBER: _ClassVar[int]
    RUNNING_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    CAPACITY_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CACHED_DATASETS_FIELD_NUMBER: _ClassVar[int]
    QUARANTINE_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_FIELD_NUMBER: _ClassVar[int]
    SANDBOX_MISSING_FIELD_NUMBER: _ClassVar[int]
    id: str
    host: str
    pools: _containers.RepeatedScalarFieldContainer[str]
    slots: int
    runners: _containers.RepeatedCompositeFieldContainer[_runner_pb2.RunnerInfo]
    version: str
    online: bool
    since: int
    last_heard: int
    running: _containers.RepeatedScalarFieldContainer[str]
    reason: str
    capacity: _facts_pb2.Capacity
    machine: MachineStatus
    cached_datasets: _containers.RepeatedCompositeFieldContainer[CachedDataset]
    quarantine: Quarantine
    sandbox: str
    sandbox_missing: str
    def __init__(self, id: _Optional[str] = ..., host: _Optional[str] = ..., pools: _Optional[_Iterable[str]] = ..., slots: _Optional[int] = ..., runners: _Optional[_Iterable[_Union[_runner_pb2.RunnerInfo, _Mapping]]] = ..., version: _Optional[str] = ..., online: _Optional[bool] = ..., since: _Optional[int] = ..., last_heard: _Optional[int] = ..., running: _Optional[_Iterable[str]] = ..., reason: _Optional[str] = ..., capacity: _Optional[_Union[_facts_pb2.Capacity, _Mapping]] = ..., machine: _Optional[_Union[MachineStatus, _Mapping]] = ..., cached_datasets: _Optional[_Iterable[_Union[CachedDataset, _Mapping]]] = ..., quarantine: _Optional[_Union[Quarantine, _Mapping]] = ..., sandbox: _Optional[str] = ..., sandbox_missing: _Optional[str] = ...) -> None: ...

class Beat(_message.Message):
    __slots__ = ("worker_id", "at", "attempts", "waiting", "machine", "cached_datasets")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WAITING_FIELD_NUMBER: _ClassVar[int]
    MACHINE_FIELD_NUMBER: _ClassVar[int]
    CACHED_DATASETS_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    at: int
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptBeat]
    waiting: _containers.RepeatedCompositeFieldContainer[Waiting]
    machine: MachineStatus
    cached_datasets: _containers.RepeatedCompositeFieldContainer[CachedDataset]
    def __init__(self, worker_id: _Optional[str] = ..., at: _Optional[int] = ..., attempts: _Optional[_Iterable[_Union[AttemptBeat, _Mapping]]] = ..., waiting: _Optional[_Iterable[_Union[Waiting, _Mapping]]] = ..., machine: _Optional[_Union[MachineStatus, _Mapping]] = ..., cached_datasets: _Optional[_Iterable[_Union[CachedDataset, _Mapping]]] = ...) -> None: ...

class CachedDataset(_message.Message):
    __slots__ = ("digest", "bytes", "used_at")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    USED_AT_FIELD_NUMBER: _ClassVar[int]
    digest: str
    bytes: int
    used_at: int
    def __init__(self, digest: _Optional[str] = ..., bytes: _Optional[int] = ..., used_at: _Optional[int] = ...) -> None: ...

class CachePrune(_message.Message):
    __slots__ = ("digests", "all")
    DIGESTS_FIELD_NUMBER: _ClassVar[int]
    ALL_FIELD_NUMBER: _ClassVar[int]
    digests: _containers.RepeatedScalarFieldContainer[str]
    all: bool
    def __init__(self, digests: _Optional[_Iterable[str]] = ..., all: _Optional[bool] = ...) -> None: ...

class MachineStatus(_message.Message):
    __slots__ = ("disk_total", "disk_free", "run_folder_bytes", "run_folders", "gpus", "gpu_driver")
    DISK_TOTAL_FIELD_NUMBER: _ClassVar[int]
    DISK_FREE_FIELD_NUMBER: _ClassVar[int]
    RUN_FOLDER_BYTES_FIELD_NUMBER: _ClassVar[int]
    RUN_FOLDERS_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    GPU_DRIVER_FIELD_NUMBER: _ClassVar[int]
    disk_total: int
    disk_free: int
    run_folder_bytes: int
    run_folders: int
    gpus: _containers.RepeatedCompositeFieldContainer[GpuStatus]
    gpu_driver: str
    def __init__(self, disk_total: _Optional[int] = ..., disk_free: _Optional[int] = ..., run_folder_bytes: _Optional[int] = ..., run_folders: _Optional[int] = ..., gpus: _Optional[_Iterable[_Union[GpuStatus, _Mapping]]] = ..., gpu_driver: _Optional[str] = ...) -> None: ...

class GpuStatus(_message.Message):
    __slots__ = ("id", "name", "memory_total", "memory_used", "utilisation", "temperature")
    ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    MEMORY_TOTAL_FIELD_NUMBER: _ClassVar[int]
    MEMORY_USED_FIELD_NUMBER: _ClassVar[int]
    UTILISATION_FIELD_NUMBER: _ClassVar[int]
    TEMPERATURE_FIELD_NUMBER: _ClassVar[int]
    id: str
    name: str
    memory_total: int
    memory_used: int
    utilisation: float
    temperature: float
    def __init__(self, id: _Optional[str] = ..., name: _Optional[str] = ..., memory_total: _Optional[int] = ..., memory_used: _Optional[int] = ..., utilisation: _Optional[float] = ..., temperature: _Optional[float] = ...) -> None: ...

class Waiting(_message.Message):
    __slots__ = ("run_id", "reason")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    reason: str
    def __init__(self, run_id: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class AttemptBeat(_message.Message):
    __slots__ = ("run_id", "attempt", "progress")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROGRESS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    progress: _facts_pb2.Progress
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., progress: _Optional[_Union[_facts_pb2.Progress, _Mapping]] = ...) -> None: ...

class Offer(_message.Message):
    __slots__ = ("run_id", "attempt", "pool", "priority")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    pool: str
    priority: int
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., pool: _Optional[str] = ..., priority: _Optional[int] = ...) -> None: ...

class Snapshot(_message.Message):
    __slots__ = ("projection", "schema", "cursors", "state", "at", "chains")
    class CursorsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Cursor
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Cursor, _Mapping]] = ...) -> None: ...
    PROJECTION_FIELD_NUMBER: _ClassVar[int]
    SCHEMA_FIELD_NUMBER: _ClassVar[int]
    CURSORS_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    CHAINS_FIELD_NUMBER: _ClassVar[int]
    projection: str
    schema: int
    cursors: _containers.MessageMap[str, Cursor]
    state: bytes
    at: int
    chains: ChainState
    def __init__(self, projection: _Optional[str] = ..., schema: _Optional[int] = ..., cursors: _Optional[_Mapping[str, Cursor]] = ..., state: _Optional[bytes] = ..., at: _Optional[int] = ..., chains: _Optional[_Union[ChainState, _Mapping]] = ...) -> None: ...

class Cursor(_message.Message):
    __slots__ = ("sequence", "digest")
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    sequence: int
    digest: bytes
    def __init__(self, sequence: _Optional[int] = ..., digest: _Optional[bytes] = ...) -> None: ...

class RegistryState(_message.Message):
    __slots__ = ("entries", "aliases", "partial")
    class AliasesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: RegistryAlias
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[RegistryAlias, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    ALIASES_FIELD_NUMBER: _ClassVar[int]
    PARTIAL_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.RepeatedCompositeFieldContainer[RegistryEntry]
    aliases: _containers.MessageMap[str, RegistryAlias]
    partial: bool
    def __init__(self, entries: _Optional[_Iterable[_Union[RegistryEntry, _Mapping]]] = ..., aliases: _Optional[_Mapping[str, RegistryAlias]] = ..., partial: _Optional[bool] = ...) -> None: ...

class RegistryEntry(_message.Message):
    __slots__ = ("run_id", "digest", "kind", "name", "env", "algo", "runner", "env_kwargs", "problem", "pruned", "size")
    class EnvKwargsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    ENV_KWARGS_FIELD_NUMBER: _ClassVar[int]
    PROBLEM_FIELD_NUMBER: _ClassVar[int]
    PRUNED_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    digest: str
    kind: str
    name: str
    env: str
    algo: str
    runner: str
    env_kwargs: _containers.MessageMap[str, _spec_pb2.Value]
    problem: str
    pruned: str
    size: int
    def __init__(self, run_id: _Optional[str] = ..., digest: _Optional[str] = ..., kind: _Optional[str] = ..., name: _Optional[str] = ..., env: _Optional[str] = ..., algo: _Optional[str] = ..., runner: _Optional[str] = ..., env_kwargs: _Optional[_Mapping[str, _spec_pb2.Value]] = ..., problem: _Optional[str] = ..., pruned: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class RegistryAlias(_message.Message):
    __slots__ = ("run_id", "digest")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    digest: str
    def __init__(self, run_id: _Optional[str] = ..., digest: _Optional[str] = ...) -> None: ...

class BoardState(_message.Message):
    __slots__ = ("runs", "attempts", "workers", "registry")
    class AttemptsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: AttemptHistory
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[AttemptHistory, _Mapping]] = ...) -> None: ...
    RUNS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    WORKERS_FIELD_NUMBER: _ClassVar[int]
    REGISTRY_FIELD_NUMBER: _ClassVar[int]
    runs: _containers.RepeatedCompositeFieldContainer[Run]
    attempts: _containers.MessageMap[str, AttemptHistory]
    workers: _containers.RepeatedCompositeFieldContainer[Worker]
    registry: RegistryState
    def __init__(self, runs: _Optional[_Iterable[_Union[Run, _Mapping]]] = ..., attempts: _Optional[_Mapping[str, AttemptHistory]] = ..., workers: _Optional[_Iterable[_Union[Worker, _Mapping]]] = ..., registry: _Optional[_Union[RegistryState, _Mapping]] = ...) -> None: ...
