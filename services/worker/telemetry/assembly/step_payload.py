"""Batches of steps as bytes, spliced from blocks that are encoded once. Pure.

Protobuf encodes a message again each time its size is asked for, and once more as a part of another: a
block is encoded when it arrives, and a batch is made of those bytes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from runspine.services.worker.telemetry.assembly.columns import split_block
from runspine.wire.v1.telemetry_pb2 import Batch, StepBatch, StepBlock

# Keys of length-delimited fields on the wire.
_STEPS_KEY = bytes([Batch.STEPS_FIELD_NUMBER << 3 | 2])
_BLOCK_KEY = bytes([StepBatch.BLOCKS_FIELD_NUMBER << 3 | 2])


class EncodedBlock(NamedTuple):
    """A block of steps as bytes, and how many steps it has."""

    data: bytes
    steps: int


def encoded_blocks(block: StepBlock, max_bytes: int) -> list[EncodedBlock]:
    """The block, split between steps where it is longer than `max_bytes`."""
    data = block.SerializeToString()
    if len(data) <= max_bytes:
        return [EncodedBlock(data, block.count)]
    parts = split_block(block, max_bytes)
    return [EncodedBlock(part.SerializeToString(), part.count) for part in parts]


def grouped(blocks: Iterable[EncodedBlock], max_bytes: int) -> Iterator[list[EncodedBlock]]:
    """The blocks in order, in groups that fit into a batch."""
    group: list[EncodedBlock] = []
    total = 0
    for block in blocks:
        size = len(block.data) + 8
        if group and total + size > max_bytes:
            yield group
            group, total = [], 0
        group.append(block)
        total += size
    if group:
        yield group


def step_payload(head: Batch, steps_before: int, blocks: Sequence[EncodedBlock]) -> bytes:
    """The bytes of a batch with these blocks; `head` has its run, attempt and number."""
    before = StepBatch(steps_before=steps_before).SerializeToString()
    parts = [piece for data, _ in blocks for piece in (_BLOCK_KEY, varint(len(data)), data)]
    size = sum(map(len, parts)) + len(before)
    return b"".join((head.SerializeToString(), _STEPS_KEY, varint(size), *parts, before))


def varint(value: int) -> bytes:
    """A length as on the wire."""
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    found.append(value)
    return bytes(found)
