from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Iterable as _Iterable, Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class TreeHead(_message.Message):
    __slots__ = ("series", "stream", "size", "root", "at", "signer", "signature")
    SERIES_FIELD_NUMBER: _ClassVar[int]
    STREAM_FIELD_NUMBER: _ClassVar[int]
    SIZE_FIELD_NUMBER: _ClassVar[int]
    ROOT_FIELD_NUMBER: _ClassVar[int]
    AT_FIELD_NUMBER: _ClassVar[int]
    SIGNER_FIELD_NUMBER: _ClassVar[int]
    SIGNATURE_FIELD_NUMBER: _ClassVar[int]
    series: str
    stream: str
    size: int
    root: bytes
    at: int
    signer: str
    signature: bytes
    def __init__(self, series: _Optional[str] = ..., stream: _Optional[str] = ..., size: _Optional[int] = ..., root: _Optional[bytes] = ..., at: _Optional[int] = ..., signer: _Optional[str] = ..., signature: _Optional[bytes] = ...) -> None: ...

class Witness(_message.Message):
    __slots__ = ("head", "peaks", "first", "leaves", "introduction")
    HEAD_FIELD_NUMBER: _ClassVar[int]
    PEAKS_FIELD_NUMBER: _ClassVar[int]
    FIRST_FIELD_NUMBER: _ClassVar[int]
    LEAVES_FIELD_NUMBER: _ClassVar[int]
    INTRODUCTION_FIELD_NUMBER: _ClassVar[int]
    head: TreeHead
    peaks: _containers.RepeatedScalarFieldContainer[bytes]
    first: int
    leaves: bytes
    introduction: bytes
    def __init__(self, head: _Optional[_Union[TreeHead, _Mapping]] = ..., peaks: _Optional[_Iterable[bytes]] = ..., first: _Optional[int] = ..., leaves: _Optional[bytes] = ..., introduction: _Optional[bytes] = ...) -> None: ...

class LogProof(_message.Message):
    __slots__ = ("format", "head", "position", "subject", "commit", "path", "keys")
    FORMAT_FIELD_NUMBER: _ClassVar[int]
    HEAD_FIELD_NUMBER: _ClassVar[int]
    POSITION_FIELD_NUMBER: _ClassVar[int]
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    PATH_FIELD_NUMBER: _ClassVar[int]
    KEYS_FIELD_NUMBER: _ClassVar[int]
    format: str
    head: TreeHead
    position: int
    subject: str
    commit: bytes
    path: _containers.RepeatedScalarFieldContainer[bytes]
    keys: _containers.RepeatedCompositeFieldContainer[KeyMessage]
    def __init__(self, format: _Optional[str] = ..., head: _Optional[_Union[TreeHead, _Mapping]] = ..., position: _Optional[int] = ..., subject: _Optional[str] = ..., commit: _Optional[bytes] = ..., path: _Optional[_Iterable[bytes]] = ..., keys: _Optional[_Iterable[_Union[KeyMessage, _Mapping]]] = ...) -> None: ...

class KeyMessage(_message.Message):
    __slots__ = ("subject", "commit")
    SUBJECT_FIELD_NUMBER: _ClassVar[int]
    COMMIT_FIELD_NUMBER: _ClassVar[int]
    subject: str
    commit: bytes
    def __init__(self, subject: _Optional[str] = ..., commit: _Optional[bytes] = ...) -> None: ...
