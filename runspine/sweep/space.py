"""Search spaces: ranges and choices, each at a field path of the run. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from runspine.errors import InvalidError, Violation
from runspine.spec.nearest import not_accepted
from runspine.spec.run_file import field_parts
from runspine.spec.strict_yaml import ListNode, MapNode, Node, Scalar

# A point in the space: a number for each range, an index for each choice.
Point = dict[str, float]
SHAPES = "expected {float: [low, high]}, {int: [low, high]} or {choice: [a, b]}"


@dataclass(frozen=True, slots=True)
class SearchRange:
    """Numbers from low to high, both included."""

    path: str
    low: float
    high: float
    whole: bool = False
    log: bool = False
    step: float | None = None

    def node(self, value: float) -> Node:
        return Scalar(repr(int(value) if self.whole else float(value)), False, f"search.{self.path}")

    def shown(self, value: float) -> Any:
        return int(value) if self.whole else float(value)

    def found(self, stored: object) -> float | None:
        """The value stored in the spec of a run, when it lies in the range."""
        try:
            value = float(stored)  # type: ignore[arg-type]
        except (TypeError, ValueError):
            return None
        if isinstance(stored, bool) or not self.low <= value <= self.high:
            return None
        return int(value) if self.whole else value

    def values(self) -> list[float] | None:
        """All values; None when the range is continuous."""
        step = self.step or (1 if self.whole and not self.log else None)
        if step is None:
            return None
        count = int((self.high - self.low) / step + 1e-9) + 1
        made = [self.low + index * step for index in range(count)]
        return [int(value) for value in made] if self.whole else made


@dataclass(frozen=True, slots=True)
class SearchChoice:
    """One of several values of any type."""

    path: str
    nodes: tuple[Node, ...]
    # Each as stored in the spec of a run, where text fields hold text.
    stored: tuple[Any, ...]

    def node(self, value: float) -> Node:
        return self.nodes[int(value)]

    def shown(self, value: float) -> Any:
        return self.stored[int(value)]

    def found(self, stored: object) -> float | None:
        same = [i for i, one in enumerate(self.stored) if one == stored and type(one) is type(stored)]
        return same[0] if same else None

    def values(self) -> list[float] | None:
        return list(range(len(self.nodes)))


Axis = SearchRange | SearchChoice


def read_space(node: Node | None) -> tuple[list[SearchRange | tuple[str, ListNode]], list[Violation]]:
    """Parse the search space: ranges, choices as (path, values), and violations."""
    if not isinstance(node, MapNode) or not node.entries:
        where = node.where if node else ""
        return [], [Violation("search", f"expected field paths, each with a range; {SHAPES}", where)]
    axes: list[SearchRange | tuple[str, ListNode]] = []
    violations: list[Violation] = []
    for path, given in node.entries.items():
        try:
            field_parts(path)
            axes.append(_axis(path, given))
        except InvalidError as error:
            found = error.violations or [Violation(f"search.{path}", error.message, given.where)]
            violations += found
    return axes, violations


def _axis(path: str, node: Node) -> SearchRange | tuple[str, ListNode]:
    field = f"search.{path}"
    if path == "seed":
        _refuse(field, "a seed is not searched for; give seeds to try each trial with", node)
    if not isinstance(node, MapNode):
        _refuse(field, SHAPES, node)
    kinds = [kind for kind in ("float", "int", "choice") if kind in node.entries]
    if len(kinds) != 1:
        _refuse(field, SHAPES, node)
    [kind] = kinds
    allowed = {"choice"} if kind == "choice" else {kind, "log", "step"}
    for key, value in node.entries.items():
        if key not in allowed:
            _refuse(f"{field}.{key}", f"unknown field: {not_accepted(key, allowed)}", value)
    given = node.entries[kind]
    if kind != "choice":
        return _range(path, kind == "int", node, given)
    if not isinstance(given, ListNode) or len(given.items) < 2:
        _refuse(f"{field}.choice", "expected a list of two values or more", given)
    return path, given


def _range(path: str, whole: bool, node: MapNode, bounds: Node) -> SearchRange:
    kind = "int" if whole else "float"
    field = f"search.{path}"
    if not isinstance(bounds, ListNode) or len(bounds.items) != 2:
        _refuse(f"{field}.{kind}", "expected [low, high]", bounds)
    low, high = (_number(f"{field}.{kind}", item, whole) for item in bounds.items)
    if low >= high:
        _refuse(f"{field}.{kind}", f"the low end {low:g} is not below the high end {high:g}", bounds)
    log, step = _log(field, node), None
    if "step" in node.entries:
        step = _number(f"{field}.step", node.entries["step"], whole)
        if not 0 < step <= high - low:
            _refuse(f"{field}.step", f"{step:g} is not between 0 and {high - low:g}", node.entries["step"])
        if log:
            _refuse(f"{field}.step", "a logarithmic range has no step; omit one of them", node)
    if log and low <= 0:
        _refuse(f"{field}.log", f"the low end {low:g} has no logarithm; begin above 0", bounds)
    return SearchRange(path, low, high, whole, log, step)


def _log(field: str, node: MapNode) -> bool:
    given = node.entries.get("log")
    value = given.value() if isinstance(given, Scalar) else None
    if given is not None and not isinstance(value, bool):
        _refuse(f"{field}.log", "expected true or false", given)
    return bool(value)


def _number(field: str, node: Node, whole: bool) -> float:
    value = node.value() if isinstance(node, Scalar) else None
    if isinstance(value, bool) or not isinstance(value, int | float) or not abs(value) <= 2**53:
        _refuse(field, "expected a number, at most 2^53", node)
    if whole and value != int(value):
        _refuse(field, "expected a whole number", node)
    return int(value) if whole else float(value)


def _refuse(field: str, what: str, node: Node) -> NoReturn:
    raise InvalidError("not a valid sweep", [Violation(field, what, node.where)])


def value_at(plain: Mapping[str, Any], path: str) -> Any:
    """Value at a field path of a plain spec; None when absent."""
    at: Any = plain
    for part in field_parts(path):
        if not isinstance(at, Mapping) or part not in at:
            return None
        at = at[part]
    return at


def unbounded_paths(axes: Sequence[Axis]) -> list[str]:
    """Paths of continuous ranges, which a grid cannot hold."""
    return [axis.path for axis in axes if axis.values() is None]
