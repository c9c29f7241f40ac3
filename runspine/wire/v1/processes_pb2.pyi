from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class DumpStacksRequest(_message.Message):
    __slots__ = ("run_id",)
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    def __init__(self, run_id: _Optional[str] = ...) -> None: ...

class DumpStacksResponse(_message.Message):
    __slots__ = ("worker_id", "attempt", "processes", "left_out")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    PROCESSES_FIELD_NUMBER: _ClassVar[int]
    LEFT_OUT_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    attempt: int
    processes: _containers.RepeatedCompositeFieldContainer[ProcessStacks]
    left_out: int
    def __init__(self, worker_id: _Optional[str] = ..., attempt: _Optional[int] = ..., processes: _Optional[_Iterable[_Union[ProcessStacks, _Mapping]]] = ..., left_out: _Optional[int] = ...) -> None: ...

class ProcessStacks(_message.Message):
    __slots__ = ("pid", "command", "state", "waits_in", "lines", "missing")
    PID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    STATE_FIELD_NUMBER: _ClassVar[int]
    WAITS_IN_FIELD_NUMBER: _ClassVar[int]
    LINES_FIELD_NUMBER: _ClassVar[int]
    MISSING_FIELD_NUMBER: _ClassVar[int]
    pid: int
    command: str
    state: str
    waits_in: str
    lines: _containers.RepeatedScalarFieldContainer[str]
    missing: str
    def __init__(self, pid: _Optional[int] = ..., command: _Optional[str] = ..., state: _Optional[str] = ..., waits_in: _Optional[str] = ..., lines: _Optional[_Iterable[str]] = ..., missing: _Optional[str] = ...) -> None: ...

class AttachRequest(_message.Message):
    __slots__ = ("begin", "input", "size")
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    begin: AttachBegin
    input: bytes
    size: TerminalSize
    def __init__(self, begin: _Optional[_Union[AttachBegin, _Mapping]] = ..., input: _Optional[bytes] = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ...) -> None: ...

class AttachBegin(_message.Message):
    __slots__ = ("run_id", "command", "size", "term")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TERM_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    command: _containers.RepeatedScalarFieldContainer[str]
    size: TerminalSize
    term: str
    def __init__(self, run_id: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., term: _Optional[str] = ...) -> None: ...

class TerminalSize(_message.Message):
    __slots__ = ("rows", "columns")
    ROWS_FIELD_NUMBER: _ClassVar[int]
    COLUMNS_FIELD_NUMBER: _ClassVar[int]
    rows: int
    columns: int
    def __init__(self, rows: _Optional[int] = ..., columns: _Optional[int] = ...) -> None: ...

class AttachResponse(_message.Message):
    __slots__ = ("began", "output", "ended")
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    began: AttachBegan
    output: bytes
    ended: AttachEnded
    def __init__(self, began: _Optional[_Union[AttachBegan, _Mapping]] = ..., output: _Optional[bytes] = ..., ended: _Optional[_Union[AttachEnded, _Mapping]] = ...) -> None: ...

class AttachBegan(_message.Message):
    __slots__ = ("worker_id", "attempt", "sandboxed")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SANDBOXED_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    attempt: int
    sandboxed: bool
    def __init__(self, worker_id: _Optional[str] = ..., attempt: _Optional[int] = ..., sandboxed: _Optional[bool] = ...) -> None: ...

class AttachEnded(_message.Message):
    __slots__ = ("exit_code", "reason")
    EXIT_CODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    exit_code: int
    reason: str
    def __init__(self, exit_code: _Optional[int] = ..., reason: _Optional[str] = ...) -> None: ...

class ProcessRequest(_message.Message):
    __slots__ = ("run_id", "attempt", "sequence", "stacks", "begin", "input", "size", "taken", "end")
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    BEGIN_FIELD_NUMBER: _ClassVar[int]
    INPUT_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    TAKEN_FIELD_NUMBER: _ClassVar[int]
    END_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    sequence: int
    stacks: DumpStacksRequest
    begin: AttachBegin
    input: bytes
    size: TerminalSize
    taken: int
    end: bool
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., sequence: _Optional[int] = ..., stacks: _Optional[_Union[DumpStacksRequest, _Mapping]] = ..., begin: _Optional[_Union[AttachBegin, _Mapping]] = ..., input: _Optional[bytes] = ..., size: _Optional[_Union[TerminalSize, _Mapping]] = ..., taken: _Optional[int] = ..., end: _Optional[bool] = ...) -> None: ...

class ProcessReply(_message.Message):
    __slots__ = ("worker_id", "sequence", "stacks", "began", "output", "ended", "refused", "alive")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    SEQUENCE_FIELD_NUMBER: _ClassVar[int]
    STACKS_FIELD_NUMBER: _ClassVar[int]
    BEGAN_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    ENDED_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    ALIVE_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    sequence: int
    stacks: DumpStacksResponse
    began: AttachBegan
    output: bytes
    ended: AttachEnded
    refused: str
    alive: bool
    def __init__(self, worker_id: _Optional[str] = ..., sequence: _Optional[int] = ..., stacks: _Optional[_Union[DumpStacksResponse, _Mapping]] = ..., began: _Optional[_Union[AttachBegan, _Mapping]] = ..., output: _Optional[bytes] = ..., ended: _Optional[_Union[AttachEnded, _Mapping]] = ..., refused: _Optional[str] = ..., alive: _Optional[bool] = ...) -> None: ...
