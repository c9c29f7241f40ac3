"""`runspine datasets`: what offline algorithms learn from, registered by name and checked byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from runspine.artifact_client import ArtifactClient
from runspine.cli.dataset_words import report_one, report_table
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.screen import note, say, say_json
from runspine.cli.text import escaped, size
from runspine.client import Client
from runspine.datasets import DATASET, BadDataset
from runspine.datasets.registry import Registered, find, plain, register, registered, wait_until_good
from runspine.errors import Invalid, NotFound, Refused, RunspineError
from runspine.wire.v1 import artifacts_pb2 as wire


@click.group()
def datasets() -> None:
    """Datasets for offline learning: add one, make one from a policy, look, verify, remove."""


@datasets.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--name", required=True, help="Name to register it under; runs ask for it by this name.")
@click.option("--env", default="", help="Env it is of, where its metadata does not say so.")
@click.option("--random-return", type=float, help="What a random policy reaches; 0 on the normalised scale.")
@click.option("--expert-return", type=float, help="What an expert reaches; 100 on the normalised scale.")
@click.option("--project", default="", help="Project it belongs to.")
@json_option
def add(
    path: Path,
    name: str,
    env: str,
    random_return: float | None,
    expert_return: float | None,
    project: str,
    as_json: bool,
) -> int:
    """Register a Minari dataset: its folder, or an archive that `datasets make` left.

    \b
    runspine datasets add ~/.minari/datasets/mujoco/hopper/medium-v0 --name hopper-medium
    """
    from runspine.datasets.adding import prepared

    if not path.exists():
        raise Invalid(f"{path} does not exist")
    try:
        with (
            prepared(path, env=env, random=random_return, expert=expert_return) as (archive, manifest),
            Client() as client,
        ):
            found, created = register(client, archive, manifest, name, project, str(path.resolve()))
    except BadDataset as error:
        raise Refused(str(error)) from error
    if as_json:
        say_json({"dataset": plain(found), "created": created})
        return OK
    if not created:
        note("the same bytes were registered before; they have this name now")
    report_one(found)
    return OK


@datasets.command(name="ls")
@click.option("--env", default="", help="Only those of this env.")
@json_option
def ls(env: str, as_json: bool) -> None:
    """List them."""
    with Client() as client:
        found = [each for each in registered(client) if not env or each.env == env]
    if as_json:
        say_json({"datasets": [plain(each) for each in found]})
        return
    report_table(found)


@datasets.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Everything about one: sizes, returns, where it comes from."""
    with Client() as client:
        found = find(client, name)
    if as_json:
        say_json({"dataset": plain(found)})
    else:
        report_one(found)


@datasets.command()
@click.argument("name", metavar="NAME | FOLDER | ARCHIVE")
@json_option
def verify(name: str, as_json: bool) -> int:
    """Read all of it and compare it with its checksums. A file that differs is named."""
    if "/" in name or Path(name).is_file() or Path(name).is_dir():
        flaw, what = _verify_here(Path(name)), name
    else:
        with Client() as client:
            flaw, what = _verify_stored(client, name)
    if as_json:
        say_json({"dataset": what, "whole": not flaw, "flaw": flaw})
    elif flaw:
        say(f"{escaped(what)}: {escaped(flaw)}", "red")
    else:
        say(f"{escaped(what)}: whole")
    return FAILED if flaw else OK


def _verify_here(path: Path) -> str:
    from runspine.datasets.archive import check_archive, check_folder

    try:
        check_folder(path) if path.is_dir() else check_archive(path)
    except BadDataset as error:
        return str(error)
    return ""


def _verify_stored(client: Client, name: str) -> tuple[str, str]:
    found = find(client, name)
    for answer in ArtifactClient(client).verify(found.artifact.digest):
        if answer.unknown:
            raise Refused(f"S3 does not answer: {answer.flaw}")
        if answer.flaw:
            return answer.flaw, found.name
    return "", found.name


@datasets.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask.")
@json_option
def rm(name: str, yes: bool, as_json: bool) -> int:
    """Take its name away and prune its bytes; `runspine prune --undo` brings them back for a while."""
    with Client() as client:
        found, artifacts = find(client, name), ArtifactClient(client)
        if not yes and not as_json:
            click.confirm(f"Remove dataset {found.name} ({size(found.artifact.size)})?", abort=True)
        for alias in found.artifact.aliases:
            artifacts.set_alias(alias, "")
        try:
            answer = artifacts.prune(
                wire.PruneRequest(reference=f"{found.artifact.run_id}:{found.artifact.digest}")
            )
        except RunspineError:
            for alias in found.artifact.aliases:
                artifacts.set_alias(alias, found.artifact.digest)
            raise
    if as_json:
        say_json({"removed": plain(found), "batch": answer.batch})
    else:
        say(f"removed {escaped(found.name)}, {size(answer.freed_bytes)}")
        note(f"`runspine prune --undo {answer.batch}` brings it back")
    return OK


@datasets.command()
@click.argument("name")
@click.option(
    "--policy", default="", help="Checkpoint that acts, as for `runspine eval`; random when absent."
)
@click.option("--env", default="", help="Env to act in; the checkpoint's own when absent.")
@click.option("--steps", type=click.IntRange(1), default=20_000, show_default=True, help="Steps to record.")
@click.option("--epsilon", type=click.FloatRange(0, 1), default=0.0, help="Share of random actions.")
@click.option(
    "--random-episodes",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Share of episodes that are all random.",
)
@click.option("--stochastic", is_flag=True, help="Draw the policy's actions instead of taking its best.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Episode k begins with seed + k."
)
@click.option(
    "--reference-episodes", type=click.IntRange(0), help="Episodes to measure random and expert returns."
)
@click.option(
    "--detach", is_flag=True, help="Submit the run and leave; the name is given by `datasets name`."
)
@json_option
def make(name: str, detach: bool, as_json: bool, **options: Any) -> int:
    """Record a dataset from a policy, as a run of its own, and register it.

    \b
    runspine datasets make pendulum-mixed --policy 01KAQ3:best --random-episodes 0.5
    runspine datasets make pendulum-random --env Pendulum-v1
    """
    from runspine.cli.dataset_making import record

    with Client() as client:
        return record(client, name, detach, as_json, options)


@datasets.command()
@click.argument("run")
@click.argument("name")
@json_option
def name(run: str, name: str, as_json: bool) -> int:
    """Give the dataset of a run a name, such as one that was recorded with --detach."""
    with Client() as client:
        request = wire.ListArtifactsRequest(run=run, kinds=[DATASET])
        made = ArtifactClient(client).list(request)
        if not made:
            raise NotFound(f"run {run} has no dataset")
        found = wait_until_good(client, made[-1], name)
    say_json({"dataset": plain(found)}) if as_json else report_one(found)
    return OK


__all__ = ["Registered", "datasets"]
