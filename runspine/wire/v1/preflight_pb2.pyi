from runspine.wire.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class PreflightState(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PREFLIGHT_STATE_UNSPECIFIED: _ClassVar[PreflightState]
    PREFLIGHT_READY: _ClassVar[PreflightState]
    PREFLIGHT_UNKNOWN: _ClassVar[PreflightState]
PREFLIGHT_STATE_UNSPECIFIED: PreflightState
PREFLIGHT_READY: PreflightState
PREFLIGHT_UNKNOWN: PreflightState

class Preflight(_message.Message):
    __slots__ = ("state", "at", "worker_id", "command", "directory", "reason")
    STATE_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    state: PreflightState
    at: int
    worker_id: str
    command: _containers.RepeatedScalarFieldContainer[str]
    directory: str
    reason: str
    def __init__(self, state: _Optional[_Union[PreflightState, str]] = ..., at: _Optional[int] = ..., worker_id: _Optional[str] = ..., command: _Optional[_Iterable[str]] = ..., directory: _Optional[str] = ..., reason: _Optional[str] = ...) -> None: ...

class PreflightRequest(_message.Message):
    __slots__ = ("spec", "trained_env", "trained_env_kwargs")
    class TrainedEnvKwargsEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: _spec_pb2.Value
        def __init__(self, key: _Optional[str] = ..., value: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ...) -> None: ...
    SPEC_FIELD_NUMBER: _ClassVar[int]
    TRAINED_ENV_FIELD_NUMBER: _ClassVar[int]
    TRAINED_ENV_KWARGS_FIELD_NUMBER: _ClassVar[int]
    spec: _spec_pb2.RunSpec
    trained_env: str
    trained_env_kwargs: _containers.MessageMap[str, _spec_pb2.Value]
    def __init__(self, spec: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., trained_env: _Optional[str] = ..., trained_env_kwargs: _Optional[_Mapping[str, _spec_pb2.Value]] = ...) -> None: ...

class PreflightReply(_message.Message):
    __slots__ = ("worker_id", "problems", "notices", "command", "directory", "unknown")
    WORKER_ID_FIELD_NUMBER: _ClassVar[int]
    PROBLEMS_FIELD_NUMBER: _ClassVar[int]
    NOTICES_FIELD_NUMBER: _ClassVar[int]
    COMMAND_FIELD_NUMBER: _ClassVar[int]
    DIRECTORY_FIELD_NUMBER: _ClassVar[int]
    UNKNOWN_FIELD_NUMBER: _ClassVar[int]
    worker_id: str
    problems: _containers.RepeatedCompositeFieldContainer[PreflightProblem]
    notices: _containers.RepeatedScalarFieldContainer[str]
    command: _containers.RepeatedScalarFieldContainer[str]
    directory: str
    unknown: str
    def __init__(self, worker_id: _Optional[str] = ..., problems: _Optional[_Iterable[_Union[PreflightProblem, _Mapping]]] = ..., notices: _Optional[_Iterable[str]] = ..., command: _Optional[_Iterable[str]] = ..., directory: _Optional[str] = ..., unknown: _Optional[str] = ...) -> None: ...

class PreflightProblem(_message.Message):
    __slots__ = ("field", "message")
    FIELD_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    field: str
    message: str
    def __init__(self, field: _Optional[str] = ..., message: _Optional[str] = ...) -> None: ...
