"""The spool: what was written comes back in order, whatever was cut off."""

from __future__ import annotations

import os
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.spool import SpoolDamagedError, SpoolFiles


def records(first: int, last: int, size: int = 100) -> list[SpoolRecord]:
    return [
        SpoolRecord(number, number % 5 + 1, bytes([number % 256]) * size) for number in range(first, last + 1)
    ]


def read_all(files: SpoolFiles) -> list[SpoolRecord]:
    found: list[SpoolRecord] = []
    while more := files.read(1000):
        found += more
    return found


def segments(folder: Path) -> list[Path]:
    return sorted(folder.glob("*.seg"))


def test_records_come_back_in_order(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path / "s")
    files.append(records(1, 3))
    assert files.read(1) == records(1, 1)
    files.append(records(4, 9))
    assert read_all(files) == records(2, 9)
    assert files.read(1000) == []
    files.close()


def test_a_new_process_goes_on_after_what_was_acknowledged(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path, segment_bytes=300)
    files.append(records(1, 20))
    assert read_all(files) == records(1, 20)
    files.acknowledge(7)
    files.close()
    again = SpoolFiles(tmp_path, segment_bytes=300)
    assert again.unread_bytes == sum(record.size for record in records(8, 20))
    assert read_all(again) == records(8, 20)
    again.close()


def test_finished_segments_are_deleted_and_the_last_stays(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path, segment_bytes=300)
    files.append(records(1, 20))
    before = len(segments(tmp_path))
    assert before >= 6
    assert read_all(files)[-1].number == 20
    files.acknowledge(10)
    assert len(segments(tmp_path)) < before
    files.acknowledge(20)
    assert len(segments(tmp_path)) == 1
    files.append(records(21, 22))
    assert read_all(files) == records(21, 22)
    files.remove()
    assert not tmp_path.exists()


@given(st.integers(1, 12), st.integers(0, 2000))
def test_a_torn_tail_is_cut_off_and_nothing_before_it(count: int, kept: int) -> None:
    with TemporaryDirectory() as folder:
        files = SpoolFiles(Path(folder))
        files.append(records(1, count))
        files.close()
        (path,) = segments(Path(folder))
        size = path.stat().st_size
        os.truncate(path, min(kept, size))
        whole = min(kept, size) // records(1, 1)[0].size
        again = SpoolFiles(Path(folder))
        assert read_all(again) == records(1, whole)
        again.append(records(whole + 1, whole + 2))
        again.close()
        third = SpoolFiles(Path(folder))
        assert read_all(third) == records(1, whole + 2)
        third.close()


@given(st.binary(min_size=1, max_size=200))
def test_garbage_at_the_end_is_cut_off(garbage: bytes) -> None:
    with TemporaryDirectory() as folder:
        files = SpoolFiles(Path(folder))
        files.append(records(1, 3))
        files.close()
        (path,) = segments(Path(folder))
        with path.open("ab") as file:
            file.write(garbage)
        again = SpoolFiles(Path(folder))
        assert read_all(again) == records(1, 3)
        again.close()


def test_a_damaged_segment_does_not_cost_the_next(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path, segment_bytes=300)
    files.append(records(1, 9))
    files.close()
    first = segments(tmp_path)[0]
    data = bytearray(first.read_bytes())
    data[150] ^= 1
    first.write_bytes(data)
    again = SpoolFiles(tmp_path, segment_bytes=300)
    assert read_all(again) == [*records(1, 1), *records(4, 9)]
    again.close()


def test_damage_under_a_running_worker_is_not_published(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path)
    files.append(records(1, 2))
    (path,) = segments(tmp_path)
    with path.open("r+b") as file:
        file.seek(60)
        file.write(b"!")
    with pytest.raises(SpoolDamagedError, match="at 0 is damaged"):
        files.read(1000)
    files.close()


def test_a_lost_cursor_means_that_all_is_sent_again(tmp_path: Path) -> None:
    files = SpoolFiles(tmp_path)
    files.append(records(1, 5))
    files.acknowledge(3)
    files.close()
    (tmp_path / "cursor").write_bytes(b"torn")
    again = SpoolFiles(tmp_path)
    assert read_all(again) == records(1, 5)
    again.close()


def test_an_append_after_a_full_disk_writes_nothing_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = SpoolFiles(tmp_path, segment_bytes=300)
    real = os.pwrite
    left = [500]

    def small_disk(descriptor: int, data: bytes, offset: int) -> int:
        # As a full disk does it: some bytes, then an error.
        if not left[0]:
            raise OSError(28, "No space left on device")
        written = real(descriptor, bytes(data[: left[0]]), offset)
        left[0] -= written
        return written

    monkeypatch.setattr(os, "pwrite", small_disk)
    with pytest.raises(OSError, match="No space"):
        files.append(records(1, 10))
    assert len(read_all(files)) < 10
    left[0] = 1 << 20
    files.append(records(1, 10))
    files.close()
    again = SpoolFiles(tmp_path)
    assert read_all(again) == records(1, 10)
    again.close()
