"""Sweep files: a run file with a `search` space and search options."""

from __future__ import annotations

import hashlib
import itertools
import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.code.placement import PlacedCode
from runspine.errors import InvalidError, Violation
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import to_plain
from runspine.spec.run_file import build_spec, check_readers, override, read_bytes, seed_nodes
from runspine.spec.strict_yaml import MAX_BYTES, ListNode, MapNode, Node, Scalar, read_yaml
from runspine.sweep.space import (
    Axis,
    Point,
    SearchChoice,
    SearchRange,
    read_space,
    unbounded_paths,
    value_at,
)
from runspine.wire.v1.spec_pb2 import Packages, RunSpec

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("none", "median", "halving", "hyperband")
DIRECTIONS = ("maximize", "minimize")
VALUES = ("final", "last", "best")
MAX_TRIALS = 10_000
FIELDS = ("search", "metric", "direction", "value", "trials", "parallel", "seeds", "sampler", "pruner",
          "startup", "rungs")  # fmt: skip
_ID = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z")


@dataclass(frozen=True, slots=True)
class SweepPlan:
    """A parsed sweep file."""

    id: str
    base: MapNode
    folder: Path
    source: str
    axes: tuple[Axis, ...]
    metric: str
    direction: str
    value: str
    trials: int
    parallel: int
    seeds: tuple[int, ...]
    sampler: str
    pruner: str
    startup: int
    rungs: int
    # Env steps of a run, by which its progress is measured; 0 when not given.
    budget: int
    # Stored code of its programs; it is the same for all trials.
    code: PlacedCode | None = None
    # Stored packages of its programs, the same for all trials.
    packages: Packages | None = None

    def spec(self, number: int, point: Point, seed: int) -> RunSpec:
        """Spec of one trial and seed; deterministic."""
        nodes = {axis.path: axis.node(point[axis.path]) for axis in self.axes}
        seeded = {**nodes, "seed": Scalar(str(seed), False, "seeds")}
        spec = build_spec(self.base, seeded, folder=self.folder, source=self.source)
        if self.code is not None:
            self.code.apply(spec)
        if self.packages is not None:
            spec.packages.MergeFrom(self.packages)
        spec.labels.update(self.labels | {"trial": str(number)})
        if spec.name:
            spec.name = f"{spec.name}-{number:03d}" + (f"-s{seed}" if len(self.seeds) > 1 else "")
        return spec

    @property
    def labels(self) -> dict[str, str]:
        """Labels from which a reader without the file can reconstruct the sweep."""
        fields = {"metric": self.metric, "direction": self.direction, "value": self.value}
        return {"sweep": self.id} | {f"sweep.{key}": text for key, text in fields.items()}

    def key(self, number: int, seed: int) -> str:
        """Idempotency key of one trial and seed."""
        return f"sweep/{self.id}/{number}" + (f"/{seed}" if len(self.seeds) > 1 else "")

    def point(self, spec: RunSpec) -> Point:
        """Point of a run in the search space. Raises InvalidError."""
        plain, point = to_plain(spec, full=False), {}
        for axis in self.axes:
            stored = value_at(plain, axis.path)
            value = axis.found(stored)
            if value is None:
                trial = spec.labels.get("trial", "?")
                raise InvalidError(
                    f"trial {trial} of sweep {self.id} has {axis.path} = {stored!r}, which is outside the "
                    "search space of this file: use another --id, or the original search space"
                )
            point[axis.path] = value
        return point

    def shown(self, point: Point) -> dict[str, Any]:
        return {axis.path: axis.shown(point[axis.path]) for axis in self.axes}

    def grid(self) -> list[Point]:
        """All combinations; the last axis varies fastest."""
        values = [axis.values() or [] for axis in self.axes]
        paths = [axis.path for axis in self.axes]
        return [dict(zip(paths, one, strict=True)) for one in itertools.product(*values)]


def load_plan(path: Path, sets: Sequence[str] = (), name: str = "") -> SweepPlan:
    """Read a sweep file. Raises InvalidError with all violations."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}") from error
    return parse_plan(read_bytes(data, str(path)), path, sets, name)


def parse_plan(text: str, path: Path, sets: Sequence[str] = (), name: str = "") -> SweepPlan:
    root = read_yaml(text, str(path))
    if not isinstance(root, MapNode):
        raise InvalidError(f"{root.where}: expected fields such as `runner: builtin` and `search:`")
    for setting in sets:
        override(root, setting)
    return _PlanReader(root, path, name).plan()


class _PlanReader:
    """Splits a sweep file into the fields of the sweep and a run file."""

    def __init__(self, root: MapNode, path: Path, name: str) -> None:
        self.given = {key: root.entries[key] for key in FIELDS if key in root.entries}
        self.base = MapNode({k: v for k, v in root.entries.items() if k not in FIELDS}, root.where)
        self.path, self.name = path, name
        self.violations: list[Violation] = []

    def plan(self) -> SweepPlan:
        ranges, violations = read_space(self.given.get("search"))
        self.violations += violations
        if "sweep" in self.base.entries:
            where = self.base.entries["sweep"].where
            self._add("sweep", "write a grid as search with choices, and sampler: grid", where)
        fields: dict[str, Any] = {
            "metric": self._text("metric", "episode/return"),
            "direction": self._word("direction", DIRECTIONS, "maximize"),
            "value": self._word("value", VALUES, "final"),
            "trials": self._count("trials", 20, MAX_TRIALS),
            "parallel": self._count("parallel", 2, 1000),
            "sampler": self._word("sampler", SAMPLERS, "tpe"),
            "pruner": self._word("pruner", PRUNERS, "none"),
            "startup": self._count("startup", 5, MAX_TRIALS),
            "rungs": self._count("rungs", 10, 1000),
        }
        seeds = self._seeds()
        self._raise()
        axes = tuple(self._axis(one) for one in ranges)
        base = self._example(axes)
        self._check(fields, axes, base)
        self._raise()
        search = self.given["search"]
        wheres = {axis.path: getattr(search, "where", "") for axis in axes}
        check_readers(base, wheres, "search", self.path.parent, str(self.path))
        if fields["sampler"] == "grid":
            size = math.prod(len(axis.values() or []) for axis in axes)
            fields["trials"] = min(fields["trials"], size) if "trials" in self.given else size
        return SweepPlan(
            id=self._id(seeds), base=self.base, folder=self.path.parent, source=str(self.path), axes=axes,
            seeds=seeds or ((base.seed if base.HasField("seed") else 1),), budget=base.total_steps, **fields,
        )  # fmt: skip

    def _axis(self, one: SearchRange | tuple[str, ListNode]) -> Axis:
        if isinstance(one, SearchRange):
            return one
        path, nodes = one
        stored = tuple(value_at(to_plain(self._spec({path: node}), full=False), path) for node in nodes.items)
        if len({json.dumps(value, sort_keys=True) for value in stored}) < len(stored):
            twice = Violation(f"search.{path}.choice", "holds a value twice", nodes.where)
            raise InvalidError(f"{self.path} is not a valid sweep", [twice])
        return SearchChoice(path, tuple(nodes.items), stored)

    def _example(self, axes: Sequence[Axis]) -> RunSpec:
        """Build one spec of the sweep, so that invalid fields are found before the first trial."""
        lows = {a.path: a.node(a.low if isinstance(a, SearchRange) else 0) for a in axes}
        return self._spec(lows)

    def _spec(self, values: Mapping[str, Node]) -> RunSpec:
        return build_spec(self.base, values, folder=self.path.parent, source=str(self.path))

    def _check(self, fields: Mapping[str, Any], axes: Sequence[Axis], base: RunSpec) -> None:
        if fields["pruner"] != "none" and not base.total_steps:
            what = f"{fields['pruner']} compares trials at equal steps: set total_steps, or use pruner: none"
            self._add("pruner", what, self.given["pruner"].where)
        if fields["sampler"] == "grid" and (endless := unbounded_paths(axes)):
            what = f"a grid needs choices, whole numbers or a step: {', '.join(endless)}"
            self._add("sampler", what, self.given["sampler"].where)
        if "startup" in self.given and fields["sampler"] != "tpe" and fields["pruner"] != "median":
            what = "only sampler tpe and pruner median use it; omit it"
            self._add("startup", what, self.given["startup"].where)
        if "rungs" in self.given and fields["pruner"] == "none":
            self._add("rungs", "only a pruner uses rungs; omit it", self.given["rungs"].where)

    def _id(self, seeds: Sequence[int]) -> str:
        """Id derived from the search, so that the same file continues it, also with more trials."""
        if self.name:
            if not _ID.match(self.name):
                raise InvalidError(f"--id {self.name}: use letters, digits, _ . and -, at most 63 of them")
            return self.name
        free = ("trials", "parallel")
        content = {k: _plain(v) for k, v in {**self.base.entries, **self.given}.items() if k not in free}
        digest = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()[:8]
        stem = re.sub(r"[^A-Za-z0-9_.-]", "-", self.path.stem)[:40]
        return f"{stem}-{digest}"

    def _seeds(self) -> tuple[int, ...]:
        if "seeds" not in self.given:
            return ()
        try:
            nodes = seed_nodes(self.given["seeds"])
        except InvalidError as error:
            self._add("seeds", error.message, "")
            return ()
        values = [node.value() if isinstance(node, Scalar) else None for node in nodes]
        good = [v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**63]
        if len(set(good)) != len(values):
            self._add("seeds", "expected whole numbers, each once", self.given["seeds"].where)
        return tuple(good)

    def _count(self, field: str, default: int, limit: int) -> int:
        node = self.given.get(field)
        value = node.value() if isinstance(node, Scalar) else None
        if node is None:
            return default
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= limit:
            self._add(field, f"expected a whole number from 1 to {limit}", node.where)
            return default
        return value

    def _word(self, field: str, words: Sequence[str], default: str) -> str:
        node = self.given.get(field)
        if node is None:
            return default
        text = node.text if isinstance(node, Scalar) else ""
        if text not in words:
            self._add(field, not_accepted(text, words), node.where)
        return text

    def _text(self, field: str, default: str) -> str:
        node = self.given.get(field)
        text = node.text if isinstance(node, Scalar) else "" if node else default
        if not text or len(text) > 200 or not text.isprintable():
            self._add(
                field, "expected the name of a series, such as episode/return", node.where if node else ""
            )
        return text

    def _add(self, field: str, what: str, where: str) -> None:
        self.violations.append(Violation(field, what, where))

    def _raise(self) -> None:
        if self.violations:
            raise InvalidError(f"{self.path} is not a valid sweep", self.violations)


def _plain(node: Node) -> Any:
    if isinstance(node, MapNode):
        return {key: _plain(child) for key, child in node.entries.items()}
    if isinstance(node, ListNode):
        return [_plain(child) for child in node.items]
    return node.text
