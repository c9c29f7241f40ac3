"""The parameters of a script in CleanRL's style, read from its source without running it. Pure.

Such a script has a dataclass `Args`: a type and a default for each field, and a string below it or a comment
on its line as help. Choices come from `Literal`, ranges from
`Annotated[float, Range(0, 1)]`.
"""

from __future__ import annotations

import ast
import math
import tokenize
from collections.abc import Iterator
from io import StringIO
from typing import Any

from runspine.wire.v1.runner_pb2 import BOOLEAN, INTEGER, LIST, MAP, NUMBER, TEXT, Param, ParamType
from runspine.wire.v1.spec_pb2 import Value

_TYPES = {
    "bool": BOOLEAN,
    "int": INTEGER,
    "float": NUMBER,
    "str": TEXT,
    "Path": TEXT,
    "list": LIST,
    "List": LIST,
    "tuple": LIST,
    "Tuple": LIST,
    "Sequence": LIST,
    "dict": MAP,
    "Dict": MAP,
}
_VALUE_TYPES = {bool: BOOLEAN, int: INTEGER, float: NUMBER, str: TEXT, list: LIST, tuple: LIST, dict: MAP}


class NoSchemaError(Exception):
    """The source has no arguments that can be read; the message states why."""


def params_of(source: str, *, name: str = "Args", without: frozenset[str] = frozenset()) -> list[Param]:
    """The parameters of the script, in their order. Raises NoSchemaError."""
    try:
        tree = ast.parse(source)
    except SyntaxError as error:
        raise NoSchemaError(f"line {error.lineno}: {error.msg}") from error
    classes = [node for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and node.name == name]
    if not classes:
        raise NoSchemaError(f"there is no class {name}")
    comments = _comments(source)
    fields = _fields(classes[-1].body)
    params = [_param(field, text, comments) for field, text in fields]
    return [param for param in params if param is not None and param.name not in without]


def summary_of(source: str) -> str:
    """The first line of the script's docstring."""
    return (ast.get_docstring(ast.parse(source)) or "").partition("\n")[0]


def _fields(body: list[ast.stmt]) -> Iterator[tuple[ast.AnnAssign, str]]:
    """Each field with the string below it."""
    for index, node in enumerate(body):
        if not isinstance(node, ast.AnnAssign) or not isinstance(node.target, ast.Name):
            continue
        after = body[index + 1] if index + 1 < len(body) else None
        text = ""
        if isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
            text = after.value.value if isinstance(after.value.value, str) else ""
        yield node, " ".join(text.split())


def _comments(source: str) -> dict[int, str]:
    """Comments by line."""
    found = {}
    for token in tokenize.generate_tokens(StringIO(source).readline):
        if token.type == tokenize.COMMENT:
            found[token.start[0]] = token.string.lstrip("#").strip()
    return found


def _param(field: ast.AnnAssign, text: str, comments: dict[int, str]) -> Param | None:
    assert isinstance(field.target, ast.Name)
    param = Param(name=field.target.id)
    if field.target.id.startswith("_") or _name(field.annotation) == "ClassVar":
        return None
    param.help = text or comments.get(field.end_lineno or field.lineno, "")
    _describe(param, field.annotation)
    known, value = _default(field.value)
    if known and value is not None:
        _fill(param.default, value)
        if param.type == NUMBER and param.default.HasField("integer"):
            param.default.number = float(value)
        elif not param.type:
            param.type = _VALUE_TYPES.get(type(value), TEXT)
    param.type = param.type or TEXT
    param.required = field.value is None
    return param


def _describe(param: Param, annotation: ast.expr) -> None:
    """Type, choices and range from an annotation; unspecified for unknown types."""
    if isinstance(annotation, ast.Constant) and isinstance(annotation.value, str):
        annotation = ast.parse(annotation.value, mode="eval").body
    if isinstance(annotation, ast.BinOp) and isinstance(annotation.op, ast.BitOr):
        for side in (annotation.left, annotation.right):
            if not _is_none(side):
                _describe(param, side)
                return
    if not isinstance(annotation, ast.Subscript):
        param.type = _TYPES.get(_name(annotation), ParamType.PARAM_TYPE_UNSPECIFIED)
        return
    inner = annotation.slice.elts if isinstance(annotation.slice, ast.Tuple) else [annotation.slice]
    match _name(annotation.value):
        case "Optional":
            _describe(param, inner[0])
        case "Union":
            _describe(param, next((side for side in inner if not _is_none(side)), inner[0]))
        case "Annotated":
            _describe(param, inner[0])
            _limit(param, inner[1:])
        case "Literal":
            values = [value for known, value in map(_default, inner) if known and value is not None]
            param.choices.extend(str(value) for value in values)
            param.type = _VALUE_TYPES.get(type(values[0]), TEXT) if values else TEXT
        case other:
            param.type = _TYPES.get(other, ParamType.PARAM_TYPE_UNSPECIFIED)


def _limit(param: Param, marks: list[ast.expr]) -> None:
    for mark in marks:
        if isinstance(mark, ast.Call) and _name(mark.func) == "Range":
            ends = dict(zip(("low", "high"), mark.args, strict=False))
            ends |= {keyword.arg: keyword.value for keyword in mark.keywords if keyword.arg}
            for end, field in (("low", "minimum"), ("high", "maximum")):
                known, value = _default(ends.get(end))
                if known and isinstance(value, int | float):
                    setattr(param, field, value)


def _default(node: ast.expr | None) -> tuple[bool, Any]:
    """Whether the value can be read without running anything, and the value."""
    if node is None:
        return False, None
    try:
        return True, _literal(node)
    except ValueError:
        return False, None


def _literal(node: ast.expr) -> Any:
    """Literals, arithmetic, `int(1e6)`, and `field(default=…)` or `field(default_factory=lambda: …)`."""
    match node:
        case ast.BinOp():
            left, right = _literal(node.left), _literal(node.right)
            return _calculate(node.op, left, right)
        case ast.Call() if _name(node.func) == "field":
            given = {keyword.arg: keyword.value for keyword in node.keywords}
            if "default" in given:
                return _literal(given["default"])
            made = given.get("default_factory")
            if isinstance(made, ast.Lambda):
                return _literal(made.body)
            if made is not None and _name(made) in ("list", "dict"):
                return [] if _name(made) == "list" else {}
        case ast.Call(func=ast.Name(id="int" | "float" as kind), args=[only]):
            number = _literal(only)
            if isinstance(number, int | float) and math.isfinite(number):
                return int(number) if kind == "int" else float(number)
    try:
        return ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError) as error:
        raise ValueError("not a literal") from error


def _calculate(operation: ast.operator, left: Any, right: Any) -> float:
    """Arithmetic in defaults, such as 10 * 1000 and 2**14."""
    if not all(isinstance(side, int | float) and abs(side) < 1e18 for side in (left, right)):
        raise ValueError("not a number")
    try:
        match operation:
            case ast.Add():
                result = left + right
            case ast.Sub():
                result = left - right
            case ast.Mult():
                result = left * right
            case ast.Div():
                result = left / right
            case ast.FloorDiv():
                result = left // right
            case ast.Pow() if abs(right) <= 64:
                result = left**right
            case _:
                raise ValueError("not a known operation")
    except (ZeroDivisionError, OverflowError) as error:
        raise ValueError("not a number") from error
    if not isinstance(result, int | float) or not math.isfinite(result):
        raise ValueError("not a number")
    return result


def _fill(value: Value, plain: Any) -> None:
    match plain:
        case bool():
            value.boolean = plain
        case int() if -(2**63) <= plain < 2**63:
            value.integer = plain
        case float():
            value.number = plain
        case list() | tuple():
            value.list.SetInParent()
            for item in plain:
                _fill(value.list.items.add(), item)
        case dict():
            value.map.SetInParent()
            for key, item in plain.items():
                _fill(value.map.entries[str(key)], item)
        case _:
            value.text = str(plain)


def _name(node: ast.expr) -> str:
    """`a.b.Name` and `Name[…]` as `Name`."""
    match node:
        case ast.Name():
            return node.id
        case ast.Attribute():
            return node.attr
        case ast.Subscript():
            return _name(node.value)
    return ""


def _is_none(node: ast.expr) -> bool:
    return isinstance(node, ast.Constant) and node.value is None
