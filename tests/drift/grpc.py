"""docs/reference/grpc.md, from the services and messages in proto/ and their comments."""

from __future__ import annotations

import functools
from pathlib import Path

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
)

from tests.drift.protos import Comments, comments_of, compile_protos

INTRODUCTION = """# gRPC

Generated from `proto/runspine/wire/v1` by `make proto`. Health and reflection are on, so that `grpcurl` and
the like work without these files. A token goes into the metadata as `authorization: Bearer TOKEN`. Streams
can be resumed from a position. Facts are listed in [events](../events.md), telemetry lines in
[the protocol](../protocol.md).

| code | means |
|---|---|
| `INVALID_ARGUMENT` | a field is wrong; the details name each one |
| `FAILED_PRECONDITION` | refused: the state of a run or file does not allow it |
| `NOT_FOUND` | no such run, file or series |
| `ABORTED` | somebody was faster; ask again |
| `UNAVAILABLE` | the log or S3 is away: it may have happened; ask again with the same idempotency key |
| `UNAUTHENTICATED`, `PERMISSION_DENIED` | no token, or one whose scope is too small |
"""
# Which file has whose contract.
SERVICES = {"trainer": "orchestrator", "telemetry": "telemetry service", "artifacts": "artifacts service"}
# Described elsewhere: docs/events.md has the facts, and manifests are files in S3 that nobody is sent.
ELSEWHERE = ("facts", "manifest")
_SCALARS = {number: name.removeprefix("TYPE_").lower() for name, number in FieldDescriptorProto.Type.items()}


def grpc_doc() -> str:
    files = compile_protos()
    lines = [INTRODUCTION]
    for name in SERVICES:
        lines += _services(files[name])
    for name, file in files.items():
        if name not in ELSEWHERE:
            lines += _messages(name, file)
    return "\n".join(lines)


def _services(file: FileDescriptorProto) -> list[str]:
    comments, lines = comments_of(file), []
    for index, service in enumerate(file.service):
        lines += [f"## {service.name}", "", f"Served by the {SERVICES[Path(file.name).stem]}.", ""]
        lines += ["| call | request | answer | |", "|---|---|---|---|"]
        for number, method in enumerate(service.method):
            request = _stream(method.client_streaming) + _link(method.input_type)
            answer = _stream(method.server_streaming) + _link(method.output_type)
            note = comments.get((6, index, 2, number), "")
            lines.append(f"| `{method.name}` | {request} | {answer} | {note} |")
    return [*lines, ""]


def _messages(name: str, file: FileDescriptorProto) -> list[str]:
    comments = comments_of(file)
    lines = [f"## Messages of {name}.proto", ""]
    for index, message in enumerate(file.message_type):
        lines += _message(message, (4, index), comments)
    for index, enum in enumerate(file.enum_type):
        lines += _enum(enum, (5, index), comments)
    return lines


def _message(
    message: DescriptorProto, path: tuple[int, ...], comments: Comments, owner: str = ""
) -> list[str]:
    name = f"{owner}{message.name}"
    lines = [f"### {name}", ""]
    if comments.get(path):
        lines += [comments[path], ""]
    maps = {nested.name: nested for nested in message.nested_type if nested.options.map_entry}
    if message.field:
        lines += ["| field | type | |", "|---|---|---|"]
    for number, field in enumerate(message.field):
        note = comments.get((*path, 2, number), "")
        lines.append(f"| `{field.name}` | {_type(field, maps)} | {note} |")
    lines.append("")
    for number, nested in enumerate(message.nested_type):
        if nested.name not in maps:
            lines += _message(nested, (*path, 3, number), comments, f"{name}.")
    for number, enum in enumerate(message.enum_type):
        lines += _enum(enum, (*path, 4, number), comments, f"{name}.")
    return lines


def _enum(enum: EnumDescriptorProto, path: tuple[int, ...], comments: Comments, owner: str = "") -> list[str]:
    lines = [f"### {owner}{enum.name}", ""]
    if comments.get(path):
        lines += [comments[path], ""]
    for number, value in enumerate(enum.value):
        note = comments.get((*path, 2, number), "")
        lines.append(f"- `{value.name}`{': ' + note if note else ''}")
    return [*lines, ""]


def _type(field: FieldDescriptorProto, maps: dict[str, DescriptorProto]) -> str:
    short = field.type_name.rsplit(".", 1)[-1]
    if short in maps and field.label == FieldDescriptorProto.LABEL_REPEATED:
        key, value = maps[short].field
        return f"map of {_type(key, {})} to {_type(value, {})}"
    kind = _link(field.type_name) if field.type_name else _SCALARS[field.type]
    many = "repeated " if field.label == FieldDescriptorProto.LABEL_REPEATED else ""
    return ("optional " if field.proto3_optional else many) + kind


def _stream(streaming: bool) -> str:
    return "stream of " if streaming else ""


def _link(type_name: str) -> str:
    """To its heading on this page; facts have theirs elsewhere."""
    name = type_name.removeprefix(".runspine.wire.v1.")
    anchor = name.lower().replace(".", "")
    return f"[`{name}`](#{anchor})" if anchor in _on_page() else f"`{name}`"


@functools.cache
def _on_page() -> frozenset[str]:
    files = [file for name, file in compile_protos().items() if name not in ELSEWHERE]
    found: set[str] = set()
    for file in files:
        found |= {enum.name for enum in file.enum_type}
        for message in file.message_type:
            inner = [*message.nested_type, *message.enum_type]
            found |= {message.name, *(message.name + part.name for part in inner)}  # type: ignore[attr-defined]
    return frozenset(name.lower() for name in found)
