"""Options that choose the code of runs, and the snapshot of it at submit."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from runspine.cli.lookup.project_packages import attach_packages
from runspine.cli.lookup.run import find
from runspine.cli.ui.screen import note
from runspine.cli.ui.transfer_bar import transfer_bar
from runspine.errors import InvalidError, RefusedError, Violation
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import RunFile
from runspine.wire.v1.spec_pb2 import Code, RunSpec

if TYPE_CHECKING:
    from runspine.code.placement import PlacedCode

NONE, IMAGE = "none", "image"
# The default of this user or host: none, or a folder.
VARIABLE = "RUNSPINE_CODE"
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CodeOptions:
    """What the command line asks for."""

    folder: str = ""
    none: bool = False
    run: str = ""

    @property
    def given(self) -> bool:
        return bool(self.folder or self.none or self.run)


def code_options(command: Command) -> Command:
    """Add --code, --no-code and --code-from."""
    for option in (
        click.option("--code-from", "code_run", default="", metavar="RUN", help="Use the code of this run."),
        click.option("--no-code", is_flag=True, help="Store no code: the worker has it already."),
        click.option("--code", "code_folder", default="", metavar="DIR",
                     help="Folder of the code; the git work tree or the run file's folder by default."),
    ):  # fmt: skip
        command = option(command)
    return command


def read_code_options(options: dict[str, Any]) -> CodeOptions:
    """Take the options of code out of a command's options."""
    found = CodeOptions(options.pop("code_folder"), options.pop("no_code"), options.pop("code_run"))
    if sum((bool(found.folder), found.none, bool(found.run))) > 1:
        raise click.UsageError("--code, --no-code and --code-from exclude each other.")
    return found


def attach_code(
    client: Client, file: RunFile, options: CodeOptions, as_json: bool, packages: str | None = None
) -> None:
    """Give every spec of a file its code and packages, stored once for all of them. Raises RunspineError."""
    from runspine.code.placement import needs_code

    attach_packages(client, file, packages)
    if options.given:
        for spec in file.specs:
            spec.ClearField("code")
    if options.run:
        _use_code_of(client, options.run, file)
        return
    if not needs_code(file.specs):
        if options.folder:
            _check_runner(file.specs[0])
        return
    placed = place_code(client, file.folder, file.code, options, as_json)
    if placed is not None:
        for spec in file.specs:
            placed.apply(spec)


def _use_code_of(client: Client, run: str, file: RunFile) -> None:
    """Use the code of another run. A program starts where that of the other run does, unless the run file is
    in a folder of its project, or has a workdir."""
    from runspine.code.placement import PlacedCode
    from runspine.code.snapshot import project_root

    code, folder = code_of_run(client, run), file.folder.resolve()
    placed = PlacedCode(code, project_root(folder), folder, asked=True)
    for spec in file.specs:
        _check_runner(spec)
        chosen = bool(spec.workdir)
        placed.apply(spec)
        if not spec.code.directory and not chosen:
            spec.code.directory = code.directory


def place_code(
    client: Client, folder: Path, choice: str, options: CodeOptions, as_json: bool
) -> PlacedCode | None:
    """Store the code that a run file or the command line chooses; None when it is to be left out."""
    from runspine.code.placement import PlacedCode
    from runspine.code.snapshot import project_root, take_snapshot
    from runspine.code.upload import code_of, store_snapshot

    folder = folder.resolve()
    wanted = NONE if options.none else options.folder or choice or os.environ.get(VARIABLE, "")
    if wanted in (NONE, IMAGE):
        return None
    base = Path.cwd() if options.folder else folder
    snapshot = take_snapshot((base / wanted) if wanted else project_root(folder))
    with transfer_bar("storing the code", as_json) as draw:
        sent = store_snapshot(client, snapshot, lambda total: _counted(total, draw))
    if sent.files and not as_json:
        note(
            f"code: {sent.files:,} of {len(snapshot.tree.files):,} files stored ({sent.bytes / 1e6:,.1f} MB)"
        )
    return PlacedCode(code_of(snapshot, ""), snapshot.root, folder, asked=bool(wanted))


def code_of_run(client: Client, text: str) -> Code:
    """The code of another run. Raises RunspineError."""
    run = find(client, text).run
    if not run.spec.code.tree:
        raise RefusedError(f"run {run.id} has no stored code: name one of which `runspine show` lists code")
    return run.spec.code


def _check_runner(spec: RunSpec) -> None:
    from runspine.code.placement import RUNNER

    if spec.runner != RUNNER:
        what = f"is for runner {RUNNER}: {spec.runner or 'this runner'} brings its own"
        raise InvalidError("the code cannot be chosen", [Violation("code", what)])


def _counted(total: int, draw: Callable[[int, int], None]) -> Callable[[int], None]:
    done = 0

    def add(size: int) -> None:
        nonlocal done
        done += size
        draw(done, total)

    return add
