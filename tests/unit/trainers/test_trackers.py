"""Programs that log to an experiment tracker are recorded without an edit, with and without its library."""

from __future__ import annotations

import json
import math
import struct
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runspine.instrument.trackers.choice import is_real
from runspine.instrument.trackers.pictures import pixels, png
from runspine.instrument.trackers.rows import HistoryRows, StepMetrics
from tests.kit.samples.sdk import of_type
from tests.kit.samples.wandb_files import wandb_rows
from tests.kit.trainers.instrumented import Program

WANDB = """
import numpy as np
import wandb
run = wandb.init(project="p", config={"lr": 0.1, "api_key": "hidden"}, name="n")
wandb.config.late = 4
wandb.config.update({"more": {"a": 1}})
wandb.define_metric("eval/*", step_metric="eval/step")
for i in range(5):
    wandb.log({"loss": 1.0 / (i + 1), "nested": {"a": i}})
wandb.log({"x": 1}, step=20)
wandb.log({"y": 2}, step=20)
wandb.log({"x": 9}, step=3)
wandb.log({"part": 1}, commit=False)
wandb.log({"part2": float("nan")})
wandb.log({"eval/step": 1000, "eval/ret": 3.5})
values = np.random.default_rng(0).normal(size=1000)
wandb.log({"hist": wandb.Histogram(values), "text": "words",
  "pic": wandb.Image(np.zeros((4, 5, 3), np.uint8), caption="black"),
  "table": wandb.Table(columns=["a", "b"], data=[[1, "x"], [2, "y"]])})
run.summary["best"] = 7.5
wandb.summary["why"] = "because"
open("model.bin", "wb").write(b"weights")
artifact = wandb.Artifact("m", type="model")
artifact.add_file("model.bin")
run.log_artifact(artifact)
wandb.save("model.bin")
wandb.finish()
"""
OTHERS = """
import importlib.util
assert importlib.util.find_spec("aim") is None
import mlflow, swanlab, trackio
from aim import Run
trackio.init(project="p", config={"lr": 0.1})
trackio.log({"loss": 1})
trackio.log({"loss": 2}, step=20)
trackio.log({"loss": 3})
swanlab.init(project="p", config={"seed": 3})
swanlab.log({"loss": 4, "nested": {"a": 5}}, step=7)
run = Run(experiment="e")
run["hparams"] = {"b": 2}
for value in (6, 7):
    run.track(value, name="loss", context={"subset": "train"})
with mlflow.start_run(run_name="n"):
    mlflow.log_params({"c": "0.5"})
    mlflow.log_metric("loss", 8)
    mlflow.log_metrics({"loss": 9}, step=4)
try:
    mlflow.search_runs()
except RuntimeError as error:
    print(error)
"""
MLFLOW = """
import mlflow
with mlflow.start_run(run_name="n"):
    mlflow.log_param("lr", 0.1)
    mlflow.log_params({"b": 2})
    mlflow.log_metric("loss", 0.5, step=3)
    mlflow.log_metrics({"x": 1, "y": 2}, step=5)
    mlflow.log_metric("nostep", 4.0)
    open("model.bin", "wb").write(b"w")
    mlflow.log_artifact("model.bin", "m")
    mlflow.set_tag("kind", "one")
with mlflow.start_run():
    mlflow.log_metric("loss", 9, step=1)
"""
Points = list[tuple[str, int | None, float]]


def run(folder: Path, script: str, **variables: str) -> Program:
    folder.mkdir(exist_ok=True)
    (folder / "train.py").write_text(script)
    variables["HOME"] = str(folder)
    program = Program(folder, sys.executable, "train.py", instrumented=True, **variables)
    assert program.wait() == 0, program.output.read_text()
    return program


def lines_of(program: Program) -> list[dict[str, Any]]:
    found = program.telemetry.read_text().splitlines()
    return [json.loads(line) for line in found if line.startswith("{")]


def points(program: Program) -> Points:
    lines = of_type(lines_of(program), "metrics")
    found = [(name, line.get("step"), value) for line in lines for name, value in line["values"].items()]
    return sorted(found, key=str)


def config(program: Program) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for line in of_type(lines_of(program), "config"):
        found |= line.get("args", {})
    return found


def kept(program: Program) -> list[tuple[str, str, bytes]]:
    lines = of_type(lines_of(program), "artifact")
    return sorted(
        (line["kind"], line["name"], (program.output.parent / line["path"]).read_bytes()) for line in lines
    )


def test_wandb_without_the_library_and_mirrored_offline_record_the_same(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", WANDB, RUNSPINE_MIRROR="none")
    mirrored = run(tmp_path / "mirrored", WANDB, WANDB_MODE="offline")
    assert str(points(alone)) == str(points(mirrored))
    assert config(alone) == config(mirrored) == {"lr": 0.1, "api_key": "***", "late": 4, "more": {"a": 1}}
    assert kept(alone) == kept(mirrored)
    kinds = [(kind, name) for kind, name, _ in kept(alone)]
    assert kinds == [
        ("file", "m/model.bin"),
        ("file", "model.bin"),
        ("image", "pic.png"),
        ("table", "table.json"),
    ]
    assert json.loads(kept(alone)[3][2]) == {"columns": ["a", "b"], "data": [[1, "x"], [2, "y"]]}
    by_name = {name: (step, value) for name, step, value in points(alone)}
    assert (by_name["summary/best"], by_name["eval/ret"]) == ((None, 7.5), (1000, 3.5))
    assert not list((tmp_path / "alone").glob("wandb"))
    # And the same as the library has written to its own file, which has no step of its own for eval/ret.
    own = {
        (name.replace(".", "/"), row["_step"], float(value))
        for row in wandb_rows(tmp_path / "mirrored")
        for name, value in row.items()
        if isinstance(value, int | float) and not name.startswith(("_", "pic", "table"))
    }
    here = {
        (name, 21 if name == "eval/ret" else step, value)
        for name, step, value in points(mirrored)
        if not name.startswith(("histograms/", "summary/"))
    }
    assert {each for each in here if not math.isnan(each[2])} == {
        each for each in own if not math.isnan(each[2])
    }


def test_other_trackers_that_are_not_installed_record_by_stand_ins(tmp_path: Path) -> None:
    done = run(tmp_path, OTHERS, RUNSPINE_MIRROR="none")
    assert points(done) == [
        ("aim/loss/subset=train", 0, 6.0),
        ("aim/loss/subset=train", 1, 7.0),
        ("loss", 0, 1.0),
        ("loss", 20, 2.0),
        ("loss", 21, 3.0),
        ("mlflow/loss", 0, 8.0),
        ("mlflow/loss", 4, 9.0),
        ("swanlab/loss", 7, 4.0),
        ("swanlab/nested/a", 7, 5.0),
    ]
    assert config(done) == {"lr": 0.1, "seed": 3, "hparams/b": 2, "c": 0.5}
    assert "needs the real mlflow" in done.output.read_text()


def test_mlflow_itself_and_its_stand_in_record_the_same(tmp_path: Path) -> None:
    alone = run(tmp_path / "alone", MLFLOW, RUNSPINE_MIRROR="none")
    store = {"MLFLOW_TRACKING_URI": f"file:{tmp_path}/store", "MLFLOW_ALLOW_FILE_STORE": "true"}
    mirrored = run(tmp_path / "mirrored", MLFLOW, **store)
    assert points(alone) == points(mirrored)
    assert ("run2/loss", 1, 9.0) in points(alone)
    assert (config(alone), kept(alone)) == (config(mirrored), kept(mirrored))
    assert any((tmp_path / "store").rglob("metrics/loss"))


def test_a_program_that_uses_the_sdk_keeps_its_own_wandb(tmp_path: Path) -> None:
    script = "import runspine\nimport wandb\nassert 'runspine' not in wandb.__version__"
    run(tmp_path, script)


@pytest.mark.parametrize(
    ("tracker", "variables", "real"),
    [
        ("wandb", {}, False),
        ("wandb", {"WANDB_API_KEY": "k"}, True),
        ("wandb", {"WANDB_MODE": "offline"}, True),
        ("wandb", {"WANDB_MODE": "online"}, False),
        ("wandb", {"RUNSPINE_MIRROR": "wandb,aim"}, True),
        ("mlflow", {}, True),
        ("mlflow", {"RUNSPINE_MIRROR": "none"}, False),
        ("swanlab", {"SWANLAB_MODE": "local"}, True),
    ],
)
def test_a_library_works_itself_where_it_needs_no_account_or_has_one(
    tracker: str, variables: dict[str, str], real: bool
) -> None:
    assert is_real(tracker, variables) is real


def test_rows_have_the_steps_of_wandb() -> None:
    found: list[tuple[dict[str, Any], int]] = []
    rows = HistoryRows(lambda row, step: found.append((row, step)))
    rows.log({"a": 1})
    rows.log({"a": 2}, step=5)
    rows.log({"b": 3}, step=5)
    rows.log({"late": 1}, step=4)
    rows.log({"a": 4}, step=6, commit=True)
    rows.log({"a": 5}, commit=False)
    rows.flush()
    assert found == [({"a": 1}, 0), ({"a": 2, "b": 3}, 5), ({"a": 4}, 6), ({"a": 5}, 7)]
    assert rows.ignored == 1


def test_a_metric_with_a_step_of_its_own_keeps_it() -> None:
    steps = StepMetrics()
    steps.define("eval/*", "epoch")
    assert steps.by_step({"epoch": 3.0, "eval/a": 1.0, "loss": 2.0}, 9) == {
        9: {"epoch": 3.0, "loss": 2.0},
        3: {"eval/a": 1.0},
    }
    assert steps.by_step({"eval/a": 4.0}, 10) == {3: {"eval/a": 4.0}}


def test_a_picture_of_numbers_is_a_png_that_others_read(tmp_path: Path) -> None:
    import av

    image = np.arange(7 * 9 * 3, dtype=np.uint8).reshape(7, 9, 3)
    (tmp_path / "a.png").write_bytes(png(image))
    with av.open(str(tmp_path / "a.png")) as container:
        (frame,) = container.decode(video=0)
        assert (frame.to_ndarray(format="rgb24") == image).all()
    assert pixels(np.ones((3, 2, 2))).shape == (2, 2, 3)
    assert pixels(np.full((2, 2), 0.5)).max() == 127
    width, height = struct.unpack(">II", png(pixels(np.zeros((4, 5))))[16:24])
    assert (width, height) == (5, 4)
    with pytest.raises(ValueError, match="channels"):
        pixels(np.zeros((5, 5, 5)))
