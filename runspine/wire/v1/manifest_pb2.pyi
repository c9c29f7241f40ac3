from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class Manifest(_message.Message):
    __slots__ = ("number", "previous", "partition", "partitions", "cursor", "added", "removed", "covered", "full", "at", "writer")
    NUMBER_FIELD_NUMBER: _ClassVar[int]
    PREVIOUS_FIELD_NUMBER: _ClassVar[int]
    PARTITION_FIELD_NUMBER: _ClassVar[int]
    PARTITIONS_FIELD_NUMBER: _ClassVar[int]
    CURSOR_FIELD_NUMBER: _ClassVar[int]
    ADDED_FIELD_NUMBER: _ClassVar[int]
    REMOVED_FIELD_NUMBER: _ClassVar[int]
    COVERED_FIELD_NUMBER: _ClassVar[int]
    FULL_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    WRITER_FIELD_NUMBER: _ClassVar[int]
    number: int
    previous: bytes
    partition: int
    partitions: int
    cursor: int
    added: _containers.RepeatedCompositeFieldContainer[Segment]
    removed: _containers.RepeatedScalarFieldContainer[str]
    covered: _containers.RepeatedCompositeFieldContainer[Covered]
    full: bool
    at: int
    writer: str
    def __init__(self, number: _Optional[int] = ..., previous: _Optional[bytes] = ..., partition: _Optional[int] = ..., partitions: _Optional[int] = ..., cursor: _Optional[int] = ..., added: _Optional[_Iterable[_Union[Segment, _Mapping]]] = ..., removed: _Optional[_Iterable[str]] = ..., covered: _Optional[_Iterable[_Union[Covered, _Mapping]]] = ..., full: _Optional[bool] = ..., at: _Optional[int] = ..., writer: _Optional[str] = ...) -> None: ...

class Covered(_message.Message):
    __slots__ = ("run_id", "attempt", "first", "last")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    first: _containers.RepeatedScalarFieldContainer[int]
    last: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., first: _Optional[_Iterable[int]] = ..., last: _Optional[_Iterable[int]] = ...) -> None: ...

class Segment(_message.Message):
    __slots__ = ("run_id", "kind", "key", "rows", "size", "sha256", "first", "last", "variant", "attempts", "series", "levels_key", "levels_size", "levels_sha256", "raw_size")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    KIND_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    SHA256_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    VARIANT_FIELD_NUMBER: _ClassVar[int]
    ATTEMPTS_FIELD_NUMBER: _ClassVar[int]
    SERIES_FIELD_NUMBER: _ClassVar[int]
    LEVELS_KEY_FIELD_NUMBER: _ClassVar[int]
    LEVELS_SIZE_FIELD_NUMBER: _ClassVar[int]
    LEVELS_SHA256_FIELD_NUMBER: _ClassVar[int]
    RAW_SIZE_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    kind: str
    key: str
    rows: int
    size: int
    sha256: bytes
    first: int
    last: int
    variant: str
    attempts: _containers.RepeatedCompositeFieldContainer[AttemptRows]
    series: _containers.RepeatedCompositeFieldContainer[SeriesSummary]
    levels_key: str
    levels_size: int
    levels_sha256: bytes
    raw_size: int
    def __init__(self, run_id: _Optional[str] = ..., kind: _Optional[str] = ..., key: _Optional[str] = ..., rows: _Optional[int] = ..., size: _Optional[int] = ..., sha256: _Optional[bytes] = ..., first: _Optional[int] = ..., last: _Optional[int] = ..., variant: _Optional[str] = ..., attempts: _Optional[_Iterable[_Union[AttemptRows, _Mapping]]] = ..., series: _Optional[_Iterable[_Union[SeriesSummary, _Mapping]]] = ..., levels_key: _Optional[str] = ..., levels_size: _Optional[int] = ..., levels_sha256: _Optional[bytes] = ..., raw_size: _Optional[int] = ...) -> None: ...

class AttemptRows(_message.Message):
    __slots__ = ("attempt", "rows")
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROWS_FIELD_NUMBER: _ClassVar[int]
    attempt: int
    rows: int
    def __init__(self, attempt: _Optional[int] = ..., rows: _Optional[int] = ...) -> None: ...

class SeriesSummary(_message.Message):
    __slots__ = ("name", "attempt", "row", "points", "nans", "low", "high", "total", "last", "first_step", "last_step", "first_at", "last_at")
    NAME_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    ROW_FIELD_NUMBER: _ClassVar[int]
    POINTS_FIELD_NUMBER: _ClassVar[int]
    NANS_FIELD_NUMBER: _ClassVar[int]
    LOW_FIELD_NUMBER: _ClassVar[int]
    HIGH_FIELD_NUMBER: _ClassVar[int]
    TOTAL_FIELD_NUMBER: _ClassVar[int]
    LAST_FIELD_NUMBER: _ClassVar[int]
    FIRST_STEP_FIELD_NUMBER: _ClassVar[int]
    LAST_STEP_FIELD_NUMBER: _ClassVar[int]
    FIRST_AT_FIELD_NUMBER: _ClassVar[int]
    LAST_AT_FIELD_NUMBER: _ClassVar[int]
    name: str
    attempt: int
    row: int
    points: int
    nans: int
    low: float
    high: float
    total: float
    last: float
    first_step: int
    last_step: int
    first_at: int
    last_at: int
    def __init__(self, name: _Optional[str] = ..., attempt: _Optional[int] = ..., row: _Optional[int] = ..., points: _Optional[int] = ..., nans: _Optional[int] = ..., low: _Optional[float] = ..., high: _Optional[float] = ..., total: _Optional[float] = ..., last: _Optional[float] = ..., first_step: _Optional[int] = ..., last_step: _Optional[int] = ..., first_at: _Optional[int] = ..., last_at: _Optional[int] = ...) -> None: ...
