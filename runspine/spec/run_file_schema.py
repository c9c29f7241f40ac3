"""JSON schema of run files, generated from the proto files and their comments.

    python -m runspine.spec.run_file_schema > runspine/runfile.schema.json

Generated Python code has no comments, so the proto files are compiled again; this needs `grpcio-tools`
and the `proto` folder of a checkout.
"""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import Any

from google.protobuf.descriptor_pb2 import (
    DescriptorProto,
    EnumDescriptorProto,
    FieldDescriptorProto,
    FileDescriptorProto,
    FileDescriptorSet,
)

PROTO = "runspine/wire/v1/spec.proto"
# A text field accepts any scalar as written.
_TEXT = {"type": ["string", "number", "boolean"]}
_SCALARS: dict[int, dict[str, Any]] = {
    FieldDescriptorProto.TYPE_STRING: _TEXT,
    FieldDescriptorProto.TYPE_BYTES: {"type": "string", "pattern": "^([0-9a-f]{2})*$"},
    FieldDescriptorProto.TYPE_BOOL: {"type": "boolean"},
    FieldDescriptorProto.TYPE_DOUBLE: {"type": "number"},
    FieldDescriptorProto.TYPE_UINT32: {"type": "integer", "minimum": 0, "maximum": 2**32 - 1},
    FieldDescriptorProto.TYPE_UINT64: {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
}
_VALUE = {"type": ["string", "number", "boolean", "array", "object"]}


class SchemaMaker:
    """Builds JSON schemas from message descriptors."""

    def __init__(self, file: FileDescriptorProto) -> None:
        self.messages = {f".{file.package}.{m.name}": (i, m) for i, m in enumerate(file.message_type)}
        self.enums = {f".{file.package}.{e.name}": e for e in file.enum_type}
        self.comments = {
            tuple(location.path): " ".join(location.leading_comments.split())
            for location in file.source_code_info.location
            if location.leading_comments
        }

    def message(self, name: str) -> dict[str, Any]:
        index, message = self.messages[name]
        properties = {}
        for number, field in enumerate(message.field):
            schema = dict(self._field(message, field))
            comment = self.comments.get((4, index, 2, number))
            if comment:
                schema["description"] = comment
            properties[field.name] = schema
        return {"type": "object", "additionalProperties": False, "properties": properties}

    def _field(self, message: DescriptorProto, field: FieldDescriptorProto) -> dict[str, Any]:
        entry = next((n for n in message.nested_type if field.type_name.endswith(f".{n.name}")), None)
        if entry is not None:
            value = next(f for f in entry.field if f.name == "value")
            return {"type": "object", "additionalProperties": self._one(value)}
        if field.label == FieldDescriptorProto.LABEL_REPEATED:
            return {"type": "array", "items": self._one(field)}
        return self._one(field)

    def _one(self, field: FieldDescriptorProto) -> dict[str, Any]:
        if field.type == FieldDescriptorProto.TYPE_ENUM:
            return {"enum": _words(self.enums[field.type_name])}
        if field.type == FieldDescriptorProto.TYPE_MESSAGE:
            return _VALUE if field.type_name.endswith(".Value") else self.message(field.type_name)
        return _SCALARS[field.type]


def _words(enum: EnumDescriptorProto) -> list[str]:
    return [value.name.lower() for value in enum.value if value.number]


def make_schema(proto_folder: Path) -> dict[str, Any]:
    schema = SchemaMaker(_compiled(proto_folder)).message(".runspine.wire.v1.RunSpec")
    schema["properties"]["seeds"] = {
        "anyOf": [
            {"type": "array", "minItems": 1, "items": _SCALARS[FieldDescriptorProto.TYPE_UINT64]},
            {"type": "string", "pattern": r"^[0-9_]+\.\.[0-9_]+"},
        ],
        "description": "One run for each seed: a list, or a range such as 1..5.",
    }
    schema["properties"]["sweep"] = {
        "type": "object",
        "additionalProperties": {"type": "array", "minItems": 1},
        "description": "Field paths, such as params.gamma, each with a list; one run for each combination.",
    }
    schema["properties"]["code"] = {
        "anyOf": [{"type": "string"}, schema["properties"]["code"]],
        "description": "Code of the program: a folder, none, image, or the fields of stored code.",
    }
    schema["properties"]["packages"] = {
        "anyOf": [
            {"type": "string"},
            {"type": "array", "items": {"type": "string"}},
            schema["properties"]["packages"],
        ],
        "description": "Packages of the program: a file, capture, none, a list, or fields.",
    }
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "Runspine run file",
        **schema,
    }


def _compiled(proto_folder: Path) -> FileDescriptorProto:
    from grpc_tools import protoc  # type: ignore[import-untyped]

    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder) / "spec.binpb"
        code = protoc.main(
            ["protoc", f"-I{proto_folder}", f"--descriptor_set_out={out}", "--include_source_info", PROTO]
        )
        if code:
            raise SystemExit(f"protoc failed on {proto_folder / PROTO}")
        return FileDescriptorSet.FromString(out.read_bytes()).file[0]


def schema_text(proto_folder: Path) -> str:
    return json.dumps(make_schema(proto_folder), indent=2, ensure_ascii=False) + "\n"


if __name__ == "__main__":
    sys.stdout.write(schema_text(Path(__file__).parents[2] / "proto"))
