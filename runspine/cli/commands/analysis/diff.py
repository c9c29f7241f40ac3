"""`runspine diff`: what differs between two runs."""

from __future__ import annotations

from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.difference_report import echo_differences, echo_text_diff, text_diff
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.code.download import read_object
from runspine.reproduce.differences import (
    CHANGED,
    Difference,
    FileChange,
    code_differences,
    file_changes,
    package_differences,
    provenance_differences,
    spec_differences,
)
from runspine.reproduce.reading import ComparedRun, compared_run, read_code, read_packages
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import enum_word
from runspine.text.values import escaped
from runspine.wire.v1.run_pb2 import Phase

MAX_SHOWN_FILES = 20
MAX_SHOWN_BYTES = 512 << 10


@click.command()
@click.argument("first", metavar="RUN")
@click.argument("second", metavar="RUN")
@click.option("--names-only", is_flag=True, help="List changed files without their lines.")
@json_option
def diff(first: str, second: str, names_only: bool, as_json: bool) -> None:
    """Show what differs between two runs: code, packages, parameters, hardware and result."""
    with Client() as client:
        one, two = compared_run(find(client, first)), compared_run(find(client, second))
        sections = _sections(client, one, two)
        changes = file_changes(read_code(client, one), read_code(client, two))
        if as_json:
            echo_json(_plain(one, two, sections, changes))
            return
        echo(f"{one.run.id}  {escaped(one.run.name)}\n{two.run.id}  {escaped(two.run.name)}")
        echo_differences("Code", sections["code"])
        _echo_changes(client, changes, names_only)
        for name in ("parameters", "packages", "surroundings", "result"):
            echo_differences(name.capitalize(), sections[name])
    if not changes and not any(sections.values()):
        note("the runs have the same code, packages, parameters, surroundings and result")


def _sections(client: Client, one: ComparedRun, two: ComparedRun) -> dict[str, list[Difference]]:
    packages: list[Difference] = []
    if one.provenance.packages != two.provenance.packages:
        lists = read_packages(client, one), read_packages(client, two)
        if None in lists:
            packages = [Difference("list", one.provenance.packages[:12], two.provenance.packages[:12])]
        else:
            packages = package_differences(lists[0] or "", lists[1] or "")
    return {
        "code": code_differences(one.run.spec, two.run.spec),
        "parameters": spec_differences(one.run.spec, two.run.spec),
        "packages": packages,
        "surroundings": provenance_differences(one.provenance, two.provenance),
        "result": [each for each in _result(one, two) if each.first != each.second],
    }


def _result(one: ComparedRun, two: ComparedRun) -> list[Difference]:
    def values(compared: ComparedRun) -> dict[str, str]:
        run, progress = compared.run, compared.attempt.exited.progress
        mean = f"{progress.mean_return:.6g}" if progress.HasField("mean_return") else ""
        return {
            "phase": enum_word(Phase.DESCRIPTOR, run.phase),
            "steps": str(run.counts.steps),
            "episodes": str(run.counts.episodes),
            "mean return": mean,
        }

    first, second = values(one), values(two)
    return [Difference(name, first[name], second[name]) for name in first]


def _echo_changes(client: Client, changes: list[FileChange], names_only: bool) -> None:
    for number, change in enumerate(changes):
        echo(f"  {change.what:<8} {escaped(change.path)}")
        if names_only or number >= MAX_SHOWN_FILES or change.what != CHANGED:
            continue
        before, after = change.first, change.second
        if before is None or after is None or not before.digest or not after.digest:
            continue
        if before.digest != after.digest and max(before.size, after.size) <= MAX_SHOWN_BYTES:
            data = read_object(client, before.digest), read_object(client, after.digest)
            echo_text_diff(text_diff(change.path, *data))


def _plain(
    one: ComparedRun, two: ComparedRun, sections: dict[str, list[Difference]], changes: list[FileChange]
) -> dict[str, Any]:
    return {
        "runs": [one.run.id, two.run.id],
        "files": [{"path": change.path, "what": change.what} for change in changes],
        **{name: [each._asdict() for each in found] for name, found in sections.items()},
    }
