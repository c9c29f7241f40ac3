from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class LogSource(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    LOG_SOURCE_UNSPECIFIED: _ClassVar[LogSource]
    STDOUT: _ClassVar[LogSource]
    STDERR: _ClassVar[LogSource]
    WORKER: _ClassVar[LogSource]
    MIND: _ClassVar[LogSource]
    TURN: _ClassVar[LogSource]

class Axis(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    AXIS_UNSPECIFIED: _ClassVar[Axis]
    ENV_STEP: _ClassVar[Axis]
    TIME: _ClassVar[Axis]
    EPISODE: _ClassVar[Axis]

class EpisodeOrder(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    EPISODE_ORDER_UNSPECIFIED: _ClassVar[EpisodeOrder]
    BY_TIME: _ClassVar[EpisodeOrder]
    BY_RETURN: _ClassVar[EpisodeOrder]
    BY_LENGTH: _ClassVar[EpisodeOrder]
LOG_SOURCE_UNSPECIFIED: LogSource
STDOUT: LogSource
STDERR: LogSource
WORKER: LogSource
MIND: LogSource
TURN: LogSource
AXIS_UNSPECIFIED: Axis
ENV_STEP: Axis
TIME: Axis
EPISODE: Axis
EPISODE_ORDER_UNSPECIFIED: EpisodeOrder
BY_TIME: EpisodeOrder
BY_RETURN: EpisodeOrder
BY_LENGTH: EpisodeOrder

class Batch(_message.Message):
    __slots__ = ("run_id", "attempt", "number", "logs", "steps", "episodes", "metrics", "envs", "evaluations")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    LOGS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    METRICS_FIELD_NUMBER: _ClassVar[int]
    ENVS_FIELD_NUMBER: _ClassVar[int]
    EVALUATIONS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    number: int
    logs: LogBatch
    steps: StepBatch
    episodes: EpisodeBatch
    metrics: MetricBatch
    envs: EnvBatch
    evaluations: EvaluationBatch
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., number: _Optional[int] = ..., logs: _Optional[_Union[LogBatch, _Mapping]] = ..., steps: _Optional[_Union[StepBatch, _Mapping]] = ..., episodes: _Optional[_Union[EpisodeBatch, _Mapping]] = ..., metrics: _Optional[_Union[MetricBatch, _Mapping]] = ..., envs: _Optional[_Union[EnvBatch, _Mapping]] = ..., evaluations: _Optional[_Union[EvaluationBatch, _Mapping]] = ...) -> None: ...

class Array(_message.Message):
    __slots__ = ("dtype", "shape", "data")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    SHAPE_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    dtype: str
    shape: _containers.RepeatedScalarFieldContainer[int]
    data: bytes
    def __init__(self, dtype: _Optional[str] = ..., shape: _Optional[_Iterable[int]] = ..., data: _Optional[bytes] = ...) -> None: ...

class StepBatch(_message.Message):
    __slots__ = ("blocks", "steps_before")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    STEPS_BEFORE_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[StepBlock]
    steps_before: int
    def __init__(self, blocks: _Optional[_Iterable[_Union[StepBlock, _Mapping]]] = ..., steps_before: _Optional[int] = ...) -> None: ...

class StepBlock(_message.Message):
    __slots__ = ("episode_id", "slot", "agent_id", "first_step", "count", "action", "action_json", "reward", "flags", "observation", "observation_hash", "observation_json", "first_at", "last_at", "global_step", "actor")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    ACTION_FIELD_NUMBER: _ClassVar[int]
    ACTION_JSON_FIELD_NUMBER: _ClassVar[int]
    REWARD_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_HASH_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_JSON_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_STEP_FIELD_NUMBER: _ClassVar[int]
    ACTOR_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    slot: int
    agent_id: str
    first_step: int
    count: int
    action: Array
    action_json: _containers.RepeatedScalarFieldContainer[str]
    reward: Array
    flags: bytes
    observation: Array
    observation_hash: bytes
    observation_json: _containers.RepeatedScalarFieldContainer[str]
    first_at: int
    last_at: int
    global_step: int
    actor: str
    def __init__(self, episode_id: _Optional[str] = ..., slot: _Optional[int] = ..., agent_id: _Optional[str] = ..., first_step: _Optional[int] = ..., count: _Optional[int] = ..., action: _Optional[_Union[Array, _Mapping]] = ..., action_json: _Optional[_Iterable[str]] = ..., reward: _Optional[_Union[Array, _Mapping]] = ..., flags: _Optional[bytes] = ..., observation: _Optional[_Union[Array, _Mapping]] = ..., observation_hash: _Optional[bytes] = ..., observation_json: _Optional[_Iterable[str]] = ..., first_at: _Optional[int] = ..., last_at: _Optional[int] = ..., global_step: _Optional[int] = ..., actor: _Optional[str] = ...) -> None: ...

class EpisodeBatch(_message.Message):
    __slots__ = ("episodes",)
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    episodes: _containers.RepeatedCompositeFieldContainer[Episode]
    def __init__(self, episodes: _Optional[_Iterable[_Union[Episode, _Mapping]]] = ...) -> None: ...

class Episode(_message.Message):
    __slots__ = ("episode_id", "slot", "agent_id", "steps", "ended_at", "global_step", "flags")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    RETURN_FIELD_NUMBER: _ClassVar[int]
    ENDED_AT_FIELD_NUMBER: _ClassVar[int]
    GLOBAL_STEP_FIELD_NUMBER: _ClassVar[int]
    FLAGS_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    slot: int
    agent_id: str
    steps: int
    ended_at: int
    global_step: int
    flags: int
    def __init__(self, episode_id: _Optional[str] = ..., slot: _Optional[int] = ..., agent_id: _Optional[str] = ..., steps: _Optional[int] = ..., ended_at: _Optional[int] = ..., global_step: _Optional[int] = ..., flags: _Optional[int] = ..., **kwargs) -> None: ...

class MetricBatch(_message.Message):
    __slots__ = ("blocks",)
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[MetricBlock]
    def __init__(self, blocks: _Optional[_Iterable[_Union[MetricBlock, _Mapping]]] = ...) -> None: ...

class MetricBlock(_message.Message):
    __slots__ = ("name", "values", "steps", "at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: _containers.RepeatedScalarFieldContainer[float]
    steps: _containers.RepeatedScalarFieldContainer[int]
    at: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, name: _Optional[str] = ..., values: _Optional[_Iterable[float]] = ..., steps: _Optional[_Iterable[int]] = ..., at: _Optional[_Iterable[int]] = ...) -> None: ...

class EvaluationBatch(_message.Message):
    __slots__ = ("scores",)
    SCORES_FIELD_NUMBER: _ClassVar[int]
    scores: _containers.RepeatedCompositeFieldContainer[Score]
    def __init__(self, scores: _Optional[_Iterable[_Union[Score, _Mapping]]] = ...) -> None: ...

class Score(_message.Message):
    __slots__ = ("batch", "digest", "env_id", "algo", "seed", "deterministic", "returns", "lengths", "mean", "minimum", "maximum", "median", "std", "seconds", "at", "step")
    BATCH_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    ENV_ID_FIELD_NUMBER: _ClassVar[int]
    ALGO_FIELD_NUMBER: _ClassVar[int]
    SEED_FIELD_NUMBER: _ClassVar[int]
    DETERMINISTIC_FIELD_NUMBER: _ClassVar[int]
    RETURNS_FIELD_NUMBER: _ClassVar[int]
    LENGTHS_FIELD_NUMBER: _ClassVar[int]
    MEAN_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    MEDIAN_FIELD_NUMBER: _ClassVar[int]
    STD_FIELD_NUMBER: _ClassVar[int]
    SECONDS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    batch: int
    digest: str
    env_id: str
    algo: str
    seed: int
    deterministic: bool
    returns: _containers.RepeatedScalarFieldContainer[float]
    lengths: _containers.RepeatedScalarFieldContainer[int]
    mean: float
    minimum: float
    maximum: float
    median: float
    std: float
    seconds: float
    at: int
    step: int
    def __init__(self, batch: _Optional[int] = ..., digest: _Optional[str] = ..., env_id: _Optional[str] = ..., algo: _Optional[str] = ..., seed: _Optional[int] = ..., deterministic: _Optional[bool] = ..., returns: _Optional[_Iterable[float]] = ..., lengths: _Optional[_Iterable[int]] = ..., mean: _Optional[float] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., median: _Optional[float] = ..., std: _Optional[float] = ..., seconds: _Optional[float] = ..., at: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class EnvBatch(_message.Message):
    __slots__ = ("made", "resets", "configs")
    MADE_FIELD_NUMBER: _ClassVar[int]
    RESETS_FIELD_NUMBER: _ClassVar[int]
    CONFIGS_FIELD_NUMBER: _ClassVar[int]
    made: _containers.RepeatedCompositeFieldContainer[EnvMade]
    resets: _containers.RepeatedCompositeFieldContainer[Reset]
    configs: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, made: _Optional[_Iterable[_Union[EnvMade, _Mapping]]] = ..., resets: _Optional[_Iterable[_Union[Reset, _Mapping]]] = ..., configs: _Optional[_Iterable[str]] = ...) -> None: ...

class EnvMade(_message.Message):
    __slots__ = ("slot", "env_id", "kwargs_json", "versions", "at", "entry_point", "wrappers_json", "frame_skip", "agents")
    class VersionsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    SLOT_FIELD_NUMBER: _ClassVar[int]
    ENV_ID_FIELD_NUMBER: _ClassVar[int]
    KWARGS_JSON_FIELD_NUMBER: _ClassVar[int]
    VERSIONS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    ENTRY_POINT_FIELD_NUMBER: _ClassVar[int]
    WRAPPERS_JSON_FIELD_NUMBER: _ClassVar[int]
    FRAME_SKIP_FIELD_NUMBER: _ClassVar[int]
    AGENTS_FIELD_NUMBER: _ClassVar[int]
    slot: int
    env_id: str
    kwargs_json: str
    versions: _containers.ScalarMap[str, str]
    at: int
    entry_point: str
    wrappers_json: str
    frame_skip: int
    agents: str
    def __init__(self, slot: _Optional[int] = ..., env_id: _Optional[str] = ..., kwargs_json: _Optional[str] = ..., versions: _Optional[_Mapping[str, str]] = ..., at: _Optional[int] = ..., entry_point: _Optional[str] = ..., wrappers_json: _Optional[str] = ..., frame_skip: _Optional[int] = ..., agents: _Optional[str] = ...) -> None: ...

class Reset(_message.Message):
    __slots__ = ("episode_id", "slot", "seed_json", "options_json", "rng_json", "ordinal", "observation", "observation_hash", "at", "agent_id", "observation_json", "state_json")
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    SLOT_FIELD_NUMBER: _ClassVar[int]
    SEED_JSON_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_JSON_FIELD_NUMBER: _ClassVar[int]
    RNG_JSON_FIELD_NUMBER: _ClassVar[int]
    ORDINAL_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_HASH_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    AGENT_ID_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_JSON_FIELD_NUMBER: _ClassVar[int]
    STATE_JSON_FIELD_NUMBER: _ClassVar[int]
    episode_id: str
    slot: int
    seed_json: str
    options_json: str
    rng_json: str
    ordinal: int
    observation: Array
    observation_hash: bytes
    at: int
    agent_id: str
    observation_json: str
    state_json: str
    def __init__(self, episode_id: _Optional[str] = ..., slot: _Optional[int] = ..., seed_json: _Optional[str] = ..., options_json: _Optional[str] = ..., rng_json: _Optional[str] = ..., ordinal: _Optional[int] = ..., observation: _Optional[_Union[Array, _Mapping]] = ..., observation_hash: _Optional[bytes] = ..., at: _Optional[int] = ..., agent_id: _Optional[str] = ..., observation_json: _Optional[str] = ..., state_json: _Optional[str] = ...) -> None: ...

class LogBatch(_message.Message):
    __slots__ = ("lines",)
    LINES_FIELD_NUMBER: _ClassVar[int]
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    def __init__(self, lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ...) -> None: ...

class LogLine(_message.Message):
    __slots__ = ("number", "at", "source", "text")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SOURCE_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    number: int
    at: int
    source: LogSource
    text: str
    def __init__(self, number: _Optional[int] = ..., at: _Optional[int] = ..., source: _Optional[_Union[LogSource, str]] = ..., text: _Optional[str] = ...) -> None: ...

class StreamLogsRequest(_message.Message):
    __slots__ = ("run_id", "after", "follow")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after: int
    follow: bool
    def __init__(self, run_id: _Optional[str] = ..., after: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class StreamLogsResponse(_message.Message):
    __slots__ = ("position", "attempt", "lines")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    position: int
    attempt: int
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    def __init__(self, position: _Optional[int] = ..., attempt: _Optional[int] = ..., lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ...) -> None: ...

class StreamRequest(_message.Message):
    __slots__ = ("run_id", "after", "follow")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    FOLLOW_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    after: int
    follow: bool
    def __init__(self, run_id: _Optional[str] = ..., after: _Optional[int] = ..., follow: _Optional[bool] = ...) -> None: ...

class StreamStepsResponse(_message.Message):
    __slots__ = ("position", "attempt", "blocks", "missed_from", "missed_to")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    MISSED_FROM_FIELD_NUMBER: _ClassVar[int]
    MISSED_TO_FIELD_NUMBER: _ClassVar[int]
    position: int
    attempt: int
    blocks: _containers.RepeatedCompositeFieldContainer[StepBlock]
    missed_from: int
    missed_to: int
    def __init__(self, position: _Optional[int] = ..., attempt: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[StepBlock, _Mapping]]] = ..., missed_from: _Optional[int] = ..., missed_to: _Optional[int] = ...) -> None: ...

class StreamEpisodesResponse(_message.Message):
    __slots__ = ("position", "attempt", "episodes")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    position: int
    attempt: int
    episodes: _containers.RepeatedCompositeFieldContainer[Episode]
    def __init__(self, position: _Optional[int] = ..., attempt: _Optional[int] = ..., episodes: _Optional[_Iterable[_Union[Episode, _Mapping]]] = ...) -> None: ...

class StreamMetricsResponse(_message.Message):
    __slots__ = ("position", "attempt", "blocks")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    position: int
    attempt: int
    blocks: _containers.RepeatedCompositeFieldContainer[MetricBlock]
    def __init__(self, position: _Optional[int] = ..., attempt: _Optional[int] = ..., blocks: _Optional[_Iterable[_Union[MetricBlock, _Mapping]]] = ...) -> None: ...

class StreamEvaluationsResponse(_message.Message):
    __slots__ = ("position", "attempt", "scores")
    POSITION_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SCORES_FIELD_NUMBER: _ClassVar[int]
    position: int
    attempt: int
    scores: _containers.RepeatedCompositeFieldContainer[Score]
    def __init__(self, position: _Optional[int] = ..., attempt: _Optional[int] = ..., scores: _Optional[_Iterable[_Union[Score, _Mapping]]] = ...) -> None: ...

class ListSeriesRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class ListSeriesResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[SeriesInfo]
    def __init__(self, series: _Optional[_Iterable[_Union[SeriesInfo, _Mapping]]] = ...) -> None: ...

class SeriesInfo(_message.Message):
    __slots__ = ("name", "points", "first_step", "last_step", "minimum", "maximum", "last")
    NAME_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    name: str
    points: int
    first_step: int
    last_step: int
    minimum: float
    maximum: float
    last: float
    def __init__(self, name: _Optional[str] = ..., points: _Optional[int] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., last: _Optional[float] = ...) -> None: ...

class RecentMetricsRequest(_message.Message):
    __slots__ = ("run_id", "names", "count")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    count: int
    def __init__(self, run_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., count: _Optional[int] = ...) -> None: ...

class RecentMetricsResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[MetricBlock]
    def __init__(self, series: _Optional[_Iterable[_Union[MetricBlock, _Mapping]]] = ...) -> None: ...

class QueryMetricsRequest(_message.Message):
    __slots__ = ("run_id", "names", "axis", "to", "max_points")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    AXIS_FIELD_NUMBER: _ClassVar[int]
    FROM_FIELD_NUMBER: _ClassVar[int]
    TO_FIELD_NUMBER: _ClassVar[int]
    MAX_POINTS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    axis: Axis
    to: float
    max_points: int
    def __init__(self, run_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., axis: _Optional[_Union[Axis, str]] = ..., to: _Optional[float] = ..., max_points: _Optional[int] = ..., **kwargs) -> None: ...

class QueryMetricsResponse(_message.Message):
    __slots__ = ("series",)
    SERIES_FIELD_NUMBER: _ClassVar[int]
    series: _containers.RepeatedCompositeFieldContainer[Series]
    def __init__(self, series: _Optional[_Iterable[_Union[Series, _Mapping]]] = ...) -> None: ...

class Series(_message.Message):
    __slots__ = ("name", "exact", "x", "y", "low", "high", "points")
    NAME_FIELD_NUMBER: _ClassVar[int]
    EXACT_FIELD_NUMBER: _ClassVar[int]
    X_FIELD_NUMBER: _ClassVar[int]
    Y_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    name: str
    exact: bool
    x: _containers.RepeatedScalarFieldContainer[float]
    y: _containers.RepeatedScalarFieldContainer[float]
    low: _containers.RepeatedScalarFieldContainer[float]
    high: _containers.RepeatedScalarFieldContainer[float]
    points: int
    def __init__(self, name: _Optional[str] = ..., exact: _Optional[bool] = ..., x: _Optional[_Iterable[float]] = ..., y: _Optional[_Iterable[float]] = ..., low: _Optional[_Iterable[float]] = ..., high: _Optional[_Iterable[float]] = ..., points: _Optional[int] = ...) -> None: ...

class ReadPointsRequest(_message.Message):
    __slots__ = ("run_id", "names", "with_times", "after")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    NAMES_FIELD_NUMBER: _ClassVar[int]
    WITH_TIMES_FIELD_NUMBER: _ClassVar[int]
    AFTER_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    names: _containers.RepeatedScalarFieldContainer[str]
    with_times: bool
    after: int
    def __init__(self, run_id: _Optional[str] = ..., names: _Optional[_Iterable[str]] = ..., with_times: _Optional[bool] = ..., after: _Optional[int] = ...) -> None: ...

class ReadPointsResponse(_message.Message):
    __slots__ = ("blocks", "position")
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    blocks: _containers.RepeatedCompositeFieldContainer[PointBlock]
    position: int
    def __init__(self, blocks: _Optional[_Iterable[_Union[PointBlock, _Mapping]]] = ..., position: _Optional[int] = ...) -> None: ...

class PointBlock(_message.Message):
    __slots__ = ("name", "values", "steps", "at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    values: bytes
    steps: bytes
    at: bytes
    def __init__(self, name: _Optional[str] = ..., values: _Optional[bytes] = ..., steps: _Optional[bytes] = ..., at: _Optional[bytes] = ...) -> None: ...

class ListEpisodesRequest(_message.Message):
    __slots__ = ("run_id", "order", "descending", "page_size", "page_token")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ORDER_FIELD_NUMBER: _ClassVar[int]
    DESCENDING_FIELD_NUMBER: _ClassVar[int]
    PAGE_SIZE_FIELD_NUMBER: _ClassVar[int]
    PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    order: EpisodeOrder
    descending: bool
    page_size: int
    page_token: str
    def __init__(self, run_id: _Optional[str] = ..., order: _Optional[_Union[EpisodeOrder, str]] = ..., descending: _Optional[bool] = ..., page_size: _Optional[int] = ..., page_token: _Optional[str] = ...) -> None: ...

class ListEpisodesResponse(_message.Message):
    __slots__ = ("episodes", "next_page_token", "total")
    EPISODES_FIELD_NUMBER: _ClassVar[int]
    NEXT_PAGE_TOKEN_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    episodes: _containers.RepeatedCompositeFieldContainer[EpisodeEntry]
    next_page_token: str
    total: int
    def __init__(self, episodes: _Optional[_Iterable[_Union[EpisodeEntry, _Mapping]]] = ..., next_page_token: _Optional[str] = ..., total: _Optional[int] = ...) -> None: ...

class EpisodeEntry(_message.Message):
    __slots__ = ("attempt", "index", "episode")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    EPISODE_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    index: int
    episode: Episode
    def __init__(self, attempt: _Optional[int] = ..., index: _Optional[int] = ..., episode: _Optional[_Union[Episode, _Mapping]] = ...) -> None: ...

class GetEpisodeRequest(_message.Message):
    __slots__ = ("run_id", "episode_id", "attempt", "index")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    EPISODE_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    INDEX_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    episode_id: str
    attempt: int
    index: int
    def __init__(self, run_id: _Optional[str] = ..., episode_id: _Optional[str] = ..., attempt: _Optional[int] = ..., index: _Optional[int] = ...) -> None: ...

class GetEpisodeResponse(_message.Message):
    __slots__ = ("entry", "env", "reset", "blocks")
    ENTRY_FIELD_NUMBER: _ClassVar[int]
    ENV_FIELD_NUMBER: _ClassVar[int]
    RESET_FIELD_NUMBER: _ClassVar[int]
    BLOCKS_FIELD_NUMBER: _ClassVar[int]
    entry: EpisodeEntry
    env: EnvMade
    reset: Reset
    blocks: _containers.RepeatedCompositeFieldContainer[StepBlock]
    def __init__(self, entry: _Optional[_Union[EpisodeEntry, _Mapping]] = ..., env: _Optional[_Union[EnvMade, _Mapping]] = ..., reset: _Optional[_Union[Reset, _Mapping]] = ..., blocks: _Optional[_Iterable[_Union[StepBlock, _Mapping]]] = ...) -> None: ...

class SearchLogsRequest(_message.Message):
    __slots__ = ("run_id", "text", "regular_expression", "limit")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    TEXT_FIELD_NUMBER: _ClassVar[int]
    REGULAR_EXPRESSION_FIELD_NUMBER: _ClassVar[int]
    LIMIT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    text: str
    regular_expression: bool
    limit: int
    def __init__(self, run_id: _Optional[str] = ..., text: _Optional[str] = ..., regular_expression: _Optional[bool] = ..., limit: _Optional[int] = ...) -> None: ...

class ReadLogLinesRequest(_message.Message):
    __slots__ = ("run_id", "attempt", "first", "count")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    COUNT_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    first: int
    count: int
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., first: _Optional[int] = ..., count: _Optional[int] = ...) -> None: ...

class ReadLogLinesResponse(_message.Message):
    __slots__ = ("attempts", "attempt", "lines")
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptLines]
    attempt: int
    lines: _containers.RepeatedCompositeFieldContainer[LogLine]
    def __init__(self, attempts: _Optional[_Iterable[_Union[AttemptLines, _Mapping]]] = ..., attempt: _Optional[int] = ..., lines: _Optional[_Iterable[_Union[LogLine, _Mapping]]] = ...) -> None: ...

class AttemptLines(_message.Message):
    __slots__ = ("attempt", "lines")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    lines: int
    def __init__(self, attempt: _Optional[int] = ..., lines: _Optional[int] = ...) -> None: ...

class SqlRequest(_message.Message):
    __slots__ = ("run_id", "query", "max_rows", "run_ids")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    MAX_ROWS_FIELD_NUMBER: _ClassVar[int]
    RUN_IDS_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    query: str
    max_rows: int
    run_ids: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, run_id: _Optional[str] = ..., query: _Optional[str] = ..., max_rows: _Optional[int] = ..., run_ids: _Optional[_Iterable[str]] = ...) -> None: ...

class SqlResponse(_message.Message):
    __slots__ = ("arrow",)
    ARROW_FIELD_NUMBER: _ClassVar[int]
    arrow: bytes
    def __init__(self, arrow: _Optional[bytes] = ...) -> None: ...
