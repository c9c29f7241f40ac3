"""What a backup refers to, and what it refuses to be."""

from __future__ import annotations

import contextlib
from pathlib import Path

import pytest

from runspine.backup.index import BackupIndex, BackupObject, Chunk, from_json, to_json
from runspine.backup.objects import is_wanted
from runspine.backup.references import References
from runspine.backup.target import Folder, Tar, pack
from runspine.errors import InvalidError
from runspine.eventlog import Version
from runspine.eventlog.chain import digest_of, seal
from runspine.storage.keys import digest_in
from runspine.wire.v1.facts_pb2 import (
    ArtifactErased,
    ArtifactProduced,
    ArtifactPruned,
    ArtifactRestored,
    CheckpointImported,
    Commit,
    Fact,
)
from runspine.wire.v1.trainer_pb2 import LogRecord

INDEX = BackupIndex(
    made_at=1, version="0.1.0", facts={"RUNS": 3}, tail_first=5, tail_last=7,
    chunks=(Chunk("streams/RUNS/1.log", "RUNS", 1, 3, 10, "ab"),),
    objects=(BackupObject("artifacts/sha256/ab/abc", 3, "cd"),), missing=("ef",),
)  # fmt: skip


def emitted(subject: str, *facts: Fact, after: LogRecord | None = None) -> LogRecord:
    before = Version()
    if after is not None:
        before = Version(0, Commit.FromString(after.commit).number, after.digest)
    commit = seal(before, facts, "id", "test")
    return LogRecord(subject=subject, commit=commit, digest=digest_of(commit))


def test_an_index_reads_back_as_it_was_written() -> None:
    assert from_json(to_json(INDEX), "here") == INDEX


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "cannot be read"),
        (b"[]", "cannot be read"),
        (b'{"format": 2}', "format 2"),
        (b'{"format": 1}', "chunks"),
        (b'{"format": 1, "chunks": [{}], "objects": [], "missing": []}', "cannot be read"),
    ],
)
def test_an_index_that_cannot_be_used_is_refused_with_the_reason(data: bytes, why: str) -> None:
    with pytest.raises(InvalidError, match=why):
        from_json(data, "here")


@pytest.mark.parametrize("name", ["", "/etc/passwd", "../x", "a/../../x", "a\0b"])
def test_no_name_in_a_backup_leads_out_of_it(tmp_path: Path, name: str) -> None:
    with pytest.raises(InvalidError, match="not the name"):
        Folder(tmp_path).path_of(name)


def test_a_digest_is_needed_as_long_as_any_run_keeps_it() -> None:
    references = References()
    first = emitted("attempts.b", Fact(artifact_produced=ArtifactProduced(digest="d1")))
    imported = emitted("artifacts.import", Fact(checkpoint_imported=CheckpointImported(digest="d3")))
    pruned = emitted("artifacts.b", Fact(artifact_pruned=ArtifactPruned(digest="d2")))
    foreign = LogRecord(subject="attempts.c", commit=b"\xff")
    references.feed(
        [
            emitted("attempts.a", Fact(artifact_produced=ArtifactProduced(digest="d1"))),
            first,
            foreign,
            emitted("attempts.b", Fact(artifact_produced=ArtifactProduced(digest="d2")), after=first),
            imported,
            emitted("artifacts.a", Fact(artifact_pruned=ArtifactPruned(digest="d1"))),
            pruned,
        ]
    )
    assert references.digests() == {"d1", "d3"}
    references.feed(
        [
            emitted("artifacts.b", Fact(artifact_restored=ArtifactRestored(digest="d2")), after=pruned),
            emitted("artifacts.import", Fact(artifact_erased=ArtifactErased(digest="d3")), after=imported),
        ]
    )
    assert references.digests() == {"d1", "d2"}


def test_only_objects_under_their_digest_promise_one() -> None:
    digest = "ab" * 32
    assert digest_in(f"artifacts/sha256/ab/{digest}") == digest_in(f"trash/sha256/ab/{digest}") == digest
    assert digest_in(f"artifacts/{digest}") == digest_in("retention.json") == ""
    assert is_wanted("artifacts/sha256/ab/x")
    assert not is_wanted("snapshots/orchestrator/1")


def test_a_folder_becomes_a_file_and_reads_the_same(tmp_path: Path) -> None:
    folder = Folder(tmp_path / "folder")
    for name in ("streams/RUNS/1.log", "objects/artifacts/sha256/ab/abc"):
        folder.path_of(name).parent.mkdir(parents=True)
        folder.path_of(name).write_bytes(name.encode())
    folder.finish(INDEX)
    target = tmp_path / "all.tar"
    pack(folder, INDEX, target)
    with contextlib.closing(Tar(target, tmp_path)) as tar:
        assert tar.index() == folder.index() == INDEX
        with tar.file("streams/RUNS/1.log") as path:
            assert path.read_bytes() == b"streams/RUNS/1.log"
        with pytest.raises(InvalidError, match="missing"), tar.file("streams/RUNS/2.log"):
            pass


def test_a_folder_without_its_index_is_not_a_backup_yet(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="not a finished backup"):
        Folder(tmp_path).index()


def test_tidying_removes_what_the_backup_does_not_need_and_nothing_else(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    for key in ("artifacts/sha256/ab/abc", "artifacts/sha256/cd/old"):
        path = folder.path_of(f"objects/{key}")
        path.parent.mkdir(parents=True)
        path.write_bytes(b"x")
    assert folder.tidy(INDEX) == 1
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["abc"]
