"""Blocks of a nats-server: what is damage, and what a killed server leaves."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runspine.nats_store.behind import has_valid_record
from runspine.nats_store.check import StoreReport, check
from runspine.nats_store.records import ERASED, TOMBSTONE, read_block
from tests.kit.samples.nats_blocks import block_key, flipped, record, starts

FACTS = {"name": "RUNS", "retention": "limits", "discard": "new", "deny_delete": True, "deny_purge": True}


def block(index: int, first: int, count: int, name: str = "RUNS") -> bytes:
    key = block_key(name, index)
    return b"".join(record(key, number, bytes(number % 50)) for number in range(first, first + count))


def checked(folder: Path, blocks: dict[int, bytes], config: dict[str, object] = FACTS) -> StoreReport:
    store = folder / "jetstream" / "$G" / "streams" / "RUNS"
    (store / "msgs").mkdir(parents=True, exist_ok=True)
    (store / "meta.inf").write_text(json.dumps(config))
    for index, data in blocks.items():
        (store / "msgs" / f"{index}.blk").write_bytes(data)
    [report] = check(folder).stores
    return report


def test_whole_blocks_are_whole(tmp_path: Path) -> None:
    report = checked(tmp_path, {1: block(1, 1, 9), 2: block(2, 10, 9)})
    assert (report.records, report.damage, report.unfinished) == (18, [], "")


def test_every_flipped_bit_before_the_last_record_is_damage() -> None:
    key, data = block_key(), block(1, 1, 3)
    for at in range(starts(data)[-1]):
        for bit in range(8):
            changed = flipped(data, at, bit)
            wrong = read_block(changed, key, raft=False).wrong
            assert wrong is not None, (at, bit)
            assert wrong.followed or has_valid_record(changed, wrong.offset, key, raft=False), (at, bit)


def test_a_newest_block_that_ends_anywhere_is_no_damage(tmp_path: Path) -> None:
    data = block(1, 1, 4)
    last = starts(data)[-1]
    for size in range(last, len(data)):
        report = checked(tmp_path, {1: data[:size]})
        assert report.damage == []
        assert bool(report.unfinished) == (size > last)


@pytest.mark.parametrize("tail", [bytes(4096), b"\xff" * 100, bytes(range(256)) * 8])
def test_bytes_behind_the_last_record_that_are_none_are_no_damage(tmp_path: Path, tail: bytes) -> None:
    report = checked(tmp_path, {1: block(1, 1, 4) + tail})
    assert report.damage == []
    assert report.unfinished


def test_a_block_that_is_not_the_newest_must_be_whole(tmp_path: Path) -> None:
    report = checked(tmp_path, {1: block(1, 1, 9)[:-3], 2: block(2, 10, 9)})
    assert "a newer block follows" in report.damage[0]


def test_a_missing_block_of_a_stream_that_never_deletes_is_damage(tmp_path: Path) -> None:
    blocks = {1: block(1, 1, 9), 3: block(3, 20, 9)}
    assert "positions 10 to 19 are missing" in checked(tmp_path / "facts", blocks).damage[0]
    assert checked(tmp_path / "work", blocks, {**FACTS, "deny_delete": False}).damage == []


def test_positions_that_a_copy_left_out_are_no_damage(tmp_path: Path) -> None:
    placeholder = record(block_key(index=3), 19 | ERASED, subject=b"", header=b"")
    assert checked(tmp_path, {1: block(1, 1, 9), 3: placeholder + block(3, 20, 9)}).damage == []


def test_tombstones_and_erased_messages_are_read() -> None:
    key = block_key()
    data = b"".join(record(key, number, b"\x07" * 9, b"", b"") for number in (3 | TOMBSTONE, 4 | ERASED))
    read = read_block(data, key, raft=False)
    assert (read.records, read.last, read.wrong) == (2, 4, None)


def test_a_compressed_block_is_counted_as_not_checked(tmp_path: Path) -> None:
    report = checked(tmp_path, {1: b"cmp\x01" + bytes(500), 2: block(2, 10, 9)})
    assert (report.damage, report.bytes_not_checked, report.records) == ([], 504, 9)


def test_a_description_that_is_not_readable_is_damage(tmp_path: Path) -> None:
    checked(tmp_path, {1: block(1, 1, 9)})
    meta = tmp_path / "jetstream/$G/streams/RUNS/meta.inf"
    meta.write_bytes(b"{" + meta.read_bytes())
    assert check(tmp_path).stores[0].damage == ["meta.inf is not readable"]
    meta.write_text(json.dumps(FACTS))
    meta.with_name("meta.sum").write_text("0123456789abcdef")
    assert check(tmp_path).stores[0].damage == ["meta.inf does not match meta.sum"]


def test_a_server_that_never_ran_has_nothing_to_check(tmp_path: Path) -> None:
    assert check(tmp_path).stores == []
