from runspine.wire.v1 import spec_pb2 as _spec_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class ParamType(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    PARAM_TYPE_UNSPECIFIED: _ClassVar[ParamType]
    BOOLEAN: _ClassVar[ParamType]
    INTEGER: _ClassVar[ParamType]
    NUMBER: _ClassVar[ParamType]
    TEXT: _ClassVar[ParamType]
    LIST: _ClassVar[ParamType]
    MAP: _ClassVar[ParamType]
PARAM_TYPE_UNSPECIFIED: ParamType
BOOLEAN: ParamType
INTEGER: ParamType
NUMBER: ParamType
TEXT: ParamType
LIST: ParamType
MAP: ParamType

class RunnerInfo(_message.Message):
    __slots__ = ("name", "summary", "modes", "algos", "envs", "params", "takes_command", "resumes", "open_params", "not_ready", "warm_starts", "needs_gpu", "open_envs", "action_spaces", "observation_spaces", "videos", "services", "datasets", "uses_gpu", "example", "forks", "actors")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    MODES_FIELD_NUMBER: _ClassVar[int]
    ALGOS_FIELD_NUMBER: _ClassVar[int]
    ENVS_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    TAKES_COMMAND_FIELD_NUMBER: _ClassVar[int]
    RESUMES_FIELD_NUMBER: _ClassVar[int]
    OPEN_PARAMS_FIELD_NUMBER: _ClassVar[int]
    NOT_READY_FIELD_NUMBER: _ClassVar[int]
    WARM_STARTS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_GPU_FIELD_NUMBER: _ClassVar[int]
    OPEN_ENVS_FIELD_NUMBER: _ClassVar[int]
    ACTION_SPACES_FIELD_NUMBER: _ClassVar[int]
    OBSERVATION_SPACES_FIELD_NUMBER: _ClassVar[int]
    VIDEOS_FIELD_NUMBER: _ClassVar[int]
    SERVICES_FIELD_NUMBER: _ClassVar[int]
    DATASETS_FIELD_NUMBER: _ClassVar[int]
    USES_GPU_FIELD_NUMBER: _ClassVar[int]
    EXAMPLE_FIELD_NUMBER: _ClassVar[int]
    FORKS_FIELD_NUMBER: _ClassVar[int]
    ACTORS_FIELD_NUMBER: _ClassVar[int]
    name: str
    summary: str
    modes: _containers.RepeatedScalarFieldContainer[_spec_pb2.Mode]
    algos: _containers.RepeatedCompositeFieldContainer[AlgoInfo]
    envs: _containers.RepeatedScalarFieldContainer[str]
    params: _containers.RepeatedCompositeFieldContainer[Param]
    takes_command: bool
    resumes: bool
    open_params: bool
    not_ready: str
    warm_starts: bool
    needs_gpu: bool
    open_envs: bool
    action_spaces: _containers.RepeatedScalarFieldContainer[str]
    observation_spaces: _containers.RepeatedScalarFieldContainer[str]
    videos: bool
    services: _containers.RepeatedScalarFieldContainer[str]
    datasets: _containers.RepeatedScalarFieldContainer[str]
    uses_gpu: bool
    example: _spec_pb2.RunSpec
    forks: bool
    actors: _containers.RepeatedScalarFieldContainer[str]
    def __init__(self, name: _Optional[str] = ..., summary: _Optional[str] = ..., modes: _Optional[_Iterable[_Union[_spec_pb2.Mode, str]]] = ..., algos: _Optional[_Iterable[_Union[AlgoInfo, _Mapping]]] = ..., envs: _Optional[_Iterable[str]] = ..., params: _Optional[_Iterable[_Union[Param, _Mapping]]] = ..., takes_command: _Optional[bool] = ..., resumes: _Optional[bool] = ..., open_params: _Optional[bool] = ..., not_ready: _Optional[str] = ..., warm_starts: _Optional[bool] = ..., needs_gpu: _Optional[bool] = ..., open_envs: _Optional[bool] = ..., action_spaces: _Optional[_Iterable[str]] = ..., observation_spaces: _Optional[_Iterable[str]] = ..., videos: _Optional[bool] = ..., services: _Optional[_Iterable[str]] = ..., datasets: _Optional[_Iterable[str]] = ..., uses_gpu: _Optional[bool] = ..., example: _Optional[_Union[_spec_pb2.RunSpec, _Mapping]] = ..., forks: _Optional[bool] = ..., actors: _Optional[_Iterable[str]] = ...) -> None: ...

class AlgoInfo(_message.Message):
    __slots__ = ("name", "summary", "params", "needs_dataset", "warm_starts", "help")
    NAME_FIELD_NUMBER: _ClassVar[int]
    SUMMARY_FIELD_NUMBER: _ClassVar[int]
    PARAMS_FIELD_NUMBER: _ClassVar[int]
    NEEDS_DATASET_FIELD_NUMBER: _ClassVar[int]
    WARM_STARTS_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    name: str
    summary: str
    params: _containers.RepeatedCompositeFieldContainer[Param]
    needs_dataset: bool
    warm_starts: bool
    help: str
    def __init__(self, name: _Optional[str] = ..., summary: _Optional[str] = ..., params: _Optional[_Iterable[_Union[Param, _Mapping]]] = ..., needs_dataset: _Optional[bool] = ..., warm_starts: _Optional[bool] = ..., help: _Optional[str] = ...) -> None: ...

class Param(_message.Message):
    __slots__ = ("name", "type", "default", "minimum", "maximum", "choices", "help", "required")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_FIELD_NUMBER: _ClassVar[int]
    MINIMUM_FIELD_NUMBER: _ClassVar[int]
    MAXIMUM_FIELD_NUMBER: _ClassVar[int]
    CHOICES_FIELD_NUMBER: _ClassVar[int]
    HELP_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: ParamType
    default: _spec_pb2.Value
    minimum: float
    maximum: float
    choices: _containers.RepeatedScalarFieldContainer[str]
    help: str
    required: bool
    def __init__(self, name: _Optional[str] = ..., type: _Optional[_Union[ParamType, str]] = ..., default: _Optional[_Union[_spec_pb2.Value, _Mapping]] = ..., minimum: _Optional[float] = ..., maximum: _Optional[float] = ..., choices: _Optional[_Iterable[str]] = ..., help: _Optional[str] = ..., required: _Optional[bool] = ...) -> None: ...
