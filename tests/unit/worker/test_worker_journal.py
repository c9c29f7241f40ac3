from __future__ import annotations

import os
from pathlib import Path

import pytest

from runspine.services.worker.facts.journal import DirectoryInUseError, Journal, JournalEntry, hold_directory
from runspine.services.worker.settings import WorkerSettings


def test_what_was_added_is_there_after_a_restart_until_it_is_removed(tmp_path: Path) -> None:
    first, second = JournalEntry("r1", 1, "/a"), JournalEntry("r2", 3, "/b")
    journal = Journal(tmp_path)
    journal.add(first)
    journal.add(second)
    assert Journal(tmp_path).entries() == [first, second]
    journal.remove(first)
    journal.remove(first)
    assert Journal(tmp_path).entries() == [second]


def test_a_damaged_entry_is_passed_over_and_kept(tmp_path: Path) -> None:
    journal = Journal(tmp_path)
    journal.add(JournalEntry("r1", 1, "/a"))
    damaged = tmp_path / "attempts" / "r0.1.json"
    damaged.write_text("{")
    assert [entry.run_id for entry in journal.entries()] == ["r1"]
    assert damaged.exists()


def test_a_directory_is_held_by_one_process_at_a_time(tmp_path: Path) -> None:
    held = hold_directory(tmp_path)
    refused = pytest.raises(DirectoryInUseError, match=f"process {os.getpid()}")
    with held, refused, hold_directory(tmp_path):
        pass
    with hold_directory(tmp_path):
        pass


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("RUNSPINE_WORKER_ID", "a.b"),
        ("RUNSPINE_WORKER_POOLS", "gpu,de fault"),
        ("RUNSPINE_WORKER_POOLS", " , "),
        ("RUNSPINE_WORKER_SLOTS", "0"),
        ("RUNSPINE_BEAT_SECONDS", "0"),
    ],
)
def test_a_setting_that_cannot_work_is_refused(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(ValueError, match=name.removeprefix("RUNSPINE_").lower()):
        WorkerSettings()


def test_pools_keep_their_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RUNSPINE_WORKER_POOLS", "gpu, default")
    assert WorkerSettings().pools == ["gpu", "default"]
