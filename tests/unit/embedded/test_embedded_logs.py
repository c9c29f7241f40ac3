"""Logs are rotated while their writers run, and no line is lost."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.embedded import log_rotation, logs
from runspine.embedded.log_rotation import rotate_in_place
from runspine.embedded.logs import KEPT_FILES, open_log
from runspine.tasks import cancel_and_wait
from tests.kit.waiting import eventually, until

WRITER = "for n in range(200_000): print(f'{n:>80}')"


def written(path: Path) -> str:
    """The rotated files and the log, oldest first, without holes."""
    names = [f"{path.name}.{number}" for number in range(1000, 0, -1)]
    files = [path.with_name(name) for name in names if path.with_name(name).exists()]
    return b"".join(file.read_bytes().lstrip(b"\0") for file in [*files, path]).decode()


def rotated_while_written(path: Path) -> int:
    """Start a writer, rotate its log until it ends; how often."""
    descriptor = open_log(path)
    process = subprocess.Popen([sys.executable, "-c", WRITER], stdout=descriptor)
    os.close(descriptor)
    times = 0

    def ended() -> bool:
        nonlocal times
        times += rotate_in_place(path, 1 << 20, 1000)
        return process.poll() is not None

    until(ended, poll=0.001)
    assert process.returncode == 0
    return times


@pytest.mark.parametrize("can_collapse", [True, False])
def test_a_log_is_rotated_under_its_writer_without_losing_or_repeating_a_line(
    can_collapse: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if not can_collapse:
        # A mode that no file system has: then a hole is made instead.
        monkeypatch.setattr(log_rotation, "COLLAPSE_RANGE", 1 << 20)
    path = tmp_path / "part.log"
    assert rotated_while_written(path) >= 3
    assert written(path) == "".join(f"{n:>80}\n" for n in range(200_000))
    assert path.stat().st_blocks * 512 < 8 << 20


async def test_every_large_log_of_a_folder_is_rotated_while_the_stack_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logs, "ROTATE_BYTES", 1 << 20)
    for name in ("nats.log", "worker.log"):
        (tmp_path / name).write_bytes(b"line\n" * (1 << 19))
    (tmp_path / "small.log").write_text("line\n")
    rotating = asyncio.create_task(logs.keep_rotating(tmp_path, 0.01))
    rotated = {"nats.log.1", "worker.log.1"}
    await eventually(lambda: rotated <= set(os.listdir(tmp_path)))
    await cancel_and_wait(rotating)
    assert not (tmp_path / "small.log.1").exists()
    assert written(tmp_path / "nats.log") == "line\n" * (1 << 19)


def test_a_small_log_is_left_alone_and_the_oldest_file_is_dropped(tmp_path: Path) -> None:
    path = tmp_path / "part.log"
    assert not rotate_in_place(path, 100, KEPT_FILES)
    path.write_text("short")
    assert not rotate_in_place(path, 1 << 20, KEPT_FILES)
    for number in range(KEPT_FILES + 2):
        with path.open("ab") as file:
            file.write(bytes([65 + number]) * (2 << 20))
        assert rotate_in_place(path, 1 << 20, KEPT_FILES)
    names = sorted(each.name for each in tmp_path.iterdir())
    assert names == ["part.log", "part.log.1", "part.log.2", "part.log.3"]
    assert (tmp_path / "part.log.1").read_bytes().strip(b"\0")[-1:] == b"E"
