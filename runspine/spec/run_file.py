"""Run files: YAML with the fields of RunSpec, and `seeds` or `sweep` for a grid of runs."""

from __future__ import annotations

import itertools
import math
import os
import re
import shutil
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from runspine.errors import InvalidError, Violation
from runspine.spec.plain import fill, to_plain
from runspine.spec.strict_yaml import (
    MAX_BYTES,
    ListNode,
    MapNode,
    Node,
    Scalar,
    node_of,
    read_yaml,
    write_yaml,
)
from runspine.spec.unread_fields import remedy, unread_fields
from runspine.wire.v1.spec_pb2 import RunSpec

MAX_RUNS = 1000
_SEEDS = re.compile(r"([0-9][0-9_]*)(?:\.\.([0-9][0-9_]*))?\Z")
_PART = re.compile(r'"([^"]*)"|([^."]+)')


@dataclass(frozen=True, slots=True)
class RunFile:
    """The runs of one file: one run, or a grid."""

    specs: list[RunSpec]
    # Values that differ between runs, for display: {"seed": "1", "params.gamma": "0.9"}.
    variations: list[dict[str, str]]
    # Line of each field, for violations that the server reports.
    places: dict[str, str] = field(default_factory=dict)
    # Folder of the file, and its choice of code: a folder, none or image; empty for the default.
    folder: Path = field(default_factory=Path)
    code: str = ""
    # Its choice of packages: one word, or a list of packages; empty for none.
    packages: str | tuple[str, ...] = ""

    @property
    def several(self) -> bool:
        return len(self.specs) > 1

    def locate(self, violations: Sequence[Violation]) -> list[Violation]:
        """Add the line of its field to each violation."""
        return [v if v.where else replace(v, where=self._place(v.field)) for v in violations]

    def _place(self, name: str) -> str:
        path = name.removeprefix("spec.")
        while path and path not in self.places:
            path = path.rpartition(".")[0]
        return self.places.get(path, "")


def read_bytes(data: bytes, source: str) -> str:
    if len(data) > MAX_BYTES:
        raise InvalidError(f"{source}: larger than {MAX_BYTES >> 20} MB, the limit of a run file")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InvalidError(f"{source}: not UTF-8 text (byte {error.start})") from error


def load(path: Path, sets: Sequence[str] = ()) -> RunFile:
    """Read a run file. Raises InvalidError with all violations."""
    try:
        with path.open("rb") as file:
            data = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise InvalidError(f"{path}: {error.strerror}") from error
    return parse(read_bytes(data, str(path)), source=str(path), folder=path.parent, sets=sets)


def parse(text: str, *, source: str, folder: Path, sets: Sequence[str] = ()) -> RunFile:
    root = read_yaml(text, source)
    if not isinstance(root, MapNode):
        raise InvalidError(f"{root.where}: expected fields such as `runner: script`")
    return build(root, folder=folder, sets=sets, source=source)


def build(root: MapNode, *, folder: Path, sets: Sequence[str] = (), source: str = "") -> RunFile:
    """Apply overrides, expand the grid and build every spec."""
    base = _copy(root)
    for setting in sets:
        override(base, setting)
    seeds = base.entries.pop("seeds", None)
    sweep = base.entries.pop("sweep", None)
    specs, variations = [], []
    for variation in _grid(seeds, sweep):
        specs.append(build_spec(base, variation, folder=folder, source=source))
        variations.append({path: _shown(value) for path, value in variation.items()})
    if isinstance(sweep, MapNode):
        wheres = {path: node.where for path, node in sweep.entries.items()}
        check_readers(specs[0], wheres, "sweep", folder, source)
    places = dict(_places(base, ""))
    return RunFile(specs, variations, places, folder, code_choice(base), packages_choice(base))


def build_spec(base: MapNode, values: Mapping[str, Node], *, folder: Path, source: str = "") -> RunSpec:
    """Build one spec: the base with values at these field paths."""
    node = _copy(base)
    for path, value in values.items():
        _put(node, field_parts(path), value, path)
    return _spec(node, folder, source)


def check_readers(spec: RunSpec, wheres: Mapping[str, str], kind: str, folder: Path, source: str) -> None:
    """Refuse a grid or a search over fields that the program does not read. Raises InvalidError."""
    unread = unread_fields(spec, list(wheres), folder)
    violations = [Violation(f"{kind}.{path}", remedy(path), wheres[path]) for path in unread]
    if violations:
        raise InvalidError(f"{source or 'the run file'} would run the same several times", violations)


def apply_overrides(spec: RunSpec, sets: Sequence[str]) -> RunSpec:
    """Apply overrides to a stored spec."""
    node = node_of(to_plain(spec, full=False), "")
    assert isinstance(node, MapNode)
    for setting in sets:
        override(node, setting)
    return _spec(node, None, "the changed spec")


def spec_yaml(spec: RunSpec) -> str:
    """The spec as a run file."""
    return write_yaml(to_plain(spec, full=False))


def override(root: MapNode, setting: str) -> None:
    """Apply `key.path=value`; the value is parsed as YAML, so [64, 64] is a list."""
    path, equals, text = setting.partition("=")
    if not equals or not path.strip():
        raise InvalidError(f"--set {setting}: expected key=value, such as --set params.gamma=0.99")
    where = f"--set {path}"
    value = read_yaml(text, where) if text.strip() else Scalar("", True, where)
    _put(root, field_parts(path.strip()), _placed(value, where), where)


def code_choice(root: MapNode) -> str:
    """`code` as one word: a folder, none or image. Stored code is written as fields."""
    node = root.entries.get("code")
    return node.text if isinstance(node, Scalar) else ""


def packages_choice(root: MapNode) -> str | tuple[str, ...]:
    """`packages` as one word or a list. Stored ones are written as fields. Raises InvalidError."""
    node = root.entries.get("packages")
    if isinstance(node, ListNode):
        if not all(isinstance(item, Scalar) for item in node.items):
            raise InvalidError(f"{node.where}: packages: expected names such as numpy==2.4.6")
        return tuple(item.text for item in node.items if isinstance(item, Scalar))
    if isinstance(node, MapNode) and "tree" not in node.entries:
        node = node.entries.get("source", node)
    return node.text if isinstance(node, Scalar) else ""


def _spec(node: MapNode, folder: Path | None, source: str) -> RunSpec:
    spec = RunSpec()
    choice, packages = code_choice(node), packages_choice(node)
    if folder is None and packages not in ("", "none"):
        raise InvalidError(f"{source}: packages: only none can be set here; submit the run file again")
    chosen = {"code"} if choice else set[str]()
    if packages and not isinstance(node.entries["packages"], MapNode):
        chosen.add("packages")
    if chosen:
        node = MapNode({key: child for key, child in node.entries.items() if key not in chosen}, node.where)
    if choice == "image":
        spec.code.image = True
    violations = fill(spec, node)
    if violations:
        raise InvalidError(f"{source or 'the spec'} is not a valid run", violations)
    if folder is not None:
        _anchor(spec, folder.resolve())
    return spec


def field_parts(path: str) -> list[str]:
    """Split `params."a.b".c`; a quoted part may contain dots."""
    parts = [quoted or bare for quoted, bare in _PART.findall(path)]
    if not parts or _PART.sub("", path).strip(".") or path.startswith(".") or path.endswith("."):
        raise InvalidError(f"{path}: not a field path, such as params.gamma")
    # These are flat maps, so everything after the first dot is the key.
    if parts[0] in ("labels", "variables", "sweep", "search") and len(parts) > 2:
        parts = [parts[0], ".".join(parts[1:])]
    return parts


def _put(root: MapNode, parts: list[str], value: Node, where: str) -> None:
    node = root
    for part in parts[:-1]:
        inner = node.entries.setdefault(part, MapNode({}, where))
        if not isinstance(inner, MapNode):
            raise InvalidError(
                f"{where}: {part} is {'a list' if isinstance(inner, ListNode) else 'one value'}; set it whole"
            )
        node = inner
    node.entries[parts[-1]] = value


def _grid(seeds: Node | None, sweep: Node | None) -> list[dict[str, Node]]:
    """All combinations; a single empty one when nothing varies."""
    axes: dict[str, list[Node]] = {}
    if sweep is not None:
        if not isinstance(sweep, MapNode):
            raise InvalidError(f"{sweep.where}: sweep: expected field paths, each with a list")
        for path, values in sweep.entries.items():
            axes[path] = _axis(f"sweep.{path}", values)
    if seeds is not None:
        if "seed" in axes:
            raise InvalidError(f"{seeds.where}: seeds and sweep.seed exclude each other; keep one")
        axes["seed"] = seed_nodes(seeds)
    size = math.prod(len(values) for values in axes.values())
    if size > MAX_RUNS:
        counts = " × ".join(str(len(values)) for values in axes.values())
        raise InvalidError(f"the grid holds {size} runs ({counts}); at most {MAX_RUNS} in one file")
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


def seed_nodes(node: Node) -> list[Node]:
    """Nodes of seeds given as a list or as text such as 1..5."""
    if isinstance(node, Scalar) and ".." in node.text:
        return [Scalar(str(seed), False, node.where) for seed in read_seeds(node.text, node.where)]
    return _axis("seeds", node)


def read_seeds(text: str, where: str) -> list[int]:
    """`1..5`, `1,2,7`, or both: `1..3,7`. Each seed once. Raises InvalidError."""
    seeds: dict[int, None] = {}
    for part in text.split(","):
        match = _SEEDS.match(part.strip())
        first, last = (int(match[1]), int(match[2] or match[1])) if match else (1, 0)
        if last < first or last >= 2**63:
            raise InvalidError(
                f"{where}: {part.strip()!r} is not a seed: expected a form such as 1..5 or 1,2,7"
            )
        if last - first >= MAX_RUNS or len(seeds) > MAX_RUNS:
            raise InvalidError(f"{where}: more than {MAX_RUNS} seeds; at most {MAX_RUNS} runs in one file")
        seeds |= dict.fromkeys(range(first, last + 1))
    return list(seeds)


def _axis(path: str, node: Node) -> list[Node]:
    if not isinstance(node, ListNode) or not node.items:
        raise InvalidError(f"{node.where}: {path}: expected a list of values, such as [1, 2, 3]")
    return node.items


def _copy(node: MapNode) -> MapNode:
    entries = {k: _copy(v) if isinstance(v, MapNode) else v for k, v in node.entries.items()}
    return MapNode(entries, node.where)


def _placed(node: Node, where: str) -> Node:
    """Copy of the node with one source location for all parts."""
    if isinstance(node, MapNode):
        return MapNode({k: _placed(v, where) for k, v in node.entries.items()}, where)
    if isinstance(node, ListNode):
        return ListNode([_placed(v, where) for v in node.items], where)
    return Scalar(node.text, node.quoted, where)


def _places(node: MapNode, prefix: str) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    for key, child in node.entries.items():
        found.append((f"{prefix}{key}", child.where))
        if isinstance(child, MapNode):
            found += _places(child, f"{prefix}{key}.")
    return found


def _shown(node: Node) -> str:
    if isinstance(node, Scalar):
        return node.text
    if isinstance(node, ListNode):
        return "[" + ", ".join(_shown(item) for item in node.items) + "]"
    return "{" + ", ".join(f"{k}: {_shown(v)}" for k, v in node.entries.items()) + "}"


def _anchor(spec: RunSpec, folder: Path) -> None:
    """Make paths relative to the run file absolute, because a run starts in its own folder."""
    if spec.workdir and not Path(spec.workdir).is_absolute() and (folder / spec.workdir).is_dir():
        spec.workdir = str(folder / spec.workdir)
    if spec.runner != "script":
        return
    for index, word in enumerate(spec.command):
        if not word or word.startswith("-") or Path(word).is_absolute() or "\0" in word:
            continue
        # Not Path.is_file, which raises when a word is too long for a file name.
        if spec.workdir and os.path.isfile(Path(spec.workdir) / word):
            continue
        # The program itself is looked up on PATH first, as a shell would.
        if index == 0 and "/" not in word and shutil.which(word):
            continue
        if os.path.isfile(folder / word):
            spec.command[index] = str(folder / word)


def group_labels(file: RunFile, group: str) -> None:
    """Label the runs of one file as a group, and make their names distinct."""
    width = len(str(len(file.specs)))
    for number, spec in enumerate(file.specs, 1):
        if not spec.labels.get("group"):
            spec.labels["group"] = group
        if spec.name:
            spec.name = f"{spec.name}-{number:0{width}d}"
