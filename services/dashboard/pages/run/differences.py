"""What differs between code, packages and surroundings of two runs, below the difference of their specs."""

from __future__ import annotations

import difflib

from nicegui import ui

from runspine.errors import RunspineError
from runspine.reproduce.differences import (
    Difference,
    FileChange,
    file_changes,
    package_differences,
    provenance_differences,
)
from runspine.services.dashboard.edges.api_code import read_object, read_tree
from runspine.services.dashboard.pages.elements.context import Visitor
from runspine.services.dashboard.pages.elements.plain_text import difference
from runspine.wire.v1.facts_pb2 import Provenance
from runspine.wire.v1.trainer_pb2 import GetResponse

MAX_FILES, MAX_FILE_BYTES, MAX_LINES = 20, 256 << 10, 400


async def draw_differences(visitor: Visitor, first: GetResponse, second: GetResponse) -> None:
    """Sections that have something in them; `second` is the run of the page."""
    try:
        await _draw_code(visitor, first, second)
        one, two = _provenance(first), _provenance(second)
        _draw_pairs("Packages", await _packages(visitor, one, two))
        _draw_pairs("Surroundings", provenance_differences(one, two))
    except RunspineError as error:
        ui.label(str(error)).classes("rs-bad")


async def _draw_code(visitor: Visitor, first: GetResponse, second: GetResponse) -> None:
    digests = first.run.spec.code.tree, second.run.spec.code.tree
    if digests[0] == digests[1]:
        return
    one, two = [await read_tree(visitor.access, digest) if digest else None for digest in digests]
    changes = file_changes(one, two)
    if changes:
        ui.label(f"Code: {len(changes):,} files differ").classes("rs-section")
    for change in changes[:MAX_FILES]:
        difference(await _lines(visitor, change))
    if len(changes) > MAX_FILES:
        ui.label(f"{len(changes) - MAX_FILES:,} more: runspine diff").classes("rs-quiet")


async def _lines(visitor: Visitor, change: FileChange) -> list[str]:
    """The difference of a file as text, or a line about it."""
    sides = [entry for entry in (change.first, change.second) if entry is not None]
    texts = ["", ""]
    for number, entry in enumerate((change.first, change.second)):
        if entry is None:
            continue
        if not entry.digest or max(side.size for side in sides) > MAX_FILE_BYTES:
            return [f"{change.path}: {change.what}"]
        data = await read_object(visitor.access, entry.digest)
        if b"\0" in data:
            return [f"{change.path}: {change.what}, no text"]
        texts[number] = data.decode("utf-8", "replace")
    before, after = (text.splitlines() for text in texts)
    lines = list(difflib.unified_diff(before, after, change.path, change.path, lineterm="", n=2))
    return lines[:MAX_LINES] or [f"{change.path}: {change.what}"]


async def _packages(visitor: Visitor, one: Provenance, two: Provenance) -> list[Difference]:
    if one.packages == two.packages or not (one.packages and two.packages):
        return []
    lists = [await read_object(visitor.access, each.packages, packages=True) for each in (one, two)]
    return package_differences(*(data.decode(errors="replace") for data in lists))


def _draw_pairs(title: str, found: list[Difference]) -> None:
    if found:
        ui.label(title).classes("rs-section")
        difference([f"{each.name}: {each.first or '–'} → {each.second or '–'}" for each in found])


def _provenance(found: GetResponse) -> Provenance:
    return found.attempts[-1].provenance if found.attempts else Provenance()
