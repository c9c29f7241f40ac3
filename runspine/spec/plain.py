"""Conversion of messages to plain values, and of run-file nodes to messages.

Enums become lower-case names, int64 fields are times in ISO 8601 (UTC), bytes become hex, and a
Value becomes the value it holds.
"""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any

from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message

from runspine.errors import Violation
from runspine.spec.nearest import not_accepted
from runspine.spec.strict_yaml import ListNode, MapNode, Node, Scalar
from runspine.wire.v1.spec_pb2 import Value

# Two implementations of descriptors exist, with unrelated types.
Field = Any

_HEX = re.compile(r"([0-9a-f]{2})*\Z")
_RANGES: dict[int, tuple[int, int]] = {
    FieldDescriptor.TYPE_UINT32: (0, 2**32 - 1),
    FieldDescriptor.TYPE_UINT64: (0, 2**64 - 1),
    FieldDescriptor.TYPE_INT32: (-(2**31), 2**31 - 1),
    FieldDescriptor.TYPE_SINT64: (-(2**63), 2**63 - 1),
}


def to_plain(message: Message, *, full: bool = True) -> Any:
    """Convert a message to dicts, lists and scalars.

    With `full` every field is present, null when unset, so that scripts find a stable shape;
    otherwise only fields that are set.
    """
    if isinstance(message, Value):
        return plain_value(message)
    plain: dict[str, Any] = {}
    for field in message.DESCRIPTOR.fields:
        if field.has_presence and not message.HasField(field.name):
            choice = field.containing_oneof
            if full and (choice is None or len(choice.fields) == 1):  # proto3 `optional` is a oneof of one
                plain[field.name] = None
            continue
        value = _plain_field(field, getattr(message, field.name), full)
        is_set = field.has_presence and value != {}
        if full or is_set or value not in ("", 0, None, [], {}):
            plain[field.name] = value
    return plain


def _plain_field(field: Field, value: Any, full: bool) -> Any:
    if not field.is_repeated:
        return _plain_one(field, value, full)
    if _is_map(field):
        of = field.message_type.fields_by_name["value"]
        return {key: _plain_one(of, value[key], full) for key in sorted(value)}
    return [_plain_one(field, item, full) for item in value]


def _plain_one(field: Field, value: Any, full: bool) -> Any:
    match field.type:
        case FieldDescriptor.TYPE_MESSAGE:
            return to_plain(value, full=full)
        case FieldDescriptor.TYPE_ENUM:
            return enum_word(field.enum_type, value)
        case FieldDescriptor.TYPE_BYTES:
            return value.hex()
        case FieldDescriptor.TYPE_INT64:
            return iso_time(value) if value else None
    return value


def plain_value(value: Value) -> Any:
    """Convert a Value to the value it holds."""
    kind = value.WhichOneof("kind")
    if kind is None:
        return None
    if kind == "list":
        return [plain_value(item) for item in value.list.items]
    if kind == "map":
        entries = value.map.entries
        return {key: plain_value(entries[key]) for key in sorted(entries)}
    return getattr(value, kind)


def enum_word(enum: Any, number: int) -> str:
    """Lower-case name of an enum value; empty when unspecified."""
    if number == 0:
        return ""
    known = enum.values_by_number.get(number)
    return known.name.lower() if known else str(number)


def enum_words(enum: Any) -> list[str]:
    return [value.name.lower() for value in enum.values if value.number]


def iso_time(microseconds: int) -> str:
    seconds, rest = divmod(microseconds, 1_000_000)
    try:
        return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%dT%H:%M:%S}.{rest:06d}Z"
    except (ValueError, OverflowError, OSError):
        return str(microseconds)


def json_text(value: object, *, indent: int | None = None) -> str:
    """Strict JSON: inf and nan become text."""
    return json.dumps(_finite(value), ensure_ascii=False, indent=indent, allow_nan=False)


def _finite(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_finite(item) for item in value]
    return value


def fill(message: Message, node: Node, path: str = "") -> list[Violation]:
    """Set the fields of a message from a node; return violations instead of raising."""
    if not isinstance(node, MapNode):
        return [_wrong(path, node, "fields and their values")]
    found: list[Violation] = []
    fields = message.DESCRIPTOR.fields_by_name
    for key, child in node.entries.items():
        inner = f"{path}.{key}" if path else key
        field = fields.get(key)
        if field is None:
            found.append(
                Violation(inner, f"unknown field: {not_accepted(key, fields, limit=40)}", child.where)
            )
        else:
            found += _fill_field(message, field, child, inner)
    return found


def _fill_field(message: Message, field: Field, node: Node, path: str) -> list[Violation]:
    target = getattr(message, field.name)
    if _is_map(field):
        return _fill_map(target, field, node, path)
    if field.is_repeated:
        return _fill_list(target, field, node, path)
    if field.type == FieldDescriptor.TYPE_MESSAGE:
        target.SetInParent()
        return fill(target, node, path)
    value = _scalar(field, node, path)
    if isinstance(value, Violation):
        return [value]
    setattr(message, field.name, value)
    return []


def _fill_map(target: Any, field: Field, node: Node, path: str) -> list[Violation]:
    if not isinstance(node, MapNode):
        return [_wrong(path, node, "names and their values")]
    found: list[Violation] = []
    of = field.message_type.fields_by_name["value"]
    for key, child in node.entries.items():
        inner = f"{path}.{key}"
        if of.type == FieldDescriptor.TYPE_MESSAGE:
            found += fill_value(target[key], child, inner)
            continue
        value = _scalar(of, child, inner)
        if isinstance(value, Violation):
            found.append(value)
        else:
            target[key] = value
    return found


def _fill_list(target: Any, field: Field, node: Node, path: str) -> list[Violation]:
    if not isinstance(node, ListNode):
        return [_wrong(path, node, "a list, such as [a, b]")]
    found: list[Violation] = []
    for index, child in enumerate(node.items):
        value = _scalar(field, child, f"{path}[{index}]")
        if isinstance(value, Violation):
            found.append(value)
        else:
            target.append(value)
    return found


def fill_value(value: Value, node: Node, path: str) -> list[Violation]:
    """Set the value of a parameter, keeping its type."""
    if isinstance(node, ListNode):
        value.list.SetInParent()
        items = enumerate(node.items)
        return [v for i, item in items for v in fill_value(value.list.items.add(), item, f"{path}[{i}]")]
    if isinstance(node, MapNode):
        value.map.SetInParent()
        entries = value.map.entries
        return [v for k, item in node.entries.items() for v in fill_value(entries[k], item, f"{path}.{k}")]
    plain = node.value()
    if plain is None:
        return [_null(path, node)]
    if isinstance(plain, int) and not isinstance(plain, bool) and not -(2**63) <= plain < 2**63:
        return [Violation(path, f"{plain} does not fit in 64 bits; quote it to pass text", node.where)]
    kind = {bool: "boolean", int: "integer", float: "number", str: "text"}[type(plain)]
    setattr(value, kind, plain)
    return []


def _scalar(field: Field, node: Node, path: str) -> Any:
    """The value of a scalar field, or a Violation."""
    if not isinstance(node, Scalar):
        return _wrong(path, node, _expected(field))
    plain = node.value()
    if plain is None:
        return _null(path, node)
    if field.type == FieldDescriptor.TYPE_STRING:
        return node.text  # as it was written: 3e-4 in a command stays 3e-4
    if field.type == FieldDescriptor.TYPE_BYTES and _HEX.match(node.text):
        return bytes.fromhex(node.text)
    if field.type == FieldDescriptor.TYPE_ENUM:
        words = enum_words(field.enum_type)
        if plain in words:
            return field.enum_type.values_by_name[str(plain).upper()].number
    elif field.type == FieldDescriptor.TYPE_BOOL:
        if isinstance(plain, bool):
            return plain
    elif isinstance(plain, (int, float)) and not isinstance(plain, bool) and math.isfinite(plain):
        if field.type == FieldDescriptor.TYPE_DOUBLE:
            return float(plain)
        low, high = _RANGES[field.type]
        if plain == int(plain) and low <= plain <= high:
            return int(plain)
    return _wrong(path, node, _expected(field))


def _expected(field: Field) -> str:
    if field.type == FieldDescriptor.TYPE_ENUM:
        return "one of " + ", ".join(enum_words(field.enum_type))
    if field.type in _RANGES:
        low, high = _RANGES[field.type]
        return f"a whole number from {low} to {high}"
    return {
        FieldDescriptor.TYPE_STRING: "text",
        FieldDescriptor.TYPE_BYTES: "bytes as hex",
        FieldDescriptor.TYPE_BOOL: "true or false",
        FieldDescriptor.TYPE_DOUBLE: "a finite number",
    }[field.type]


def _wrong(path: str, node: Node, expected: str) -> Violation:
    return Violation(path, f"expected {expected}, got {_given(node)}", node.where)


def _null(path: str, node: Node) -> Violation:
    return Violation(path, "null is not accepted; omit the line for the default", node.where)


def _given(node: Node) -> str:
    if isinstance(node, MapNode):
        return "fields (" + ", ".join(list(node.entries)[:3]) + ")"
    if isinstance(node, ListNode):
        return f"a list of {len(node.items)}"
    plain = node.value()
    if plain is None:
        return "nothing"
    if isinstance(plain, str):
        return f"text {plain[:60]!r}"
    return f"{node.text[:60]}"


def _is_map(field: Field) -> bool:
    kind = field.message_type
    return bool(field.is_repeated and kind is not None and kind.GetOptions().map_entry)
