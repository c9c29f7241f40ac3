"""Manifests of code trees: canonical, and refused when a worker could be harmed by one."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.code.tree import (
    FILE,
    FORMAT,
    LINK,
    PROGRAM,
    CodeTreeError,
    TreeEntry,
    link_inside,
    make_tree,
    parse_tree,
)

DIGEST = "ab" * 32


def a_file(path: str, kind: str = FILE, size: int = 1) -> TreeEntry:
    return TreeEntry(path, kind, size, DIGEST)


def manifest(*entries: object) -> bytes:
    lines = [json.dumps({"format": FORMAT}), *map(json.dumps, entries)]
    return ("\n".join(lines) + "\n").encode()


def test_the_same_files_in_any_order_are_one_tree() -> None:
    entries = [a_file("b.py"), a_file("a/x.py"), a_file("a.py", PROGRAM), TreeEntry("l", LINK, target="a.py")]
    tree = make_tree(entries)
    assert tree == make_tree(reversed(entries)) == parse_tree(tree.data)
    assert [entry.path for entry in tree.entries] == ["a.py", "a/x.py", "b.py", "l"]
    assert make_tree([a_file("a.py")]).digest != make_tree([a_file("a.py", PROGRAM)]).digest


@pytest.mark.parametrize(
    "path",
    ["../x", "/etc/passwd", "a/../../x", "a//b", "./a", "", "a\0b", ".git/hooks/pre-commit", "a/", ".."],
)
def test_names_that_lead_out_of_the_tree_are_refused(path: str) -> None:
    with pytest.raises(CodeTreeError):
        parse_tree(manifest(["file", path, 1, DIGEST]))


@pytest.mark.parametrize("target", ["/etc", "..", "../..", "d/../../x", "", "x/..", "a\0"])
def test_links_out_of_the_tree_are_refused(target: str) -> None:
    with pytest.raises(CodeTreeError, match="out of the tree"):
        parse_tree(manifest(["link", "l", target]))


def test_a_link_may_lead_to_another_folder_of_the_tree() -> None:
    assert link_inside("a/b/l", "../../c/d.py")
    assert not link_inside("a/b/l", "../../../c")
    # The name before `..` may be a link to a folder elsewhere.
    assert not link_inside("a/b/l", "d/../x")


@pytest.mark.parametrize(
    "entry",
    [
        ["device", "a", 1, DIGEST],
        ["file", "a", -1, DIGEST],
        ["file", "a", True, DIGEST],
        ["file", "a", 1, "../" + DIGEST[3:]],
        ["file", "a", 1 << 40, DIGEST],
        ["file", "a"],
        {"path": "a"},
        "a",
    ],
)
def test_entries_that_are_no_files_are_refused(entry: list[object]) -> None:
    with pytest.raises(CodeTreeError):
        parse_tree(manifest(entry))


def test_a_file_below_a_link_or_below_a_file_is_refused() -> None:
    for first in (["link", "a", "b"], ["file", "a", 1, DIGEST]):
        with pytest.raises(CodeTreeError, match="a folder too"):
            parse_tree(manifest(first, ["file", "a/x", 1, DIGEST]))


def test_a_path_that_is_named_twice_is_refused() -> None:
    with pytest.raises(CodeTreeError, match="twice"):
        parse_tree(manifest(["file", "a", 1, DIGEST], ["link", "a", "b"]))


def test_another_order_or_spacing_is_another_manifest_and_refused() -> None:
    data = manifest(["file", "b", 1, DIGEST], ["file", "a", 1, DIGEST])
    with pytest.raises(CodeTreeError, match="canonical"):
        parse_tree(data)


@given(st.binary(max_size=300))
def test_any_bytes_are_a_tree_or_refused(data: bytes) -> None:
    try:
        parse_tree(data)
    except CodeTreeError:
        return
    assert data.startswith(b'{"format"')


@given(st.lists(st.text(max_size=20), max_size=5, unique=True))
def test_any_names_are_a_tree_that_reads_back_or_refused(names: list[str]) -> None:
    try:
        tree = make_tree([a_file(name) for name in names])
    except CodeTreeError:
        return
    assert parse_tree(tree.data) == tree
