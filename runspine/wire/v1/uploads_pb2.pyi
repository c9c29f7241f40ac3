from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from collections.abc import Mapping as _Mapping
from typing import ClassVar as _ClassVar, Optional as _Optional

DESCRIPTOR: _descriptor.FileDescriptor

class SignUploadRequest(_message.Message):
    __slots__ = ("run_id", "attempt", "key", "method", "query", "headers", "payload", "remove_damaged")
    class QueryEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    RUN_ID_FIELD_NUMBER: _ClassVar[int]
    ATTEMPT_FIELD_NUMBER: _ClassVar[int]
    KEY_FIELD_NUMBER: _ClassVar[int]
    METHOD_FIELD_NUMBER: _ClassVar[int]
    QUERY_FIELD_NUMBER: _ClassVar[int]
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    PAYLOAD_FIELD_NUMBER: _ClassVar[int]
    REMOVE_DAMAGED_FIELD_NUMBER: _ClassVar[int]
    run_id: str
    attempt: int
    key: str
    method: str
    query: _containers.ScalarMap[str, str]
    headers: _containers.ScalarMap[str, str]
    payload: str
    remove_damaged: bool
    def __init__(self, run_id: _Optional[str] = ..., attempt: _Optional[int] = ..., key: _Optional[str] = ..., method: _Optional[str] = ..., query: _Optional[_Mapping[str, str]] = ..., headers: _Optional[_Mapping[str, str]] = ..., payload: _Optional[str] = ..., remove_damaged: _Optional[bool] = ...) -> None: ...

class SignUploadReply(_message.Message):
    __slots__ = ("headers", "refused")
    class HeadersEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    HEADERS_FIELD_NUMBER: _ClassVar[int]
    REFUSED_FIELD_NUMBER: _ClassVar[int]
    headers: _containers.ScalarMap[str, str]
    refused: str
    def __init__(self, headers: _Optional[_Mapping[str, str]] = ..., refused: _Optional[str] = ...) -> None: ...
