"""Records of a block file of nats-server 2.15, and the first of them that is wrong. Pure.

    total length u32 · sequence u64 · time i64 · subject length u16 · subject · [header length u32 · header] ·
    message · checksum

Numbers are little-endian. The highest bit of the total length means that there is a header; the two highest
of the sequence, that the message was erased, or that the record is a tombstone of another one. The checksum
covers sequence, time, subject, header and message, not the lengths: those are checked by what they delimit.
"""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass

import numpy as np

from runspine.nats_store.highway import Words, hashes_of

FIXED = 22
CHECKSUM = 8
SMALLEST = FIXED + CHECKSUM
LARGEST = 32 << 20
HAS_HEADER = 1 << 31
ERASED = 1 << 63
TOMBSTONE = 1 << 62
COMPRESSED = b"cmp"
_SEQUENCE = TOMBSTONE - 1

_HEAD = struct.Struct("<IQqH")
_LENGTH = struct.Struct("<I")
_SUBJECT = re.compile(rb"[^\x00-\x20\x7f.*>]+(?:\.[^\x00-\x20\x7f.*>]+)*")


@dataclass(frozen=True, slots=True)
class Wrong:
    """The first wrong record of a block. `followed`: a valid one is behind it."""

    offset: int
    reason: str
    followed: bool = False


@dataclass(frozen=True, slots=True)
class Record:
    """Where it lies, what is hashed of it, and what is wrong with its form."""

    offset: int
    end: int
    sequence: int
    hashed: bytes
    malformed: str = ""

    @property
    def number(self) -> int:
        """The position of the message in the stream; 0 for a tombstone, which has none of its own."""
        return 0 if self.sequence & TOMBSTONE else self.sequence & _SEQUENCE

    @property
    def erased(self) -> bool:
        return bool(self.sequence & ERASED)


@dataclass(slots=True)
class Block:
    """What a block file contains up to its end or to the first wrong record."""

    records: int = 0
    first: int = 0
    last: int = 0
    # The first record stands for messages that were deleted, or left out by a copy.
    begins_erased: bool = False
    wrong: Wrong | None = None


def read_block(data: bytes, key: Words, *, raft: bool) -> Block:
    """Read and hash every record; `raft`: of a Raft log, whose records have no subject."""
    records, wrong = _walk(data, raft)
    valid = are_valid(data, records, key)
    good = int(np.argmin(valid)) if not valid.all() else len(records)
    if good < len(records):
        found = records[good]
        reason = found.malformed or "the checksum does not match"
        wrong = Wrong(found.offset, reason, followed=bool(valid[good:].any()))
    return _block(records[:good], wrong)


def _block(records: list[Record], wrong: Wrong | None) -> Block:
    block = Block(len(records), wrong=wrong)
    numbers = [record.number for record in records if record.number]
    if numbers:
        block.first, block.last = numbers[0], max(numbers)
        block.begins_erased = next(record.erased for record in records if record.number)
    return block


def are_valid(data: bytes, records: list[Record], key: Words) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Which records have their checksum and are well formed."""
    if not records:
        return np.ones(0, dtype=np.bool_)
    found = hashes_of(key[None, :], [record.hashed for record in records])
    stored = b"".join(data[record.end - CHECKSUM : record.end] for record in records)
    formed = np.fromiter((not record.malformed for record in records), dtype=np.bool_, count=len(records))
    valid: np.ndarray[tuple[int], np.dtype[np.bool_]] = (found == np.frombuffer(stored, "<u8")) & formed
    return valid


def _walk(data: bytes, raft: bool) -> tuple[list[Record], Wrong | None]:
    """Step from record to record by their lengths, to the end or to a length that cannot be."""
    records: list[Record] = []
    at = 0
    while at < len(data):
        record = record_at(data, at, raft)
        if isinstance(record, str):
            return records, Wrong(at, record)
        records.append(record)
        at = record.end
    return records, None


def record_at(data: bytes, at: int, raft: bool) -> Record | str:
    """The record that begins here, or why there cannot be one."""
    if at + FIXED > len(data):
        return "the file ends within a record"
    length, sequence, _, subject = _HEAD.unpack_from(data, at)
    header = length & HAS_HEADER
    length &= HAS_HEADER - 1
    prefix = subject + (4 if header else 0)
    if length < SMALLEST or length > LARGEST or prefix > length - SMALLEST:
        return "the length of a record cannot be"
    end = at + length
    if end > len(data):
        return "the file ends within a record"
    begin, until = at + FIXED, end - CHECKSUM
    head = data[at + 4 : at + 20]
    # The length of the header, which lies between subject and header, is not hashed.
    skipped = 4 if header else 0
    body = data[begin : begin + subject] + data[begin + subject + skipped : until]
    malformed = _malformed(data, begin, until, subject, bool(header), raft or sequence >= TOMBSTONE)
    return Record(at, end, sequence, head + body, malformed)


def _malformed(data: bytes, begin: int, until: int, subject: int, header: bool, bare: bool) -> str:
    """What the checksum does not cover: lengths. `bare`: a record that has neither subject nor header."""
    if bare:
        return "a subject or a header where none belongs" if subject or header else ""
    name = _SUBJECT.fullmatch(data, begin, begin + subject)
    if name is None:
        return "the subject is none"
    if not header:
        return ""
    start = begin + subject + 4
    (size,) = _LENGTH.unpack_from(data, begin + subject)
    whole = start + size <= until and data.startswith(b"NATS/1.0", start, start + size)
    if not whole or not data.endswith(b"\r\n\r\n", start, start + size):
        return "the header is none"
    return ""
