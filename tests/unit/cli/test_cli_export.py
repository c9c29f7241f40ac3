from __future__ import annotations

import gzip
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runspine.backup.log_export import read_export, write_export
from runspine.cli import cli
from runspine.cli.errors import run
from runspine.errors import InvalidError
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Version
from runspine.wire.v1.facts_pb2 import Fact, RunQueued
from runspine.wire.v1.run_pb2 import Cursor
from runspine.wire.v1.trainer_pb2 import LogRecord, StreamInfo


def chain(count: int, subject: str = "runs.A") -> list[LogRecord]:
    records, version = [], Version()
    for sequence in range(1, count + 1):
        data = seal(version, [Fact(at=sequence, run_queued=RunQueued(attempt=1))], f"c{sequence}", "test")
        version = Version(sequence, version.number + 1, digest_of(data))
        records.append(
            LogRecord(stream="RUNS", sequence=sequence, subject=subject, commit=data, digest=version.digest)
        )
    return records


def info(records: list[LogRecord]) -> StreamInfo:
    last = records[-1]
    witness = Cursor(sequence=last.sequence, digest=last.digest)
    return StreamInfo(name="RUNS", last_sequence=last.sequence, witness=witness)


def export(path: Path, described: list[LogRecord], records: list[LogRecord]) -> None:
    with write_export(path, [info(described)], at=1) as put:
        for record in records:
            put(record)


def verdict(path: Path, capsys: pytest.CaptureFixture[str]) -> tuple[int, dict[str, object]]:
    code = run(cli, ["events", "verify", "--file", str(path), "--json"])
    return code, json.loads(capsys.readouterr().out)


def test_what_is_exported_reads_back_the_same(tmp_path: Path) -> None:
    records = chain(50)
    export(tmp_path / "log.gz", records, records)
    streams, read = read_export(tmp_path / "log.gz")
    assert streams == [info(records)]
    assert list(read) == records


def test_a_whole_export_is_verified(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = chain(5)
    export(tmp_path / "log.gz", records, records)
    code, found = verdict(tmp_path / "log.gz", capsys)
    assert code == 0
    assert found["whole"] is True
    assert found["streams"] == {"RUNS": {"commits": 5, "last_sequence": 5, "signed": 0, "unsigned": 5}}


def test_a_changed_commit_is_found_in_its_place(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    whole = chain(5)
    broken = chain(5)
    broken[2].commit = broken[2].commit[:-1] + b"\x7f"
    export(tmp_path / "log.gz", whole, broken)
    code, found = verdict(tmp_path / "log.gz", capsys)
    assert code == 1
    problems = found["flaws"]
    assert isinstance(problems, list)
    assert problems[0]["sequence"] == 3
    assert problems[0]["subject"] == "runs.A"


def test_a_missing_commit_and_a_lost_end_are_found(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    whole = chain(5)
    export(tmp_path / "gap.gz", whole, whole[:2] + whole[3:])
    assert verdict(tmp_path / "gap.gz", capsys)[0] == 1
    export(tmp_path / "short.gz", whole, whole[:3])
    code, found = verdict(tmp_path / "short.gz", capsys)
    assert code == 1
    assert "position 5 had been written" in str(found["flaws"])


def test_a_file_cut_anywhere_never_passes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    records = chain(5)
    export(tmp_path / "log.gz", records, records)
    data = (tmp_path / "log.gz").read_bytes()

    @settings(max_examples=60)
    @given(st.integers(0, len(data) - 1))
    def cut(size: int) -> None:
        (tmp_path / "cut.gz").write_bytes(data[:size])
        assert run(cli, ["events", "verify", "--file", str(tmp_path / "cut.gz"), "--json"]) in (1, 2)

    cut()
    capsys.readouterr()


def test_an_export_that_fails_leaves_no_file(tmp_path: Path) -> None:
    def interrupted() -> None:
        records = chain(3)
        with write_export(tmp_path / "log.gz", [info(records)], at=1) as put:
            put(records[0])
            raise InterruptedError

    with pytest.raises(InterruptedError):
        interrupted()
    assert list(tmp_path.iterdir()) == []


def test_another_file_is_not_taken_for_an_export(tmp_path: Path) -> None:
    (tmp_path / "text").write_text("hello")
    with pytest.raises(InvalidError, match="not an export"):
        read_export(tmp_path / "text")
    with gzip.open(tmp_path / "zip.gz", "wb") as file:
        file.write(b"\xff" * 100)
    with pytest.raises(InvalidError, match="not an export"):
        read_export(tmp_path / "zip.gz")
    with pytest.raises(InvalidError, match="No such file"):
        read_export(tmp_path / "none")
