from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Mode(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    MODE_UNSPECIFIED: _ClassVar[Mode]
    TRAIN: _ClassVar[Mode]
    EVALUATE: _ClassVar[Mode]
    PLAY: _ClassVar[Mode]

class ObservationPolicy(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    OBSERVATION_POLICY_UNSPECIFIED: _ClassVar[ObservationPolicy]
    FULL: _ClassVar[ObservationPolicy]
    HASH: _ClassVar[ObservationPolicy]
    NONE: _ClassVar[ObservationPolicy]
MODE_UNSPECIFIED: Mode
TRAIN: Mode
EVALUATE: Mode
PLAY: Mode
OBSERVATION_POLICY_UNSPECIFIED: ObservationPolicy
FULL: ObservationPolicy
HASH: ObservationPolicy
NONE: ObservationPolicy

class Value(_message.Message):
    __slots__ = ("boolean", "integer", "number", "text", "list", "map")
    BOOLEAN_FIELD_NUMBER: _ClassVar[int]
    INTEGER_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    LIST_FIELD_NUMBER: _ClassVar[int]
    MAP_FIELD_NUMBER: _ClassVar[int]
    boolean: bool
    integer: int
    number: float
    text: str
    list: ValueList
    map: ValueMap
    def __init__(self, boolean: _Optional[bool] = ..., integer: _Optional[int] = ..., number: _Optional[float] = ..., text: _Optional[str] = ..., list: _Optional[_Union[ValueList, _Mapping]] = ..., map: _Optional[_Union[ValueMap, _Mapping]] = ...) -> None: ...

class ValueList(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[Value]
    def __init__(self, items: _Optional[_Iterable[_Union[Value, _Mapping]]] = ...) -> None: ...

class ValueMap(_message.Message):
    __slots__ = ("entries",)
    class EntriesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    ENTRIES_FIELD_NUMBER: _ClassVar[int]
    entries: _containers.MessageMap[str, Value]
    def __init__(self, entries: _Optional[_Mapping[str, Value]] = ...) -> None: ...

class RunSpec(_message.Message):
    __slots__ = ("name", "runner", "algo", "env", "env_kwargs", "seed", "mode", "params", "command", "workdir", "variables", "secrets", "project", "labels", "pool", "priority", "limits", "retry", "total_steps", "notes", "gpus", "capture", "warm_start", "evaluation", "dataset", "play", "fork", "max_episodes", "code", "isolation", "packages", "notify")
    class EnvKwargsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    class ParamsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[Value, _Mapping]] = ...) -> None: ...
    class VariablesEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NAME_FIELD_NUMBER: _ClassVar[int]
    RUNNER_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    ENV_KWARGS_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    MODE_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    WORKDIR_FIELD_NUMBER: _ClassVar[int]
    VARIABLES_FIELD_NUMBER: _ClassVar[int]
    SECRETS_FIELD_NUMBER: _ClassVar[int]
    PROJECT_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    POOL_FIELD_NUMBER: _ClassVar[int]
    PRIORITY_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    RETRY_FIELD_NUMBER: _ClassVar[int]
    TOTAL_STEPS_FIELD_NUMBER: _ClassVar[int]
    NOTES_FIELD_NUMBER: _ClassVar[int]
    GPUS_FIELD_NUMBER: _ClassVar[int]
    CAPTURE_FIELD_NUMBER: _ClassVar[int]
    WARM_START_FIELD_NUMBER: _ClassVar[int]
    EVALUATION_FIELD_NUMBER: _ClassVar[int]
    DATASET_FIELD_NUMBER: _ClassVar[int]
    PLAY_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    MAX_EPISODES_FIELD_NUMBER: _ClassVar[int]
    CODE_FIELD_NUMBER: _ClassVar[int]
    ISOLATION_FIELD_NUMBER: _ClassVar[int]
    PACKAGES_FIELD_NUMBER: _ClassVar[int]
    NOTIFY_FIELD_NUMBER: _ClassVar[int]
    name: str
    runner: str
    algo: str
    env: str
    env_kwargs: _containers.MessageMap[str, Value]
    seed: int
    mode: Mode
    params: _containers.MessageMap[str, Value]
    command: _containers.RepeatedScalarFieldContainer[str]
    workdir: str
    variables: _containers.ScalarMap[str, str]
    secrets: _containers.RepeatedScalarFieldContainer[str]
    project: str
    labels: _containers.ScalarMap[str, str]
    pool: str
    priority: int
    limits: Limits
    retry: Retry
    total_steps: int
    notes: str
    gpus: int
    capture: Capture
    warm_start: WarmStart
    evaluation: Evaluation
    dataset: Dataset
    play: Play
    fork: ForkPoint
    max_episodes: int
    code: Code
    isolation: Isolation
    packages: Packages
    notify: _containers.RepeatedCompositeFieldContainer[NoticeRule]
    def __init__(self, name: _Optional[str] = ..., runner: _Optional[str] = ..., algo: _Optional[str] = ..., env: _Optional[str] = ..., env_kwargs: _Optional[_Mapping[str, Value]] = ..., seed: _Optional[int] = ..., mode: _Optional[_Union[Mode, str]] = ..., params: _Optional[_Mapping[str, Value]] = ..., command: _Optional[_Iterable[str]] = ..., workdir: _Optional[str] = ..., variables: _Optional[_Mapping[str, str]] = ..., secrets: _Optional[_Iterable[str]] = ..., project: _Optional[str] = ..., labels: _Optional[_Mapping[str, str]] = ..., pool: _Optional[str] = ..., priority: _Optional[int] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., retry: _Optional[_Union[Retry, _Mapping]] = ..., total_steps: _Optional[int] = ..., notes: _Optional[str] = ..., gpus: _Optional[int] = ..., capture: _Optional[_Union[Capture, _Mapping]] = ..., warm_start: _Optional[_Union[WarmStart, _Mapping]] = ..., evaluation: _Optional[_Union[Evaluation, _Mapping]] = ..., dataset: _Optional[_Union[Dataset, _Mapping]] = ..., play: _Optional[_Union[Play, _Mapping]] = ..., fork: _Optional[_Union[ForkPoint, _Mapping]] = ..., max_episodes: _Optional[int] = ..., code: _Optional[_Union[Code, _Mapping]] = ..., isolation: _Optional[_Union[Isolation, _Mapping]] = ..., packages: _Optional[_Union[Packages, _Mapping]] = ..., notify: _Optional[_Iterable[_Union[NoticeRule, _Mapping]]] = ...) -> None: ...

class Packages(_message.Message):
    __slots__ = ("tree", "python", "extras", "groups", "source")
    TREE_FIELD_NUMBER: _ClassVar[int]
    PYTHON_FIELD_NUMBER: _ClassVar[int]
    EXTRAS_FIELD_NUMBER: _ClassVar[int]
    GROUPS_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    tree: str
    python: str
    extras: _containers.RepeatedScalarFieldContainer[str]
    groups: _containers.RepeatedScalarFieldContainer[str]
    source: str
    def __init__(self, tree: _Optional[str] = ..., python: _Optional[str] = ..., extras: _Optional[_Iterable[str]] = ..., groups: _Optional[_Iterable[str]] = ..., source: _Optional[str] = ...) -> None: ...

class NoticeRule(_message.Message):
    __slots__ = ("on", "channels", "name", "metric", "above", "below", "steps", "goal", "min_delta", "stop", "labels", "drop", "points", "minutes")
    class LabelsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    ON_FIELD_NUMBER: _ClassVar[int]
    CHANNELS_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    METRIC_FIELD_NUMBER: _ClassVar[int]
    ABOVE_FIELD_NUMBER: _ClassVar[int]
    BELOW_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    GOAL_FIELD_NUMBER: _ClassVar[int]
    MIN_DELTA_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    DROP_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    MINUTES_FIELD_NUMBER: _ClassVar[int]
    on: str
    channels: _containers.RepeatedScalarFieldContainer[str]
    name: str
    metric: str
    above: float
    below: float
    steps: int
    goal: str
    min_delta: float
    stop: bool
    labels: _containers.ScalarMap[str, str]
    drop: float
    points: int
    minutes: float
    def __init__(self, on: _Optional[str] = ..., channels: _Optional[_Iterable[str]] = ..., name: _Optional[str] = ..., metric: _Optional[str] = ..., above: _Optional[float] = ..., below: _Optional[float] = ..., steps: _Optional[int] = ..., goal: _Optional[str] = ..., min_delta: _Optional[float] = ..., stop: _Optional[bool] = ..., labels: _Optional[_Mapping[str, str]] = ..., drop: _Optional[float] = ..., points: _Optional[int] = ..., minutes: _Optional[float] = ...) -> None: ...

class Code(_message.Message):
    __slots__ = ("tree", "directory", "files", "bytes", "origin", "image")
    TREE_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    FILES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    ORIGIN_FIELD_NUMBER: _ClassVar[int]
    IMAGE_FIELD_NUMBER: _ClassVar[int]
    tree: str
    directory: str
    files: int
    bytes: int
    origin: CodeOrigin
    image: bool
    def __init__(self, tree: _Optional[str] = ..., directory: _Optional[str] = ..., files: _Optional[int] = ..., bytes: _Optional[int] = ..., origin: _Optional[_Union[CodeOrigin, _Mapping]] = ..., image: _Optional[bool] = ...) -> None: ...

class CodeOrigin(_message.Message):
    __slots__ = ("folder", "commit", "branch", "remote", "dirty", "diff", "diff_cut")
    FOLDER_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    BRANCH_FIELD_NUMBER: _ClassVar[int]
    REMOTE_FIELD_NUMBER: _ClassVar[int]
    DIRTY_FIELD_NUMBER: _ClassVar[int]
    DIFF_FIELD_NUMBER: _ClassVar[int]
    DIFF_CUT_FIELD_NUMBER: _ClassVar[int]
    folder: str
    commit: str
    branch: str
    remote: str
    dirty: bool
    diff: str
    diff_cut: bool
    def __init__(self, folder: _Optional[str] = ..., commit: _Optional[str] = ..., branch: _Optional[str] = ..., remote: _Optional[str] = ..., dirty: _Optional[bool] = ..., diff: _Optional[str] = ..., diff_cut: _Optional[bool] = ...) -> None: ...

class Isolation(_message.Message):
    __slots__ = ("required", "network")
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    NETWORK_FIELD_NUMBER: _ClassVar[int]
    required: bool
    network: str
    def __init__(self, required: _Optional[bool] = ..., network: _Optional[str] = ...) -> None: ...

class Play(_message.Message):
    __slots__ = ("actor", "steps_per_second", "turn_based", "episodes", "fork", "plan_text")
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    STEPS_PER_SECOND_FIELD_NUMBER: _ClassVar[int]
    TURN_BASED_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    FORK_FIELD_NUMBER: _ClassVar[int]
    PLAN_TEXT_FIELD_NUMBER: _ClassVar[int]
    actor: str
    steps_per_second: float
    turn_based: bool
    episodes: int
    fork: ForkPoint
    plan_text: str
    def __init__(self, actor: _Optional[str] = ..., steps_per_second: _Optional[float] = ..., turn_based: _Optional[bool] = ..., episodes: _Optional[int] = ..., fork: _Optional[_Union[ForkPoint, _Mapping]] = ..., plan_text: _Optional[str] = ...) -> None: ...

class ForkPoint(_message.Message):
    __slots__ = ("run_id", "episode", "step", "record", "every")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    RECORD_FIELD_NUMBER: _ClassVar[int]
    EVERY_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    episode: int
    step: int
    record: bytes
    every: bool
    def __init__(self, run_id: _Optional[str] = ..., episode: _Optional[int] = ..., step: _Optional[int] = ..., record: _Optional[bytes] = ..., every: _Optional[bool] = ...) -> None: ...

class Dataset(_message.Message):
    __slots__ = ("name", "digest", "size")
    NAME_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    name: str
    digest: str
    size: int
    def __init__(self, name: _Optional[str] = ..., digest: _Optional[str] = ..., size: _Optional[int] = ...) -> None: ...

class Capture(_message.Message):
    __slots__ = ("observations", "instrument", "verbose", "whole", "mirror")
    OBSERVATIONS_FIELD_NUMBER: _ClassVar[int]
    INSTRUMENT_FIELD_NUMBER: _ClassVar[int]
    VERBOSE_FIELD_NUMBER: _ClassVar[int]
    WHOLE_FIELD_NUMBER: _ClassVar[int]
    MIRROR_FIELD_NUMBER: _ClassVar[int]
    observations: ObservationPolicy
    instrument: bool
    verbose: bool
    whole: int
    mirror: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, observations: _Optional[_Union[ObservationPolicy, str]] = ..., instrument: _Optional[bool] = ..., verbose: _Optional[bool] = ..., whole: _Optional[int] = ..., mirror: _Optional[_Iterable[str]] = ...) -> None: ...

class WarmStart(_message.Message):
    __slots__ = ("run_id", "digest", "name", "given")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    GIVEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    digest: str
    name: str
    given: str
    def __init__(self, run_id: _Optional[str] = ..., digest: _Optional[str] = ..., name: _Optional[str] = ..., given: _Optional[str] = ...) -> None: ...

class Evaluation(_message.Message):
    __slots__ = ("digest", "run_id", "name", "episodes", "batches", "repeat", "stochastic", "video_frames")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAME_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    BATCHES_FIELD_NUMBER: _ClassVar[int]
    REPEAT_FIELD_NUMBER: _ClassVar[int]
    STOCHASTIC_FIELD_NUMBER: _ClassVar[int]
    VIDEO_FRAMES_FIELD_NUMBER: _ClassVar[int]
    digest: str
    run_id: str
    name: str
    episodes: int
    batches: int
    repeat: bool
    stochastic: bool
    video_frames: int
    def __init__(self, digest: _Optional[str] = ..., run_id: _Optional[str] = ..., name: _Optional[str] = ..., episodes: _Optional[int] = ..., batches: _Optional[int] = ..., repeat: _Optional[bool] = ..., stochastic: _Optional[bool] = ..., video_frames: _Optional[int] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("wall_seconds", "grace_seconds", "memory_mib", "cpus", "processes", "disk_mib", "stall_seconds")
    WALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    GRACE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    MEMORY_MIB_FIELD_NUMBER: _ClassVar[int]
    CPUS_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    DISK_MIB_FIELD_NUMBER: _ClassVar[int]
    STALL_SECONDS_FIELD_NUMBER: _ClassVar[int]
    wall_seconds: float
    grace_seconds: float
    memory_mib: int
    cpus: float
    processes: int
    disk_mib: int
    stall_seconds: float
    def __init__(self, wall_seconds: _Optional[float] = ..., grace_seconds: _Optional[float] = ..., memory_mib: _Optional[int] = ..., cpus: _Optional[float] = ..., processes: _Optional[int] = ..., disk_mib: _Optional[int] = ..., stall_seconds: _Optional[float] = ...) -> None: ...

class Retry(_message.Message):
    __slots__ = ("max_attempts", "backoff_seconds")
    MAX_ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    BACKOFF_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_attempts: int
    backoff_seconds: float
    def __init__(self, max_attempts: _Optional[int] = ..., backoff_seconds: _Optional[float] = ...) -> None: ...
