"""Compares a stream, read from its first position on, with witnesses of it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import BinaryIO, cast

from runspine.anchors.heads import head_problem, introduce_signer
from runspine.anchors.tree import DIGEST_BYTES, MerkleTree, message_leaf, missing_leaf
from runspine.anchors.witnesses import WitnessSource, leaves_in
from runspine.eventlog.chain import ChainProblem
from runspine.eventlog.port import Recorded
from runspine.eventlog.signing import Keyring
from runspine.wire.v1.anchors_pb2 import TreeHead, Witness


@dataclass(frozen=True, slots=True)
class Coverage:
    """Up to which position a stream is witnessed, when, and by whom."""

    source: str
    size: int = 0
    at: int = 0
    signed: bool = False


class WitnessComparison:
    """Takes the messages of one stream in order; its leaves lie in a temporary file.

    Which witnesses there are is read first: later ones cover what the walk does not see. Of a copy, only
    those that it reaches are compared.
    """

    def __init__(
        self,
        stream: str,
        keyring: Keyring | None,
        sources: Sequence[WitnessSource],
        *,
        copy: bool = False,
    ) -> None:
        self._sources = {source.name: (source, source.sizes(stream)) for source in sources}
        self._copy = copy
        self._stream = stream
        self._keyring = keyring
        self._size = 0
        self._leaves = cast(BinaryIO, tempfile.TemporaryFile())  # noqa: SIM115 - closed with this object

    def feed(self, recorded: Recorded) -> None:
        while self._size + 1 < recorded.sequence:
            self._add(missing_leaf(self._size + 1))
        self._add(message_leaf(recorded.sequence, recorded.subject, recorded.data))

    def _add(self, leaf: bytes) -> None:
        self._leaves.write(leaf)
        self._size += 1

    def close(self) -> None:
        self._leaves.close()

    def check(self) -> list[tuple[Coverage, list[ChainProblem]]]:
        """What each source witnesses, and where the stream differs from it."""
        return [self._check(source, sizes) for source, sizes in self._sources.values()]

    def _check(self, source: WitnessSource, sizes: Sequence[int]) -> tuple[Coverage, list[ChainProblem]]:
        if self._copy:
            sizes = [size for size in sizes if size <= self._size]
        problems: list[ChainProblem] = []
        newest: TreeHead | None = None
        for size in reversed(sizes):
            witness = source.load(self._stream, size)
            if not (problem := self._witness_problem(witness, size)):
                newest = cast(Witness, witness).head
                break
            problems.append(
                self._problem(size, f"the witness of it in {source.name} does not count: {problem}")
            )
        if newest is None:
            return Coverage(source.name), problems
        if newest.size > self._size or self._root(newest.size) != newest.root:
            problems.append(self._difference(source, sizes, newest))
        return Coverage(source.name, newest.size, newest.at, bool(newest.signer)), problems

    def _root(self, size: int) -> bytes:
        tree = MerkleTree()
        for leaf in self._read(0, size):
            tree.add(leaf)
        return tree.root()

    def _read(self, first: int, last: int) -> Iterator[bytes]:
        self._leaves.flush()
        self._leaves.seek(first * DIGEST_BYTES)
        for _ in range(first, min(last, self._size)):
            yield self._leaves.read(DIGEST_BYTES)

    def _witness_problem(self, witness: Witness | None, size: int) -> str:
        if witness is None:
            return "it cannot be read"
        if witness.head.stream != self._stream or witness.head.size != size:
            return "it is the witness of something else"
        if self._keyring is not None:
            introduce_signer(self._keyring, witness.head.signer, witness.introduction)
        return head_problem(witness.head, self._keyring)

    def _difference(self, source: WitnessSource, sizes: Sequence[int], newest: TreeHead) -> ChainProblem:
        """The first position that differs from what was witnessed."""
        tree = MerkleTree()
        for size in sizes:
            witness = source.load(self._stream, size)
            if size > newest.size or witness is None or self._witness_problem(witness, size):
                continue
            before = MerkleTree(tree.size, tree.peaks)
            for leaf in self._read(tree.size, size):
                tree.add(leaf)
            if tree.size < size or tree.root() != witness.head.root:
                return self._within(before, witness, newest)
        raise AssertionError("unreachable: the newest witness differs")

    def _within(self, before: MerkleTree, witness: Witness, newest: TreeHead) -> ChainProblem:
        """The first difference after a tree that agrees, up to a witness that does not."""
        when = f"witnessed at {_time(witness.head.at)}"
        leaves = _authentic_leaves(before, witness)
        if leaves is None:
            if self._size < witness.head.size:
                return self._shorter(newest)
            what = f"a position from this to {witness.head.size} is not what was {when}"
            return self._problem(before.size + 1, what)
        for offset, found in enumerate(self._read(before.size, witness.head.size)):
            if found != leaves[offset]:
                return self._differs(before.size + offset + 1, when)
        return self._shorter(newest)

    def _differs(self, position: int, when: str) -> ChainProblem:
        what = f"this is not the message that was {when}"
        if position == 1:
            what += ": the stream was created again, or rewritten from its first position"
        return self._problem(position, what)

    def _shorter(self, newest: TreeHead) -> ChainProblem:
        what = (
            f"the stream ends at {self._size}, but position {newest.size} was witnessed at {_time(newest.at)}"
        )
        return self._problem(self._size + 1, what)

    def _problem(self, position: int, what: str) -> ChainProblem:
        return ChainProblem(self._stream, position, "", what)


def _authentic_leaves(before: MerkleTree, witness: Witness) -> list[bytes] | None:
    """The leaves after a tree, if they lead to the witnessed root."""
    if witness.first > before.size + 1:
        return None
    leaves = leaves_in(witness)[before.size + 1 - witness.first :]
    tree = MerkleTree(before.size, before.peaks)
    for leaf in leaves:
        tree.add(leaf)
    return leaves if tree.root() == witness.head.root else None


def _time(at: int) -> str:
    return datetime.fromtimestamp(at / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")
