"""The Merkle tree of a stream: known roots, and a path for every leaf."""

from __future__ import annotations

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.anchors.tree import MerkleTree, inclusion_path, message_leaf, missing_leaf, root_of_path

# The test vectors of RFC 6962 implementations: leaves and the roots of the trees of 1 to 8 of them.
INPUTS = ["", "00", "10", "2021", "3031", "40414243", "5051525354555657", "606162636465666768696a6b6c6d6e6f"]
ROOTS = [
    "6e340b9cffb37a989ca544e6bb780a2c78901d3fb33738768511a30617afa01d",
    "fac54203e7cc696cf0dfcb42c92a1d9dbaf70ad9e621f4bd8d98662f00e3c125",
    "aeb6bcfe274b70a14fb067a5e5578264db0fa9b51af5e0ba159158f329e06e77",
    "d37ee418976dd95753c1c73862b9398fa2a2cf9b4ff0fdfe8b30cd95209614b7",
    "4e3bbb1f7b478dcfe71fb631631519a3bca12c9aefca1612bfce4c13a86264d4",
    "76e67dadbcdf1e10e1b74ddc608abd2f98dfb16fbce75277b5232a127f2087ef",
    "ddb89be403809e325750d3d263cd78929c2942b7942a34b77e122c9594a74c8c",
    "5dc9da79a70659a9ad559cb701ded9a2ab9d823aad2f4960cfe370eff4604328",
]
LEAVES = [hashlib.sha256(b"\x00" + bytes.fromhex(each)).digest() for each in INPUTS]


def _tree(leaves: list[bytes]) -> MerkleTree:
    tree = MerkleTree()
    for leaf in leaves:
        tree.add(leaf)
    return tree


def test_the_roots_are_those_of_rfc_6962() -> None:
    assert [_tree(LEAVES[: n + 1]).root().hex() for n in range(8)] == ROOTS


def test_the_root_of_no_leaf_is_the_digest_of_nothing() -> None:
    assert MerkleTree().root() == hashlib.sha256(b"").digest()


@given(size=st.integers(1, 70), data=st.data())
def test_a_path_leads_from_each_leaf_to_the_root_and_from_no_other(size: int, data: st.DataObject) -> None:
    leaves = [missing_leaf(n) for n in range(size)]
    index = data.draw(st.integers(0, size - 1))
    path = inclusion_path(iter(leaves), index)
    assert len(path) <= (size - 1).bit_length()
    assert root_of_path(leaves[index], index, size, path) == _tree(leaves).root()
    assert root_of_path(missing_leaf(999), index, size, path) != _tree(leaves).root()


@given(st.integers(0, 60), st.integers(0, 60))
def test_a_tree_continues_from_its_peaks(first: int, more: int) -> None:
    leaves = [missing_leaf(n) for n in range(first + more)]
    before = _tree(leaves[:first])
    after = MerkleTree(before.size, before.peaks)
    for leaf in leaves[first:]:
        after.add(leaf)
    assert after.root() == _tree(leaves).root()
    assert len(after.peaks) == after.size.bit_count()


def test_a_leaf_covers_position_subject_and_bytes() -> None:
    found = {
        message_leaf(1, "runs.a", b"x"),
        message_leaf(2, "runs.a", b"x"),
        message_leaf(1, "runs.b", b"x"),
        message_leaf(1, "runs.ax", b""),
        message_leaf(1, "runs.a", b"y"),
        missing_leaf(1),
    }
    assert len(found) == 6


@pytest.mark.parametrize(
    ("index", "size", "length"), [(3, 3, 2), (0, 4, 1), (0, 4, 3), (0, 1, 1), (-1, 4, 2)]
)
def test_a_path_that_does_not_fit_is_refused(index: int, size: int, length: int) -> None:
    with pytest.raises(ValueError, match=r"path|no leaf"):
        root_of_path(LEAVES[0], index, size, LEAVES[:length])


def test_peaks_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ValueError, match="peaks"):
        MerkleTree(3, [LEAVES[0]])
    with pytest.raises(ValueError, match="no leaf 8"):
        inclusion_path(LEAVES, 8)
