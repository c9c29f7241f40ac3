"""What differs between two runs: parameters, files, packages, surroundings and results. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

from runspine.code.tree import CodeTree, TreeEntry
from runspine.spec.plain import to_plain
from runspine.wire.v1.facts_pb2 import Provenance
from runspine.wire.v1.spec_pb2 import RunSpec

# Fields of a spec that change nothing of what is computed, or that have a section of their own.
_LEFT_OUT = ("name", "labels", "priority", "notes", "project", "code")
ADDED, REMOVED, CHANGED = "added", "removed", "changed"


class Difference(NamedTuple):
    """One thing that differs; empty where a run does not have it."""

    name: str
    first: str
    second: str


class FileChange(NamedTuple):
    """A file of the code that differs."""

    path: str
    what: str
    first: TreeEntry | None
    second: TreeEntry | None


def spec_differences(first: RunSpec, second: RunSpec) -> list[Difference]:
    """Fields of the specs that differ, as paths such as params.gamma."""
    return _compared(_spec_fields(first), _spec_fields(second))


def code_differences(first: RunSpec, second: RunSpec) -> list[Difference]:
    """Where the code came from and where it starts."""
    kept = ("tree", "directory", "image", "origin.commit", "origin.branch", "origin.remote", "origin.dirty")
    one = dict(_flat(to_plain(first.code, full=False), ""))
    two = dict(_flat(to_plain(second.code, full=False), ""))
    return [each for each in _compared(one, two) if each.name in kept]


def file_changes(first: CodeTree | None, second: CodeTree | None) -> list[FileChange]:
    """Files that differ, sorted by path."""
    one = {entry.path: entry for entry in first.entries} if first else {}
    two = {entry.path: entry for entry in second.entries} if second else {}
    changes = []
    for path in sorted({*one, *two}):
        before, after = one.get(path), two.get(path)
        if before != after:
            what = ADDED if before is None else REMOVED if after is None else CHANGED
            changes.append(FileChange(path, what, before, after))
    return changes


def package_differences(first: str, second: str) -> list[Difference]:
    """Packages that differ between two lists with `name==version` a line."""
    return _compared(_packages(first), _packages(second))


def provenance_differences(first: Provenance, second: Provenance) -> list[Difference]:
    """Surroundings that differ, without the packages."""
    return _compared(_surroundings(first), _surroundings(second))


def _spec_fields(spec: RunSpec) -> dict[str, str]:
    plain = to_plain(spec, full=False)
    return dict(_flat({key: value for key, value in plain.items() if key not in _LEFT_OUT}, ""))


def _surroundings(found: Provenance) -> dict[str, str]:
    plain = to_plain(found, full=False)
    return dict(_flat({key: value for key, value in plain.items() if not key.startswith("package")}, ""))


def _packages(text: str) -> dict[str, str]:
    pairs = (line.partition("==") for line in text.splitlines() if line)
    return {name: version for name, _, version in pairs}


def _flat(plain: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, str]]:
    for key, value in plain.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", str(value)


def _compared(first: Mapping[str, str], second: Mapping[str, str]) -> list[Difference]:
    names = sorted({*first, *second})
    found = (Difference(name, first.get(name, ""), second.get(name, "")) for name in names)
    return [each for each in found if each.first != each.second]
