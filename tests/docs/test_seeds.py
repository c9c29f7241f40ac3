from __future__ import annotations

import ast
import re
import shlex
from functools import cache

import click
import pytest

from runspine.cli import cli
from tests.drift.seeds import DOCUMENTS, STATES, Row, rows
from tests.kit.paths import ROOT

COUNT = 315
PLACE = re.compile(r"(00\d):(\d+(?:-\d+)?(?:,\d+(?:-\d+)?)*)")
ROWS = rows()


@cache
def functions_in(path: str) -> frozenset[str]:
    """Names of the functions in a file, by its source alone."""
    tree = ast.parse((ROOT / path).read_text())
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, functions))


def command_fault(line: str) -> str:
    """Why the line is no command of the command line; empty when it is one."""
    program, *words = shlex.split(line)
    if program != "runspine":
        return f"{program} is neither a test nor a command of runspine"
    command: click.Command = cli
    ctx = click.Context(cli, info_name=program)
    options: dict[str, click.Option] = {}
    while words and isinstance(command, click.Group) and not words[0].startswith("-"):
        try:
            name, found, rest = command.resolve_command(ctx, words)
        except click.UsageError as error:
            if command.invoke_without_command:
                break
            return error.format_message()
        if found is None:
            return f"there is no command {words[0]}"
        command, words = found, words[1:] if rest != words else words
        ctx = click.Context(found, info_name=name, parent=ctx)
    for parameter in command.params:
        if isinstance(parameter, click.Option):
            options |= dict.fromkeys([*parameter.opts, *parameter.secondary_opts], parameter)
    unknown = [word for word in words if word.startswith("-") and word not in options]
    return f"{command.name} has no option {', '.join(unknown)}" if unknown else ""


def proof_fault(proof: str) -> str:
    """Why the named test or command does not exist; empty when it does."""
    path, separator, test = proof.partition("::")
    if not separator:
        return command_fault(proof)
    if not (ROOT / path).is_file():
        return f"there is no file {path}"
    return "" if test in functions_in(path) else f"{path} has no test {test}"


def row_faults(row: Row) -> list[str]:
    faults = [fault for proof in row.shown if (fault := proof_fault(proof))]
    place = PLACE.fullmatch(row.at)
    if place is None or place[1] not in DOCUMENTS:
        faults.append(f"{row.at} is no place in a document")
    if row.state not in STATES:
        faults.append(f"{row.state} is no state")
    if row.state in ("done", "replaced", "page") and not row.shown:
        faults.append(f"is {row.state} without a test or a command")
    if row.state != "done" and not row.why:
        faults.append(f"is {row.state} without a reason")
    if row.state == "done" and row.why:
        faults.append("is done and has a reason")
    return [f"row {row.number}: {fault}" for fault in faults] + ([] if row.asks else ["asks for nothing"])


def test_the_rows_are_numbered_without_gaps_in_the_order_of_the_documents() -> None:
    assert [row.number for row in ROWS] == list(range(1, COUNT + 1))
    documents = [row.at[:3] for row in ROWS]
    assert documents == sorted(documents)
    assert set(documents) == set(DOCUMENTS)


def test_every_row_has_a_state_and_what_shows_it() -> None:
    assert [fault for row in ROWS for fault in row_faults(row)] == []


@pytest.mark.parametrize(
    ("row", "fault"),
    [
        (Row(1, "000:1", "x", "done"), "row 1: is done without a test or a command"),
        (Row(1, "000:1", "x", "open"), "row 1: is open without a reason"),
        (Row(1, "000:1", "x", "nearly", why="y"), "row 1: nearly is no state"),
        (Row(1, "005:1", "x", "none", why="y"), "row 1: 005:1 is no place in a document"),
        (Row(1, "000:1", "x", "done", ("runspine ls --colour",)), "row 1: ls has no option --colour"),
        (
            Row(1, "000:1", "x", "done", ("runspine datasets fly",)),
            "row 1: No such command 'fly'.",
        ),
        (
            Row(1, "000:1", "x", "done", ("tests/docs/test_seeds.py::test_no",)),
            "row 1: tests/docs/test_seeds.py has no test test_no",
        ),
        (
            Row(1, "000:1", "x", "done", ("make coffee",)),
            "row 1: make is neither a test nor a command of runspine",
        ),
    ],
)
def test_a_row_that_claims_what_is_not_there_is_refused(row: Row, fault: str) -> None:
    assert row_faults(row) == [fault]


def test_a_command_of_a_runner_and_of_a_subcommand_are_known() -> None:
    for line in ("runspine runners cleanrl --json", "runspine datasets add FOLDER --name N", "runspine ls"):
        assert command_fault(line) == ""
