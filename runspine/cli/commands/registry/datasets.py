"""`runspine datasets`: register, record and verify datasets for offline training."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import click

from runspine.cli.commands.registry.dataset_cache import cache
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.ui.dataset_text import echo_dataset, echo_datasets
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.cli.ui.transfer_bar import transfer_bar, waiting_line
from runspine.datasets import DatasetError
from runspine.datasets.minari_source import is_minari, minari_folder
from runspine.datasets.registry import check_name, find, plain, register, registered, wait_until_good
from runspine.domain.artifact_kinds import DATASET
from runspine.errors import InvalidError, RefusedError, RunNotFoundError
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.text.values import escaped, size
from runspine.wire.v1 import artifacts_pb2 as wire


@click.group()
def datasets() -> None:
    """Manage datasets for offline training: add, record, list, verify, remove, cache."""


@datasets.command()
@click.argument("source", metavar="FOLDER | ARCHIVE | minari:ID")
@click.option("--name", required=True, help="Name under which runs refer to it.")
@click.option("--env", default="", help="Env, when the metadata does not state it.")
@click.option("--random-return", type=float, help="Return of a random policy: 0 on the normalised scale.")
@click.option("--expert-return", type=float, help="Return of an expert: 100 on the normalised scale.")
@click.option("--project", default="", help="Project it belongs to.")
@json_option
def add(
    source: str,
    name: str,
    env: str,
    random_return: float | None,
    expert_return: float | None,
    project: str,
    as_json: bool,
) -> int:
    """Register a Minari dataset: its folder, an archive from `datasets make`, or its id.

    An id is looked for in Minari's folder on this machine, and downloaded if it is not there.

    \b
    runspine datasets add ~/.minari/datasets/mujoco/hopper/medium-v0 --name hopper-medium
    runspine datasets add minari:mujoco/hopper/medium-v0 --name hopper-medium
    """
    from runspine.datasets.preparation import prepare

    check_name(name)
    try:
        with (
            _source(source, as_json) as path,
            prepare(path, env=env, random=random_return, expert=expert_return) as (archive, manifest),
            Client() as client,
        ):
            origin = source if is_minari(source) else str(path.resolve())
            found, created = register(client, archive, manifest, name, project, origin)
    except DatasetError as error:
        raise RefusedError(str(error)) from error
    if as_json:
        echo_json({"dataset": plain(found), "created": created})
        return OK
    if not created:
        note("already registered; the name was updated")
    echo_dataset(found)
    return OK


@contextmanager
def _source(text: str, as_json: bool) -> Iterator[Path]:
    """The path that was given, or the folder of a Minari id."""
    if not is_minari(text):
        if not Path(text).exists():
            raise InvalidError(f"{text} does not exist")
        yield Path(text)
        return
    with ExitStack() as stack:
        with transfer_bar(f"downloading {escaped(text)}", as_json) as report:
            folder = stack.enter_context(minari_folder(text, report))
        yield folder


@datasets.command(name="ls")
@click.option("--env", default="", help="Only datasets of this env.")
@json_option
def ls(env: str, as_json: bool) -> None:
    """List datasets."""
    with Client() as client:
        found = [each for each in registered(client) if not env or each.env == env]
    if as_json:
        echo_json({"datasets": [plain(each) for each in found]})
        return
    echo_datasets(found)


@datasets.command()
@click.argument("name")
@json_option
def show(name: str, as_json: bool) -> None:
    """Show size, returns and provenance of a dataset."""
    with Client() as client:
        found = find(client, name)
    if as_json:
        echo_json({"dataset": plain(found)})
    else:
        echo_dataset(found)


@datasets.command()
@click.argument("name", metavar="NAME | FOLDER | ARCHIVE")
@json_option
def verify(name: str, as_json: bool) -> int:
    """Compare a dataset with its checksums; the first file that differs is reported."""
    if "/" in name or Path(name).is_file() or Path(name).is_dir():
        problem, what = _verify_here(Path(name), as_json), name
    else:
        with Client() as client:
            problem, what = _verify_stored(client, name, as_json)
    if as_json:
        echo_json({"dataset": what, "whole": not problem, "flaw": problem})
    elif problem:
        echo(f"{escaped(what)}: {escaped(problem)}", "red")
    else:
        echo(f"{escaped(what)}: intact")
    return FAILED if problem else OK


def _verify_here(path: Path, as_json: bool) -> str:
    from runspine.datasets.archive import check_archive, check_folder

    check = check_folder if path.is_dir() else check_archive
    try:
        with transfer_bar(f"reading {escaped(path.name)}", as_json) as report:
            check(path, report)
    except DatasetError as error:
        return str(error)
    return ""


def _verify_stored(client: Client, name: str, as_json: bool) -> tuple[str, str]:
    """The service reads the object in S3 and answers once: until then the time is shown."""
    found = find(client, name)
    title = f"the service reads {found.name} in S3 ({size(found.artifact.size)})"
    with waiting_line(title, as_json):
        answers = list(ArtifactClient(client).verify(found.artifact.digest))
    for answer in answers:
        if answer.unknown:
            raise RefusedError(f"S3 does not answer: {answer.flaw}")
        if answer.flaw:
            return answer.flaw, found.name
    return "", found.name


@datasets.command()
@click.argument("name")
@click.option("--yes", is_flag=True, help="Do not ask for confirmation.")
@json_option
def rm(name: str, yes: bool, as_json: bool) -> int:
    """Remove a dataset; `runspine prune --undo` restores it and its name within the undo window."""
    with Client() as client:
        found, artifacts = find(client, name), ArtifactClient(client)
        if not yes and not as_json:
            click.confirm(f"Remove dataset {found.name} ({size(found.artifact.size)})?", abort=True)
        place = f"{found.artifact.run_id}:{found.artifact.digest}"
        answer = artifacts.prune(wire.PruneRequest(reference=place, with_aliases=True))
    if as_json:
        echo_json({"removed": plain(found), "batch": answer.batch})
    else:
        echo(f"removed {escaped(found.name)}, {size(answer.freed_bytes)}")
        note(f"`runspine prune --undo {answer.batch}` restores it")
    return OK


@datasets.command()
@click.argument("name")
@click.option(
    "--policy", default="", help="Checkpoint that acts, as for `runspine eval`.  [default: random actions]"
)
@click.option("--env", default="", help="Env.  [default: the checkpoint's env]")
@click.option("--steps", type=click.IntRange(1), default=20_000, show_default=True, help="Steps to record.")
@click.option("--epsilon", type=click.FloatRange(0, 1), default=0.0, help="Share of random actions.")
@click.option(
    "--random-episodes",
    type=click.FloatRange(0, 1),
    default=0.0,
    help="Share of episodes with random actions only.",
)
@click.option("--stochastic", is_flag=True, help="Sample actions instead of taking the best.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Episode k starts with seed + k."
)
@click.option(
    "--reference-episodes", type=click.IntRange(0), help="Episodes to measure random and expert returns."
)
@click.option(
    "--detach", is_flag=True, help="Submit the run and return; name the result with `datasets name`."
)
@json_option
def make(name: str, detach: bool, as_json: bool, **options: Any) -> int:
    """Record a dataset from a policy in a run, and register it.

    \b
    runspine datasets make pendulum-mixed --policy 01KAQ3:best --random-episodes 0.5
    runspine datasets make pendulum-random --env Pendulum-v1
    """
    from runspine.cli.commands.registry.dataset_recording import record_dataset

    with Client() as client:
        return record_dataset(client, name, detach, as_json, options)


@datasets.command()
@click.argument("run")
@click.argument("name")
@json_option
def name(run: str, name: str, as_json: bool) -> int:
    """Name the dataset of a run, such as one recorded with --detach."""
    with Client() as client:
        request = wire.ListArtifactsRequest(run=run, kinds=[DATASET])
        made = ArtifactClient(client).list(request)
        if not made:
            raise RunNotFoundError(f"run {run} has no dataset")
        found = wait_until_good(client, made[-1], name)
    echo_json({"dataset": plain(found)}) if as_json else echo_dataset(found)
    return OK


datasets.add_command(cache)
