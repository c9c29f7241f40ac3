"""Event files are read from the run's directory alone, whatever a trainer puts in their place."""

from __future__ import annotations

import asyncio
import os
import struct
from pathlib import Path
from typing import cast

from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

from runspine.domain.event_files import RECORDED
from runspine.domain.event_scalars import EventScalar
from runspine.services.worker.process.event_tail import EventTail, FollowedFile
from runspine.services.worker.telemetry.pipeline import TelemetryPipeline

NAME = "events.out.tfevents.1"


class Scalars:
    """What was read."""

    def __init__(self) -> None:
        self.found: list[EventScalar] = []

    async def wait_for_space(self) -> None:
        """There is."""

    def add_scalars(self, scalars: list[EventScalar]) -> None:
        self.found += scalars

    def log_line(self, text: str) -> None:
        raise AssertionError(text)


def write_event(folder: Path) -> None:
    folder.mkdir()
    event = Event(step=1, summary=Summary(value=[Summary.Value(tag="a", simple_value=1.0)]))
    record = event.SerializeToString()
    (folder / NAME).write_bytes(struct.pack("<QI", len(record), 0) + record + bytes(4))


def tail_of(folder: Path) -> tuple[EventTail, Scalars]:
    scalars = Scalars()
    return EventTail(folder, cast(TelemetryPipeline, scalars)), scalars


async def test_a_folder_that_became_a_link_is_not_followed(tmp_path: Path) -> None:
    run_dir = tmp_path / "mine"
    run_dir.mkdir()
    write_event(tmp_path / "other")
    os.symlink(tmp_path / "other", run_dir / "board")
    tail, _ = tail_of(run_dir)
    # Found while it was a folder, exchanged before it was opened.
    assert tail._read(FollowedFile(f"board/{NAME}")) is None
    write_event(run_dir / "own")
    assert tail._read(FollowedFile(f"own/{NAME}")) is not None


async def test_a_list_of_recorded_files_is_read_only_as_a_file_of_the_run(tmp_path: Path) -> None:
    run_dir = tmp_path / "mine"
    run_dir.mkdir()
    write_event(run_dir / "own")
    (tmp_path / "claims").write_text(f"{run_dir}/own/{NAME}\n")
    os.symlink(tmp_path / "claims", run_dir / RECORDED)
    tail, scalars = tail_of(run_dir)
    await tail.finish()
    assert len(scalars.found) == 1
    # A pipe that nobody writes to would keep the run from ending.
    (run_dir / RECORDED).unlink()
    os.mkfifo(run_dir / RECORDED)
    tail, scalars = tail_of(run_dir)
    await asyncio.wait_for(tail.finish(), 30)
    assert len(scalars.found) == 1
    (run_dir / RECORDED).unlink()
    (run_dir / RECORDED).write_text(f"{run_dir}/own/{NAME}\n")
    tail, scalars = tail_of(run_dir)
    await tail.finish()
    assert not scalars.found
