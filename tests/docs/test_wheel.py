from __future__ import annotations

import os
import subprocess
import tarfile
import zipfile
from pathlib import Path

import pytest

from tests.kit import tutorial
from tests.kit.releases.wheel import (
    borrowing_virtualenv,
    build,
    copy_tree,
    editable_virtualenv,
    sources,
    whole_virtualenv,
)

CODE = ("runspine", "services")
# Names that an installed Runspine does not claim.
NOT_OURS = ("services", "bench", "tests")
# What is no module and yet read by one.
READ = (".asl", ".css", ".js", ".json", ".svg", ".typed")


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    return build(tmp_path_factory.mktemp("dist"))


@pytest.fixture(scope="module")
def programs(built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    return borrowing_virtualenv(tmp_path_factory.mktemp("borrowing"), built[0])


def outside(programs: Path, folder: Path, *command: str) -> str:
    """What a program of the virtualenv prints, away from the checkout and without its environment."""
    environment = {"PATH": f"{programs}:/usr/bin:/bin", "HOME": str(folder)}
    done = subprocess.run(
        [programs / command[0], *command[1:]], cwd=folder, env=environment, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_the_wheel_holds_every_module_and_every_file_that_one_reads(built: tuple[Path, Path]) -> None:
    with zipfile.ZipFile(built[0]) as wheel:
        held = set(wheel.namelist())
    wanted = {path for path in sources(*CODE) if path.endswith((".py", ".pyi", *READ))}
    # services/ is imported as runspine.services.
    assert {f"runspine/{path}" if path.startswith("services/") else path for path in wanted} - held == set()
    assert {path for path in held if not path.startswith(("runspine/", "runspine-"))} == set()


def test_the_sdist_holds_what_it_takes_to_test_and_document_it(built: tuple[Path, Path]) -> None:
    with tarfile.open(built[1]) as sdist:
        held = {name.partition("/")[2] for name in sdist.getnames()}
    assert sources() - held == set()


def test_what_is_imported_is_the_wheel_and_not_the_checkout(programs: Path, tmp_path: Path) -> None:
    where = "import runspine, runspine.services as s; print(runspine.__file__, s.__file__)"
    for path in outside(programs, tmp_path, "python", "-c", where).split():
        assert path.startswith(str(programs.parent)), path
    assert outside(programs, tmp_path, "runspine", "--version") == "runspine 0.1.0\n"


@pytest.mark.parametrize("name", NOT_OURS)
def test_the_wheel_claims_no_import_name_but_its_own(name: str, programs: Path, tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match=f"No module named '{name}'"):
        outside(programs, tmp_path, "python", "-c", f"import {name}")


@pytest.mark.long
def test_an_editable_install_claims_no_other_import_name_either(tmp_path: Path) -> None:
    programs = editable_virtualenv(tmp_path / "editable", copy_tree(tmp_path / "tree"))
    outside(programs, tmp_path / "editable", "python", "-c", "import runspine.services.worker.worker")
    for name in NOT_OURS:
        with pytest.raises(AssertionError, match=f"No module named '{name}'"):
            outside(programs, tmp_path / "editable", "python", "-c", f"import {name}")


def test_every_runner_of_the_wheel_can_be_loaded(programs: Path, tmp_path: Path) -> None:
    load = """
from importlib.metadata import entry_points
for entry in entry_points(group="runspine.runners"):
    print(entry.name, entry.load()().info().name)
"""
    listed = dict(line.split() for line in outside(programs, tmp_path, "python", "-c", load).splitlines())
    assert listed == {name: name for name in ("builtin", "cleanrl", "corl", "sb3", "script", "spade_bdi")}


def test_every_module_of_the_command_line_is_there(programs: Path, tmp_path: Path) -> None:
    load = """
import click
from runspine.cli import cli
context = click.Context(cli)
print(sum(cli.get_command(context, name) is not None for name in cli.list_commands(context)))
"""
    from runspine.cli import cli

    assert int(outside(programs, tmp_path, "python", "-c", load)) == len(cli.entries)


def test_passwords_and_the_schema_come_without_a_checkout(programs: Path, tmp_path: Path) -> None:
    outside(programs, tmp_path, "runspine", "secrets", "--directory", str(tmp_path))
    assert (tmp_path / ".env").exists()
    assert '"$schema"' in outside(programs, tmp_path, "runspine", "validate", "--schema")


@pytest.mark.long
@pytest.mark.timeout(1200)
def test_the_tutorial_works_as_written_from_the_built_wheel(programs: Path, tmp_path: Path) -> None:
    tutorial.run(tmp_path, programs)


@pytest.mark.long
@pytest.mark.timeout(1800)
@pytest.mark.skipif("RUNSPINE_TEST_INSTALL" not in os.environ, reason="fetches two gigabytes of packages")
def test_the_wheel_with_its_own_dependencies_runs_the_tutorial(
    built: tuple[Path, Path], tmp_path_factory: pytest.TempPathFactory, tmp_path: Path
) -> None:
    tutorial.run(tmp_path, whole_virtualenv(tmp_path_factory.mktemp("whole"), built[0]))
