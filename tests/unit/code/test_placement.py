"""Stored code in specs: where a program starts, and what its paths become."""

from __future__ import annotations

from pathlib import Path

import pytest

from runspine.code.placement import PlacedCode, needs_code
from runspine.errors import InvalidError
from runspine.services.orchestrator.core.code_rules import code_violations
from runspine.spec.run_file import apply_overrides, parse
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import Code, CodeOrigin, RunSpec

TREE = "ab" * 32
ROOT = Path("/home/me/project")
RUNNERS = {"script": RunnerInfo(takes_command=True), "builtin": RunnerInfo()}


def placed(folder: str = "", *, asked: bool = False) -> PlacedCode:
    return PlacedCode(Code(tree=TREE), ROOT, ROOT / folder, asked)


def script(*command: str, workdir: str = "") -> RunSpec:
    return RunSpec(runner="script", command=command, workdir=workdir)


def test_a_program_starts_in_the_folder_of_its_run_file_with_paths_from_there() -> None:
    spec = script("python", "/home/me/project/train.py", "--data", "/data/x", "configs/a.yaml")
    placed("exp/one").apply(spec)
    assert (spec.code.tree, spec.code.directory) == (TREE, "exp/one")
    assert list(spec.command) == ["python", "../../train.py", "--data", "/data/x", "configs/a.yaml"]


def test_a_program_of_the_project_is_not_looked_up_on_the_path() -> None:
    spec = script("/home/me/project/run.sh")
    placed().apply(spec)
    assert list(spec.command) == ["./run.sh"]


def test_a_virtualenv_in_the_project_stays_where_it_is(tmp_path: Path) -> None:
    (tmp_path / "envs/one/bin").mkdir(parents=True)
    (tmp_path / "envs/one/pyvenv.cfg").touch()
    python = str(tmp_path / "envs/one/bin/python")
    spec = script(python, str(tmp_path / "train.py"), str(tmp_path / "ignored/data"))
    PlacedCode(Code(tree=TREE), tmp_path, tmp_path).apply(spec)
    assert list(spec.command) == [python, "train.py", "ignored/data"]


def test_a_workdir_inside_is_where_it_starts_and_one_outside_means_no_code() -> None:
    inside = script("python", "a.py", workdir="/home/me/project/exp/../sub")
    placed("exp").apply(inside)
    assert (inside.code.directory, inside.workdir) == ("sub", "")
    outside = script("python", "a.py", workdir="/srv/other")
    placed().apply(outside)
    assert (outside.HasField("code"), outside.workdir) == (False, "/srv/other")
    with pytest.raises(InvalidError, match="workdir: /srv/other is not inside"):
        placed(asked=True).apply(script("true", workdir="/srv/other"))


def test_other_runners_and_specs_with_code_keep_what_they_have() -> None:
    builtin, image = RunSpec(runner="builtin"), RunSpec(runner="script", code=Code(image=True))
    assert not needs_code([builtin, image])
    for spec in (builtin, image):
        before = spec.SerializeToString()
        placed().apply(spec)
        assert spec.SerializeToString() == before


def test_code_in_a_run_file_is_a_word_or_fields(tmp_path: Path) -> None:
    for word in ("image", "none", "../other"):
        file = parse(f"runner: script\ncommand: [true]\ncode: {word}\n", source="f", folder=tmp_path)
        assert file.code == word
        assert file.specs[0].code.image == (word == "image")
    text = f"runner: script\ncommand: [true]\ncode: {{tree: {TREE}, directory: a}}\n"
    file = parse(text, source="f", folder=tmp_path)
    assert (file.code, file.specs[0].code.directory) == ("", "a")
    assert not apply_overrides(file.specs[0], ["code=none"]).HasField("code")


@pytest.mark.parametrize(
    ("spec", "field"),
    [
        (RunSpec(runner="builtin", code=Code(tree=TREE)), "spec.code"),
        (RunSpec(runner="script", code=Code(directory="a")), "spec.code.tree"),
        (RunSpec(runner="script", code=Code(tree=TREE, image=True)), "spec.code.image"),
        (RunSpec(runner="script", code=Code(tree="../" + TREE[3:])), "spec.code.tree"),
        (RunSpec(runner="script", code=Code(tree=TREE, directory="../x")), "spec.code.directory"),
        (RunSpec(runner="script", code=Code(tree=TREE, directory="/x")), "spec.code.directory"),
        (RunSpec(runner="script", code=Code(tree=TREE), workdir="/x"), "spec.workdir"),
        (
            RunSpec(runner="script", code=Code(tree=TREE, origin=CodeOrigin(branch="a\n"))),
            "spec.code.origin.branch",
        ),
    ],
)
def test_code_that_cannot_be_used_is_refused_with_its_field(spec: RunSpec, field: str) -> None:
    assert [violation.field for violation in code_violations(spec, RUNNERS)] == [field]


def test_good_code_and_no_code_are_accepted() -> None:
    for code in (Code(tree=TREE, directory="a/b"), Code(image=True)):
        assert not list(code_violations(RunSpec(runner="script", code=code), RUNNERS))
    assert not list(code_violations(RunSpec(runner="builtin"), RUNNERS))
