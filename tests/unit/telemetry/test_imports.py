"""Runs of other tools are read as they were written."""

from __future__ import annotations

import io
import json
import math
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest
from tensorboardX import SummaryWriter  # type: ignore[import-untyped]

from runspine.imports.__main__ import report
from runspine.imports.finding import find_runs
from runspine.imports.packing import pack
from runspine.imports.source import Point, SourceError

WANDB = """
import wandb
with wandb.init(project="old", name="walk", config={"lr": 0.5, "net": {"wide": 64}}) as run:
    for n in range(30):
        run.log({"loss": 1 / (n + 1), "nested": {"a": n}})
    run.log({"loss": float("nan"), "text": "words"}, step=40)
"""


def points(path: Path, tool: str = "") -> dict[str, list[Point]]:
    return {run.name: list(run.points()) for run in find_runs(path, tool)}


def test_each_folder_of_event_files_is_a_run(tmp_path: Path) -> None:
    for name in ("a", "b/c"):
        with SummaryWriter(str(tmp_path / name)) as writer:
            for step in range(5):
                writer.add_scalar("loss", step / 4, step, walltime=1_600_000_000.25 + step)
    found = points(tmp_path)
    assert list(found) == ["a", "b/c"]
    assert found["a"] == [Point("loss", step, step / 4, 1_600_000_000.25 + step) for step in range(5)]


def test_offline_runs_of_wandb_are_read_and_an_unfinished_end_is_left_out(tmp_path: Path) -> None:
    environment = {
        "WANDB_MODE": "offline",
        "WANDB_DIR": str(tmp_path),
        "HOME": str(tmp_path),
        "PATH": "/usr/bin:/bin",
    }
    subprocess.run(
        [sys.executable, "-c", WANDB],
        env=environment,
        cwd=tmp_path,
        check=True,
        capture_output=True,
        timeout=120,
    )
    [run] = find_runs(tmp_path / "wandb")
    assert (run.name, run.project, run.config) == ("walk", "old", {"lr": 0.5, "net": {"wide": 64}})
    found = list(run.points())
    assert [(p.step, p.value) for p in found if p.name == "loss"][:30] == [
        (n, 1 / (n + 1)) for n in range(30)
    ]
    assert [(p.step, p.value) for p in found if p.name == "nested/a"] == [(n, float(n)) for n in range(30)]
    assert math.isnan(found[-1].value)
    assert found[-1].step == 40
    assert all(point.at > 1_700_000_000 for point in found)
    path = Path(run.where)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    assert 0 < len(list(run.points())) < len(found)
    path.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(SourceError, match="damaged"):
        list(run.points())


def test_folders_of_mlflow_are_read(tmp_path: Path) -> None:
    folder = tmp_path / "mlruns" / "1" / "abc"
    for name, text in {
        "meta.yaml": "run_name: deep\nstart_time: 1600000000000\n",
        "params/lr": "0.1",
        "metrics/eval/loss": "1600000000000 0.5 0\n1600000001500 nan 10\n",
    }.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)
    (tmp_path / "mlruns" / "1" / "meta.yaml").write_text("name: nets\n")
    [run] = find_runs(tmp_path)
    assert (run.name, run.project, run.config) == ("deep", "nets", {"lr": "0.1"})
    first, second = run.points()
    assert first == Point("eval/loss", 0, 0.5, 1_600_000_000.0)
    assert (second.step, second.at, math.isnan(second.value)) == (10, 1_600_000_001.5, True)


def test_databases_of_mlflow_are_read_without_deleted_runs(tmp_path: Path) -> None:
    with sqlite3.connect(tmp_path / "m.db") as database:
        database.executescript(
            """
            CREATE TABLE experiments (experiment_id, name);
            CREATE TABLE runs (run_uuid, name, experiment_id, start_time, lifecycle_stage);
            CREATE TABLE metrics (key, value, timestamp, run_uuid, step, is_nan);
            CREATE TABLE params (key, value, run_uuid);
            INSERT INTO experiments VALUES (1, 'nets');
            INSERT INTO runs VALUES ('r1', 'kept', 1, 5, 'active'), ('r2', 'gone', 1, 6, 'deleted');
            INSERT INTO metrics VALUES ('loss', 0.25, 1600000000000, 'r1', 3, 0);
            INSERT INTO metrics VALUES ('loss', 0, 1600000001000, 'r1', 4, 1);
            INSERT INTO params VALUES ('lr', '0.1', 'r1');
            """
        )
    database.close()
    [run] = find_runs(tmp_path / "m.db")
    assert (run.name, run.project, run.config) == ("kept", "nets", {"lr": "0.1"})
    first, second = run.points()
    assert first == Point("loss", 3, 0.25, 1_600_000_000.0)
    assert math.isnan(second.value)
    (tmp_path / "other.db").write_bytes(b"SQLite format 3\0" + bytes(100))
    with pytest.raises(SourceError, match="no database of MLflow"):
        find_runs(tmp_path / "other.db")


@pytest.mark.parametrize(
    "text",
    [
        "global_step,time,loss,note\n5,1600000000.5,0.25,a\n",
        "name,step,value,wall_time\nloss,5,0.25,1600000000.5\n",
    ],
    ids=["wide", "long"],
)
def test_csv_files_are_read_by_column_or_by_row(tmp_path: Path, text: str) -> None:
    (tmp_path / "run.csv").write_text(text)
    assert points(tmp_path) == {"run": [Point("loss", 5, 0.25, 1_600_000_000.5)]}


def test_a_folder_without_runs_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match="holds no run"):
        find_runs(tmp_path)


def test_the_same_run_is_packed_to_the_same_bytes_and_reported_whole(tmp_path: Path) -> None:
    lines = ["step,time,a,b"] + [f"{n},{1.6e9 + n},{n / 3},{'nan' if n % 2 else n}" for n in range(1000)]
    (tmp_path / "run.csv").write_text("\n".join(lines))
    [run] = find_runs(tmp_path)
    digests = set()
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        packed = pack(run, tmp_path / name)
        digests.add(packed.snapshot.tree.digest)
        assert (packed.points, packed.began, packed.ended) == (2000, 1.6e9, 1.6e9 + 999)
    assert len(digests) == 1
    out = io.StringIO()
    assert report(tmp_path / "one", out) == 2000
    first, *rows = map(json.loads, out.getvalue().splitlines())
    assert first["imported"] == {"tool": "csv", "name": "run"}
    assert [row["values"]["a"] for row in rows] == [n / 3 for n in range(1000)]
    assert [row["t"] for row in rows] == [1.6e9 + n for n in range(1000)]
