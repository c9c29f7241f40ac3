"""A sweep file: a run file with a `search` space, and how to search it. Pure but for reading the file."""

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

from runspine.errors import Invalid, Violation
from runspine.nearest import not_accepted
from runspine.plain import to_plain
from runspine.runfile import filled, override, read_bytes, seed_nodes
from runspine.strict_yaml import MAX_BYTES, ListNode, MapNode, Node, Scalar, read_yaml
from runspine.sweep.space import Axis, Choice, Point, Range, read_space, stored_at, unlisted
from runspine.wire.v1.spec_pb2 import RunSpec

SAMPLERS = ("tpe", "random", "grid")
PRUNERS = ("none", "median", "halving", "hyperband")
DIRECTIONS = ("maximize", "minimize")
VALUES = ("final", "last", "best")
MOST_TRIALS = 10_000
FIELDS = ("search", "metric", "direction", "value", "trials", "parallel", "seeds", "sampler", "pruner",
          "startup", "rungs")  # fmt: skip
_ID = re.compile(r"[A-Za-z0-9_.-]{1,63}\Z")


@dataclass(frozen=True, slots=True)
class Plan:
    """What one sweep is."""

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
    # Env steps of a run, by which its progress is measured; 0 when not said.
    budget: int

    def spec(self, number: int, point: Point, seed: int) -> RunSpec:
        """The run of one trial and seed: nothing in it depends on who asks, or when."""
        nodes = {axis.path: axis.node(point[axis.path]) for axis in self.axes}
        seeded = {**nodes, "seed": Scalar(str(seed), False, "seeds")}
        spec = filled(self.base, seeded, folder=self.folder, source=self.source)
        spec.labels.update(self.labels | {"trial": str(number)})
        if spec.name:
            spec.name = f"{spec.name}-{number:03d}" + (f"-s{seed}" if len(self.seeds) > 1 else "")
        return spec

    @property
    def labels(self) -> dict[str, str]:
        """What tells others, who have no file, how to read these runs."""
        told = {"metric": self.metric, "direction": self.direction, "value": self.value}
        return {"sweep": self.id} | {f"sweep.{key}": text for key, text in told.items()}

    def key(self, number: int, seed: int) -> str:
        """Only one run can be had under it."""
        return f"sweep/{self.id}/{number}" + (f"/{seed}" if len(self.seeds) > 1 else "")

    def point(self, spec: RunSpec) -> Point:
        """Where in the space a run of this sweep lies. Raises Invalid."""
        plain, point = to_plain(spec, full=False), {}
        for axis in self.axes:
            stored = stored_at(plain, axis.path)
            value = axis.found(stored)
            if value is None:
                trial = spec.labels.get("trial", "?")
                raise Invalid(
                    f"trial {trial} of sweep {self.id} has {axis.path} = {stored!r}, which the search space "
                    "of this file does not hold: take another --id, or the space it was begun with"
                )
            point[axis.path] = value
        return point

    def shown(self, point: Point) -> dict[str, Any]:
        return {axis.path: axis.shown(point[axis.path]) for axis in self.axes}

    def grid(self) -> list[Point]:
        """Every combination, the last axis turning fastest."""
        values = [axis.values() or [] for axis in self.axes]
        paths = [axis.path for axis in self.axes]
        return [dict(zip(paths, one, strict=True)) for one in itertools.product(*values)]


def load_plan(path: Path, sets: Sequence[str] = (), name: str = "") -> Plan:
    """Read a sweep file. Raises Invalid with every fault found."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise Invalid(f"{path}: {error.strerror}") from error
    return parse_plan(read_bytes(data, str(path)), path, sets, name)


def parse_plan(text: str, path: Path, sets: Sequence[str] = (), name: str = "") -> Plan:
    root = read_yaml(text, str(path))
    if not isinstance(root, MapNode):
        raise Invalid(f"{root.where}: expected fields such as `runner: builtin` and `search:`")
    for setting in sets:
        override(root, setting)
    return _Reading(root, path, name).plan()


class _Reading:
    """Takes the sweep's own fields out of a file; what is left is a run file."""

    def __init__(self, root: MapNode, path: Path, name: str) -> None:
        self.given = {key: root.entries[key] for key in FIELDS if key in root.entries}
        self.base = MapNode({k: v for k, v in root.entries.items() if k not in FIELDS}, root.where)
        self.path, self.name = path, name
        self.flaws: list[Violation] = []

    def plan(self) -> Plan:
        ranges, flaws = read_space(self.given.get("search"))
        self.flaws += flaws
        if "sweep" in self.base.entries:
            where = self.base.entries["sweep"].where
            self._flaw("sweep", "a grid is written as search with choices here, and sampler: grid", where)
        fields: dict[str, Any] = {
            "metric": self._text("metric", "episode/return"),
            "direction": self._word("direction", DIRECTIONS, "maximize"),
            "value": self._word("value", VALUES, "final"),
            "trials": self._count("trials", 20, MOST_TRIALS),
            "parallel": self._count("parallel", 2, 1000),
            "sampler": self._word("sampler", SAMPLERS, "tpe"),
            "pruner": self._word("pruner", PRUNERS, "none"),
            "startup": self._count("startup", 5, MOST_TRIALS),
            "rungs": self._count("rungs", 10, 1000),
        }
        seeds = self._seeds()
        self._raise()
        axes = tuple(self._axis(one) for one in ranges)
        base = self._tried(axes)
        self._judge(fields, axes, base)
        self._raise()
        if fields["sampler"] == "grid":
            size = math.prod(len(axis.values() or []) for axis in axes)
            fields["trials"] = min(fields["trials"], size) if "trials" in self.given else size
        return Plan(
            id=self._id(seeds), base=self.base, folder=self.path.parent, source=str(self.path), axes=axes,
            seeds=seeds or ((base.seed if base.HasField("seed") else 1),), budget=base.total_steps, **fields,
        )  # fmt: skip

    def _axis(self, one: Range | tuple[str, ListNode]) -> Axis:
        if isinstance(one, Range):
            return one
        path, nodes = one
        stored = tuple(
            stored_at(to_plain(self._spec({path: node}), full=False), path) for node in nodes.items
        )
        if len({json.dumps(value, sort_keys=True) for value in stored}) < len(stored):
            twice = Violation(f"search.{path}.choice", "holds a value twice", nodes.where)
            raise Invalid(f"{self.path} is not a valid sweep", [twice])
        return Choice(path, tuple(nodes.items), stored)

    def _tried(self, axes: Sequence[Axis]) -> RunSpec:
        """A run of the sweep, so that what no run can have is found before the first."""
        lows = {a.path: a.node(a.low if isinstance(a, Range) else 0) for a in axes}
        return self._spec(lows)

    def _spec(self, values: Mapping[str, Node]) -> RunSpec:
        return filled(self.base, values, folder=self.path.parent, source=str(self.path))

    def _judge(self, fields: Mapping[str, Any], axes: Sequence[Axis], base: RunSpec) -> None:
        if fields["pruner"] != "none" and not base.total_steps:
            what = f"{fields['pruner']} compares trials at equal steps: say total_steps, or take pruner: none"
            self._flaw("pruner", what, self.given["pruner"].where)
        if fields["sampler"] == "grid" and (endless := unlisted(axes)):
            what = f"a grid needs choices, whole numbers or a step: {', '.join(endless)}"
            self._flaw("sampler", what, self.given["sampler"].where)
        if "startup" in self.given and fields["sampler"] != "tpe" and fields["pruner"] != "median":
            what = "only sampler tpe and pruner median have first trials of their own; leave it out"
            self._flaw("startup", what, self.given["startup"].where)
        if "rungs" in self.given and fields["pruner"] == "none":
            self._flaw("rungs", "only a pruner looks at rungs; leave it out", self.given["rungs"].where)

    def _id(self, seeds: Sequence[int]) -> str:
        """Follows from what is searched, so that the same file goes on, also with more trials."""
        if self.name:
            if not _ID.match(self.name):
                raise Invalid(f"--id {self.name}: use letters, digits, _ . and -, at most 63 of them")
            return self.name
        free = ("trials", "parallel")
        told = {k: _plain(v) for k, v in {**self.base.entries, **self.given}.items() if k not in free}
        digest = hashlib.sha256(json.dumps(told, sort_keys=True).encode()).hexdigest()[:8]
        stem = re.sub(r"[^A-Za-z0-9_.-]", "-", self.path.stem)[:40]
        return f"{stem}-{digest}"

    def _seeds(self) -> tuple[int, ...]:
        if "seeds" not in self.given:
            return ()
        try:
            nodes = seed_nodes(self.given["seeds"])
        except Invalid as error:
            self._flaw("seeds", error.message, "")
            return ()
        values = [node.value() if isinstance(node, Scalar) else None for node in nodes]
        good = [v for v in values if isinstance(v, int) and not isinstance(v, bool) and 0 <= v < 2**63]
        if len(set(good)) != len(values):
            self._flaw("seeds", "expected whole numbers, each once", self.given["seeds"].where)
        return tuple(good)

    def _count(self, field: str, usual: int, most: int) -> int:
        node = self.given.get(field)
        value = node.value() if isinstance(node, Scalar) else None
        if node is None:
            return usual
        if isinstance(value, bool) or not isinstance(value, int) or not 1 <= value <= most:
            self._flaw(field, f"expected a whole number from 1 to {most}", node.where)
            return usual
        return value

    def _word(self, field: str, words: Sequence[str], usual: str) -> str:
        node = self.given.get(field)
        if node is None:
            return usual
        text = node.text if isinstance(node, Scalar) else ""
        if text not in words:
            self._flaw(field, not_accepted(text, words), node.where)
        return text

    def _text(self, field: str, usual: str) -> str:
        node = self.given.get(field)
        text = node.text if isinstance(node, Scalar) else "" if node else usual
        if not text or len(text) > 200 or not text.isprintable():
            self._flaw(
                field, "expected the name of a series, such as episode/return", node.where if node else ""
            )
        return text

    def _flaw(self, field: str, what: str, where: str) -> None:
        self.flaws.append(Violation(field, what, where))

    def _raise(self) -> None:
        if self.flaws:
            raise Invalid(f"{self.path} is not a valid sweep", self.flaws)


def _plain(node: Node) -> Any:
    if isinstance(node, MapNode):
        return {key: _plain(child) for key, child in node.entries.items()}
    if isinstance(node, ListNode):
        return [_plain(child) for child in node.items]
    return node.text
