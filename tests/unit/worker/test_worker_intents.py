"""Intents of files that were accepted together survive a restart, each until it is forgotten."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.services.worker.artifacts.intents import Intent, Intents, UploadRefusedError
from runspine.services.worker.artifacts.upload_queue import UploadQueue
from runspine.services.worker.protocol.redact import Redactor


def examined(intents: Intents, folder: Path, count: int, kind: str = "file") -> list[Intent]:
    found = []
    for number in range(count):
        (folder / f"{number}.txt").write_text(str(number))
        event = {"kind": kind, "path": f"{number}.txt"}
        intent = intents.examine(event, "r1", 1, folder, Redactor({}))
        assert intent is not None
        found.append(intent)
    return found


def test_what_was_kept_together_is_left_after_a_restart_but_for_what_was_forgotten(tmp_path: Path) -> None:
    store, run_dir = tmp_path / "intents", tmp_path / "run"
    run_dir.mkdir()
    intents = Intents(store)
    kept = examined(intents, run_dir, 5)
    intents.keep(kept)
    intents.forget(kept[:2])
    again = Intents(store)
    assert again.left() == kept[2:]
    assert all(intent.file.exists() for intent in kept[2:])
    again.forget(kept[2:])
    assert list(store.iterdir()) == []


def test_a_mark_that_a_kill_has_torn_loses_no_intent(tmp_path: Path) -> None:
    store, run_dir = tmp_path / "intents", tmp_path / "run"
    run_dir.mkdir()
    intents = Intents(store)
    kept = examined(intents, run_dir, 3)
    intents.keep(kept)
    intents.forget(kept[:1])
    (shared,) = store.glob("*.jsonl")
    shared.write_text(shared.read_text() + '{"forgot')
    assert Intents(store).left() == kept[1:]


def test_what_was_not_kept_leaves_no_link_behind(tmp_path: Path) -> None:
    store, run_dir = tmp_path / "intents", tmp_path / "run"
    run_dir.mkdir()
    intents = Intents(store)
    examined(intents, run_dir, 2)
    assert Intents(store).left() == []
    assert list(store.iterdir()) == []


def test_checkpoints_come_first_and_what_was_postponed_last(tmp_path: Path) -> None:
    def made(name: str, kind: str = "file") -> Intent:
        return Intent(name, "r1", 1, kind, name, name, "", "", 0)

    queue = UploadQueue()
    for intent in (made("b"), made("a"), made("c", "checkpoint")):
        queue.add(intent)
    assert (queue.count("r1"), queue.count_checkpoints("r1")) == (3, 1)
    first = queue.take(0.0)
    assert first.id == "c"
    queue.postpone(first, until=10.0)
    assert [queue.take(0.0).id for _ in range(3)] == ["b", "a", "c"]  # by arrival, not by id
    assert not queue.unsent
    queue.remove(first)
    assert (queue.count("r1"), queue.count_checkpoints("r1")) == (2, 0)


@pytest.mark.parametrize("kind", ["checkpoint", "model"])
def test_an_empty_file_is_no_checkpoint(tmp_path: Path, kind: str) -> None:
    store, run_dir = tmp_path / "intents", tmp_path / "run"
    run_dir.mkdir()
    (run_dir / "model.pt").touch()
    with pytest.raises(UploadRefusedError, match="empty"):
        Intents(store).examine({"kind": kind, "path": "model.pt"}, "r1", 1, run_dir, Redactor({}))
    assert list(store.iterdir()) == []
