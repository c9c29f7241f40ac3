"""Strict YAML for run files: no duplicate keys, no aliases, limited size, and line numbers.

Scalars follow YAML 1.2: only true and false are booleans (`yes`, `on` and `no` are text), and
3e-4 is a number. Digits may be grouped: 1_000_000. Anchors, aliases and tags are refused.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from runspine.errors import InvalidError

MAX_BYTES = 1 << 20
MAX_DEPTH = 32

Plain = bool | int | float | str | None

_DIGITS = r"[0-9]+(?:_[0-9]+)*"
_INTEGER = re.compile(r"[-+]?(?:0|[1-9][0-9]*(?:_[0-9]+)*)\Z")
_OTHER_BASE = re.compile(r"0(?:x[0-9a-fA-F]+|o[0-7]+|b[01]+)\Z")
_FLOAT = re.compile(
    rf"[-+]?(?:{_DIGITS}\.(?:{_DIGITS})?(?:[eE][-+]?[0-9]+)?|\.{_DIGITS}(?:[eE][-+]?[0-9]+)?|{_DIGITS}[eE][-+]?[0-9]+)\Z"
)
_SPECIAL: dict[str, Plain] = {
    **dict.fromkeys(("", "~", "null", "Null", "NULL"), None),
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys((".inf", ".Inf", ".INF", "+.inf", "+.Inf", "+.INF"), float("inf")),
    **dict.fromkeys(("-.inf", "-.Inf", "-.INF"), float("-inf")),
    **dict.fromkeys((".nan", ".NaN", ".NAN"), float("nan")),
}


@dataclass(frozen=True, slots=True)
class Scalar:
    text: str
    quoted: bool
    where: str

    def value(self) -> Plain:
        return self.text if self.quoted else plain_scalar(self.text)


@dataclass(frozen=True, slots=True)
class ListNode:
    items: list[Node]
    where: str


@dataclass(frozen=True, slots=True)
class MapNode:
    entries: dict[str, Node]
    where: str


Node = Scalar | ListNode | MapNode


def plain_scalar(text: str) -> Plain:
    """Value of an unquoted scalar."""
    if text in _SPECIAL:
        return _SPECIAL[text]
    if _INTEGER.match(text):
        # Python refuses to parse thousands of digits; such text is not a number here either.
        return int(text) if len(text) < 100 else text
    if _OTHER_BASE.match(text):
        return int(text, 0) if len(text) < 100 else text
    if _FLOAT.match(text):
        return float(text)
    return text


def read_yaml(text: str, source: str) -> Node:
    """Parse a single document. Raises InvalidError with the line."""
    if len(text.encode("utf-8", "surrogatepass")) > MAX_BYTES:
        raise InvalidError(f"{source}: larger than {MAX_BYTES >> 20} MB, the limit of a run file")
    try:
        return _Reader(source, yaml.parse(text, Loader=_LOADER)).document()
    except yaml.MarkedYAMLError as error:
        mark = error.problem_mark or error.context_mark
        where = f"{source}:{mark.line + 1}:{mark.column + 1}" if mark else source
        raise InvalidError(f"{where}: not YAML: {error.problem or error.context}") from error
    except yaml.YAMLError as error:
        raise InvalidError(f"{source}: not YAML: {' '.join(str(error).split())}") from error


def plain_value(node: Node) -> Any:
    """The node as dicts, lists and scalars."""
    if isinstance(node, MapNode):
        return {name: plain_value(each) for name, each in node.entries.items()}
    if isinstance(node, ListNode):
        return [plain_value(each) for each in node.items]
    return node.value()


_LOADER: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class _Reader:
    """Builds nodes from parser events, with limited depth."""

    def __init__(self, source: str, events: Iterator[Any]) -> None:
        self.source = source
        self.events = events

    def document(self) -> Node:
        node: Node | None = None
        for event in self.events:
            if isinstance(event, yaml.DocumentStartEvent):
                if node is not None:
                    raise InvalidError(f"{self._where(event)}: a second document; a run file has one")
                node = self._node(next(self.events), 0)
        if node is None:
            raise InvalidError(f"{self.source}: empty")
        return node

    def _node(self, event: Any, depth: int) -> Node:
        where = self._where(event)
        if isinstance(event, yaml.AliasEvent) or event.anchor is not None:
            raise InvalidError(f"{where}: anchors and aliases are not supported; write the value out")
        if depth > MAX_DEPTH:
            raise InvalidError(f"{where}: nested deeper than {MAX_DEPTH} levels")
        if event.tag not in (None, "!", "tag:yaml.org,2002:str"):
            raise InvalidError(f"{where}: tag {event.tag} is not supported; write a plain value")
        if isinstance(event, yaml.ScalarEvent):
            return Scalar(event.value, not event.implicit[0], where)
        if isinstance(event, yaml.SequenceStartEvent):
            return ListNode([self._node(item, depth + 1) for item in self._until_end()], where)
        return self._mapping(where, depth)

    def _mapping(self, where: str, depth: int) -> MapNode:
        entries: dict[str, Node] = {}
        for event in self._until_end():
            key = self._node(event, depth + 1)
            if not isinstance(key, Scalar):
                raise InvalidError(f"{key.where}: a key must be plain text")
            if key.text in entries:
                raise InvalidError(
                    f"{key.where}: {key.text!r} is given twice; first at {entries[key.text].where}"
                )
            entries[key.text] = self._node(next(self.events), depth + 1)
        return MapNode(entries, where)

    def _until_end(self) -> Iterator[Any]:
        for event in self.events:
            if isinstance(event, yaml.CollectionEndEvent):
                return
            yield event

    def _where(self, event: Any) -> str:
        return f"{self.source}:{event.start_mark.line + 1}"


def node_of(value: object, where: str = "") -> Node:
    """Node of a plain value."""
    if isinstance(value, Mapping):
        return MapNode({str(key): node_of(item, where) for key, item in value.items()}, where)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return ListNode([node_of(item, where) for item in value], where)
    if isinstance(value, str):
        return Scalar(value, True, where)
    if value is None or isinstance(value, bool):
        return Scalar({None: "null", True: "true", False: "false"}[value], False, where)
    if isinstance(value, float) and (value != value or value in (float("inf"), float("-inf"))):
        return Scalar(".nan" if value != value else ".inf" if value > 0 else "-.inf", False, where)
    return Scalar(repr(value), False, where)


class _Dumper(yaml.SafeDumper):
    """Writes YAML that `read_yaml` reads back unchanged; text that looks like a number is quoted."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> Any:
        return super().increase_indent(flow, False)

    def ignore_aliases(self, data: Any) -> bool:
        return True


def _represent_text(dumper: _Dumper, text: str) -> yaml.ScalarNode:
    style = None if isinstance(plain_scalar(text), str) else "'"
    lines = text.removesuffix("\n").split("\n")
    if not all(line.isprintable() for line in lines):
        style = '"'  # the only style with escapes
    elif "\n" in text:
        tidy = all(line and line == line.strip() for line in lines)
        style = "|" if tidy else '"'
    return dumper.represent_scalar("tag:yaml.org,2002:str", text, style=style)


_Dumper.add_representer(str, _represent_text)


def write_yaml(value: object) -> str:
    """Plain values as YAML, in the given order."""
    return yaml.dump(value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, width=100)
