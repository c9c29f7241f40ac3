"""What `ls`, `show`, `workers` and `runners` print of runs and machines."""

from __future__ import annotations

import time

import pytest

from runspine.cli.commands.runs.ls import show_table
from runspine.cli.commands.runs.show import _attempt, _lines
from runspine.cli.commands.stack.runners import _row as runner_row
from runspine.cli.commands.stack.workers import _worker
from runspine.cli.ui.screen import Cell
from runspine.ids import new_ulid
from runspine.text.artifacts import kind_text
from runspine.text.machines import disk_text, gpus_text, run_folders_text
from runspine.wire.v1.facts_pb2 import SYNCING, Progress, Tracking
from runspine.wire.v1.run_pb2 import COMPLETED, RUNNING, Attempt, GpuStatus, MachineStatus, Run, Worker
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse, RunSummary

URL = "https://wandb.ai/me/cartpole/runs/abc"


def summary(phase: int, **progress: object) -> RunSummary:
    run = Run(id=new_ulid(), name="r", phase=phase, spec=RunSpec(env="Env-v0"))  # type: ignore[arg-type]
    return RunSummary(run=run, progress=Progress(**progress))  # type: ignore[arg-type]


def test_a_list_shows_the_latest_return_and_when_a_run_last_stepped(
    capsys: pytest.CaptureFixture[str],
) -> None:
    ago = int((time.time() - 90) * 1e6)
    running = summary(RUNNING, step=5, last_return=12.5, mean_return=10.0, last_step_at=ago)
    ended = summary(COMPLETED, step=9, last_return=3.0, mean_return=2.0, last_step_at=ago)
    show_table([running, ended])
    heading, first, second = capsys.readouterr().out.splitlines()
    columns = heading.split()
    assert columns[columns.index("RETURN") :][:3] == ["RETURN", "LATEST", "STEPPED"]
    assert "10  " in first
    assert "12.5" in first
    assert "1m" in first
    # One that has ended no longer steps.
    assert "1m" not in second
    show_table([summary(RUNNING)])
    assert not {"LATEST", "STEPPED"} & set(capsys.readouterr().out.split())


def test_a_run_shows_where_it_is_tracked() -> None:
    tracking = Tracking(service="wandb", url=URL, project="cartpole", name="ppo-1", state=SYNCING)
    run = Run(id=new_ulid())
    found = GetResponse(run=run, attempts=[Attempt(number=1, tracking=tracking), Attempt(number=2)])
    assert dict(_lines(run, found))["tracked at"] == f"W&B: {URL} (cartpole, ppo-1, syncing)"
    assert dict(_lines(run, GetResponse(run=run)))["tracked at"] == ""
    labelled = Run(id=run.id, labels={"wandb": URL})
    assert dict(_lines(labelled, GetResponse(run=labelled)))["tracked at"] == f"W&B: {URL}"


def test_an_attempt_shows_its_versions_and_when_its_directory_was_removed(
    capsys: pytest.CaptureFixture[str],
) -> None:
    removed = int((time.time() - 7200) * 1e6)
    attempt = Attempt(number=1, directory="/w/runs/r", versions={"torch": "2.1", "cleanrl": "fe8d8a0"})
    _attempt("r", attempt)
    printed = capsys.readouterr().out
    assert "directory  /w/runs/r\n" in printed
    assert "versions   cleanrl fe8d8a0, torch 2.1" in printed
    attempt.folder_removed_at = removed
    _attempt("r", attempt)
    assert "/w/runs/r (removed " in capsys.readouterr().out


MACHINE = MachineStatus(
    disk_total=100 * 10**9,
    disk_free=41 * 10**9,
    run_folders=2,
    run_folder_bytes=3 * 10**9,
    gpus=[
        GpuStatus(id="GPU-a", name="A100", utilisation=0.875, memory_used=10**9, memory_total=4 * 10**10),
        GpuStatus(id="GPU-b"),
    ],
    gpu_driver="550.54",
)


def test_a_machine_is_described_by_what_is_known_of_it() -> None:
    assert disk_text(MACHINE) == "41.0 GB of 100 GB free"
    assert run_folders_text(MACHINE) == "2 run directories, 3.0 GB"
    assert gpus_text(MACHINE) == "A100: 88 %, 1.0 GB of 40.0 GB; GPU-b; driver 550.54"
    unknown = MachineStatus()
    assert (disk_text(unknown), run_folders_text(unknown), gpus_text(unknown)) == ("", "", "")


def test_workers_are_listed_with_their_disk_and_the_runs_they_keep() -> None:
    row = [cell.text if isinstance(cell, Cell) else cell for cell in _worker(Worker(machine=MACHINE))]
    assert row[5:7] == ["41.0 GB of 100 GB free", "2 (3.0 GB)"]
    bare = [cell.text if isinstance(cell, Cell) else cell for cell in _worker(Worker())]
    assert bare[5:7] == ["–", "–"]


def test_runners_are_listed_with_videos_and_gpu() -> None:
    row = [cell.text if isinstance(cell, Cell) else cell for cell in runner_row(RunnerInfo(videos=True))]
    assert row[7] == "yes"
    row = [cell.text if isinstance(cell, Cell) else cell for cell in runner_row(RunnerInfo(uses_gpu=True))]
    assert (row[7], row[8]) == ("-", "yes")


@pytest.mark.parametrize(
    ("kind", "count", "text"),
    [
        ("plans", 1, "plans"),
        ("plans", 2, "plans"),
        ("video", 1, "video"),
        ("video", 2, "videos"),
        ("wandb", 2, "wandb files"),
    ],
)
def test_kinds_are_counted_in_english(kind: str, count: int, text: str) -> None:
    assert kind_text(kind, count) == text
