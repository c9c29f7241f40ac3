"""The choice of a run's packages at submit, and the storing of the files that list them."""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from runspine.cli.ui.screen import note
from runspine.code.placement import RUNNER
from runspine.errors import InvalidError, Violation
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import RunFile
from runspine.text.values import escaped
from runspine.wire.v1.spec_pb2 import Packages, RunSpec

Command = TypeVar("Command", bound=Callable[..., Any])


def packages_option(command: Command) -> Command:
    """Add --packages."""
    return click.option(
        "--packages",
        "packages",
        metavar="FILE|capture|none",
        help="Packages to run with: requirements.txt, uv.lock, or `capture`: the active virtualenv's.",
    )(command)


def attach_packages(client: Client, file: RunFile, chosen: str | None) -> None:
    """Give every spec of a file its packages, stored once for all. Raises RunspineError."""
    choice = file.packages if chosen is None else chosen
    folder = file.folder if chosen is None else Path.cwd()
    if chosen is not None:
        for spec in file.specs:
            spec.ClearField("packages")
    packages = place_packages(client, choice, folder)
    if packages is None:
        return
    for spec in file.specs:
        if spec.runner != RUNNER:
            what = f"are for runner {RUNNER}: {spec.runner or 'this runner'} brings its own"
            raise InvalidError("the packages cannot be chosen", [Violation("packages", what)])
        give_packages(spec, packages)


def give_packages(spec: RunSpec, packages: Packages) -> None:
    """Add stored packages to a spec; what its run file chose (Python, extras, groups) stays."""
    given = Packages()
    given.CopyFrom(packages)
    given.MergeFrom(spec.packages)
    spec.packages.CopyFrom(given)


def place_packages(client: Client, choice: str | Sequence[str], folder: Path) -> Packages | None:
    """Store the files that a choice names; None when the worker's Python is to be used."""
    from runspine.code.captured_packages import capture_packages
    from runspine.code.lock_files import CAPTURE, NONE, listed_packages, read_package_files

    if not choice or choice == NONE:
        return None
    if not isinstance(choice, str):
        found = listed_packages(choice)
    else:
        found = capture_packages() if choice == CAPTURE else read_package_files(choice, folder.resolve())
    for text in found.notes:
        note(escaped(text))
    return Packages(tree=_store(client, found.files), python=found.python, source=found.source)


def _store(client: Client, files: dict[str, bytes]) -> str:
    """Store the files as a tree; its digest."""
    from runspine.code.snapshot import CodeSnapshot
    from runspine.code.tree import FILE, TreeEntry, make_tree
    from runspine.code.upload import store_snapshot

    with tempfile.TemporaryDirectory() as folder:
        entries, sources = [], {}
        for number, (path, data) in enumerate(files.items()):
            digest = hashlib.sha256(data).hexdigest()
            sources[digest] = Path(folder) / str(number)
            sources[digest].write_bytes(data)
            entries.append(TreeEntry(path, FILE, len(data), digest))
        tree = make_tree(entries)
        store_snapshot(client, CodeSnapshot(Path(folder), tree, sources, None, len(files)))
    return tree.digest
