"""Checks every block of every file store of a stopped nats-server."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runspine.nats_store.behind import has_valid_record
from runspine.nats_store.highway import key_of
from runspine.nats_store.records import COMPRESSED, Block, Wrong, read_block
from runspine.nats_store.stores import FileStore, find_stores, indexed_last, is_whole

Progress = Callable[[int, int], None]


@dataclass(slots=True)
class StoreReport:
    """Of one file store. `unfinished` names the normal end that a killed server leaves."""

    name: str
    kind: str
    path: str
    # Of a stream; 0 if its description is not readable, and for a Raft log.
    replicas: int = 0
    blocks: int = 0
    records: int = 0
    bytes: int = 0
    # Of compressed blocks and encrypted stores.
    bytes_not_checked: int = 0
    damage: list[str] = field(default_factory=list)
    unfinished: str = ""

    def as_json(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(slots=True)
class Report:
    """Of one server."""

    stores: list[StoreReport]
    seconds: float

    @property
    def damaged(self) -> list[StoreReport]:
        return [store for store in self.stores if store.damage]

    @property
    def only_here(self) -> list[StoreReport]:
        """Streams with messages of which no other server has a copy."""
        return [store for store in self.stores if store.replicas == 1 and store.bytes]

    @property
    def bytes(self) -> int:
        return sum(store.bytes for store in self.stores)

    @property
    def rate(self) -> float:
        """Checked bytes a second."""
        checked = self.bytes - sum(store.bytes_not_checked for store in self.stores)
        return checked / self.seconds if self.seconds else 0.0

    def as_json(self) -> dict[str, Any]:
        return {
            "whole": not self.damaged,
            "records": sum(store.records for store in self.stores),
            "bytes": self.bytes,
            "seconds": round(self.seconds, 3),
            "bytes_per_second": round(self.rate),
            "stores": [store.as_json() for store in self.stores],
        }


def check(directory: Path, progress: Progress = lambda done, total: None) -> Report:
    """Read all that lies in a store_dir. Changes nothing."""
    began = time.perf_counter()
    stores = find_stores(directory)
    total = sum(path.stat().st_size for store in stores for _, path in store.blocks())
    done = 0
    reports = []
    for store in stores:
        one = _StoreCheck(store)
        for size in one.run():
            done += size
            progress(done, total)
        reports.append(one.report)
    return Report(reports, time.perf_counter() - began)


class _StoreCheck:
    def __init__(self, store: FileStore) -> None:
        self._store = store
        kind = "raft" if store.raft else "stream"
        replicas = 0 if store.raft else int(store.config.get("num_replicas", 0))
        self.report = StoreReport(store.name, kind, str(store.path), replicas)
        # The newest number so far, and the block in which it is.
        self._last = 0
        self._last_block = 0

    def run(self) -> Iterator[int]:
        """Check block after block; yields the size of each."""
        if self._store.trouble:
            self.report.damage.append(self._store.trouble)
        blocks = self._store.blocks()
        for index, path in blocks:
            data = path.read_bytes()
            self.report.blocks += 1
            self.report.bytes += len(data)
            if self._store.encrypted or data.startswith(COMPRESSED):
                self.report.bytes_not_checked += len(data)
                self._last = 0
            else:
                self._check_block(index, data, newest=index == blocks[-1][0])
            yield len(data)
        if not self._store.encrypted:
            self._check_snapshots()

    def _check_block(self, index: int, data: bytes, *, newest: bool) -> None:
        key = key_of(f"{self._store.name}-{index}")
        block = read_block(data, key, raft=self._store.raft)
        self.report.records += block.records
        self._check_gap(index, block)
        self._last = max(self._last, block.last)
        self._last_block = index
        if block.wrong is None:
            return
        reason = self._why_damaged(data, block.wrong, index, newest)
        where = f"block {index}, offset {block.wrong.offset} of {len(data)}: {block.wrong.reason}"
        if reason:
            self.report.damage.append(f"{where}; {reason}")
        else:
            self.report.unfinished = where

    def _why_damaged(self, data: bytes, wrong: Wrong, index: int, newest: bool) -> str:
        """Empty for the end of the newest block, which a killed server leaves unfinished."""
        if not newest:
            return "a newer block follows"
        key = key_of(f"{self._store.name}-{index}")
        if wrong.followed or has_valid_record(data, wrong.offset, key, raft=self._store.raft):
            return "valid records follow"
        if not (self._store.raft or self._store.keeps_everything):
            return ""
        known = indexed_last(self._store)
        return f"index.db has positions up to {known}, not {self._last}" if known > self._last else ""

    def _check_gap(self, index: int, block: Block) -> None:
        """A block that is missing from a stream that never deletes: its number and its positions are."""
        if not self._store.keeps_everything or not self._last or block.begins_erased:
            return
        if index > self._last_block + 1 and block.first > self._last + 1:
            self.report.damage.append(
                f"positions {self._last + 1} to {block.first - 1} are missing, and so are the blocks between "
                f"{self._last_block} and {index}"
            )

    def _check_snapshots(self) -> None:
        for path in self._store.snapshots():
            if not is_whole(self._store.name, path.read_bytes()):
                self.report.damage.append(f"{path.name}: the checksum does not match")
