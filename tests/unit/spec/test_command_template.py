"""Parameters in the command of a run, and grids over fields that nothing reads."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from runspine.errors import InvalidError
from runspine.runners import NotReadyError
from runspine.services.worker.process.environment import trainer_environment
from runspine.services.worker.runners.script import ScriptRunner
from runspine.spec.command_template import missing_values
from runspine.spec.run_file import RunFile, parse
from runspine.sweep.plan import parse_plan

PLAIN = "import argparse\nprint(argparse.ArgumentParser().parse_args())\n"


def read(folder: Path, text: str) -> RunFile:
    return parse(text, source="run.yaml", folder=folder)


def command(folder: Path, text: str) -> list[str]:
    (spec,) = read(folder, "runner: script\n" + text).specs
    return ScriptRunner().launch(spec, folder, sys.executable).command[1:]


def test_values_replace_their_placeholders_and_nothing_else_changes(tmp_path: Path) -> None:
    words = "[python, '--lr={params.lr}', '{seed}', '{env}', '{\"json\": 1}', '{params}', '{params.nets}'"
    given = "params: {lr: 3e-4, nets: [64, 64], on: true}\nseed: 7\nenv: CartPole-v1"
    assert command(tmp_path, f"command: {words}, '{{params.on}}']\n{given}") == [
        "--lr=0.0003",
        "7",
        "CartPole-v1",
        '{"json": 1}',
        "{params}",
        "[64, 64]",
        "True",
    ]


def test_a_value_is_put_in_once(tmp_path: Path) -> None:
    text = "command: [python, '{params.a}']\nparams: {a: '{params.b}', b: x}"
    assert command(tmp_path, text) == ["{params.b}"]


def test_a_placeholder_without_a_value_is_an_error_that_names_it(tmp_path: Path) -> None:
    text = "command: [python, '{params.lr}']\nvariables: {X: '{total_steps}'}"
    with pytest.raises(NotReadyError, match=r"\{params.lr\} has no value: add params.lr to the run"):
        command(tmp_path, text)
    (spec,) = read(tmp_path, "runner: script\n" + text).specs
    assert [missing.field for missing in missing_values(spec)] == ["params.lr", "total_steps"]


def test_variables_of_a_program_take_values_too(tmp_path: Path) -> None:
    how: dict[str, Any] = {"run_id": "r", "attempt": 1, "run_dir": "/", "variables": {}}
    for runner, value in (("script", "0.5"), ("builtin", "{params.lr}")):
        text = f"runner: {runner}\nvariables: {{LR: '{{params.lr}}'}}\nparams: {{lr: 0.5}}"
        (spec,) = read(tmp_path, text).specs
        assert trainer_environment(spec, {}, **how)["LR"] == value


GRID = "runner: script\ncommand: [python, train.py{more}]\nsweep: {{params.lr: [1, 2]}}"
SEARCH = "runner: script\ncommand: [python, train.py{more}]\nsearch: {{params.lr: {{float: [1, 2]}}}}"


@pytest.mark.parametrize(
    ("files", "more", "refused"),
    [
        ({"train.py": PLAIN}, "", True),
        ({"train.py": PLAIN}, ", --lr, '{params.lr}'", False),
        ({"train.py": "import os\nprint(os.environ['RUNSPINE_PARAMS'])"}, "", False),
        ({"train.py": "import runspine"}, "", False),
        (
            {
                "train.py": "from lib.config import read",
                "lib/__init__.py": "",
                "lib/config.py": "import runspine",
            },
            "",
            False,
        ),
        ({"train.py": "import other", "other.py": PLAIN, "sdk.py": "import runspine"}, "", True),
        ({}, "", False),
    ],
    ids=["nothing reads it", "template", "variable", "sdk", "sdk in a module", "sdk elsewhere", "not found"],
)
def test_a_grid_that_nothing_reads_is_refused_with_the_remedy(
    tmp_path: Path, files: dict[str, str], more: str, refused: bool
) -> None:
    for name, text in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    read_search: Any = lambda: parse_plan(SEARCH.format(more=more), tmp_path / "sweep.yaml")  # noqa: E731
    for make, field in ((lambda: read(tmp_path, GRID.format(more=more)), "sweep"), (read_search, "search")):
        if not refused:
            make()
            continue
        with pytest.raises(InvalidError) as error:
            make()
        (violation,) = error.value.violations
        assert violation.field == f"{field}.params.lr"
        assert "--lr {params.lr}" in violation.message
        assert violation.where


def test_fields_that_are_not_the_programs_vary_freely(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(PLAIN)
    text = "runner: script\ncommand: [python, train.py]\nseeds: [1, 2]\nsweep: {variables.LR: ['1', '2']}"
    assert len(read(tmp_path, text).specs) == 4
    assert len(read(tmp_path, "runner: builtin\nalgo: ppo\nsweep: {params.lr: [1, 2]}").specs) == 2
