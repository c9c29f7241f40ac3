"""`runspine fork`: train from a step of a recorded episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.commands.runs.submit import (
    group_name,
    read_file,
    report,
    seed_sets,
    seeds_option,
    set_option,
    submit_all,
)
from runspine.cli.errors import OK, json_option
from runspine.cli.lookup.project_code import CodeOptions, attach_code
from runspine.cli.lookup.run import run_argument, run_id_of
from runspine.cli.ui.follow import follow_runs
from runspine.ids import new_ulid
from runspine.rpc.trainer_client import Client
from runspine.spec.run_file import RunFile, build, group_labels
from runspine.spec.strict_yaml import MapNode, node_of
from runspine.wire.v1.spec_pb2 import ForkPoint

if TYPE_CHECKING:
    from runspine.replay.record import EpisodeRecord

RUNNER = "builtin"
SOURCE = "command line"


@click.command()
@run_argument
@click.argument("episode")
@click.option(
    "--step", type=click.IntRange(0), required=True, help="Number of recorded steps to replay first."
)
@click.option("--algo", default="", help="Train with this algorithm of the builtin runner.")
@click.option("--train", "file", default="", metavar="FILE | -", help="Run file of the training.")
@click.option("--every", is_flag=True, help="Start every episode of every env there, not only the first.")
@set_option
@seeds_option
@click.option("--detach", is_flag=True, help="Submit the run and return.")
@json_option
def fork(
    run: str,
    episode: str,
    step: int,
    algo: str,
    file: str,
    every: bool,
    sets: tuple[str, ...],
    seeds: str | None,
    detach: bool,
    as_json: bool,
) -> int:
    """Train from a step of a recorded EPISODE of RUN: an index, an id, best, worst, first or last.

    The recorded steps are replayed as the first steps of the new run's first episode. If the replay
    diverges, the run fails and reports the step. `runspine play --fork RUN:EPISODE:STEP` plays from there.

    \b
    runspine fork 01KAQ3 best --step 120 --algo dqn --set total_steps=50000
    runspine fork 01KAQ3 0 --step 40 --train examples/ppo_cartpole.yaml --every
    """
    if bool(algo) == bool(file):
        raise click.UsageError("give --algo NAME or --train FILE; to play, use `runspine play --fork`.")
    from runspine.play.fork import start_at_fork

    run_file = _read_runs(algo, file, [*sets, *seed_sets(seeds)])
    key = new_ulid()
    if run_file.several:
        group_labels(run_file, group_name(file or None, key))
    with Client() as client:
        point, record = fork_at(client, run, episode, step)
        point.every = every
        for spec in run_file.specs:
            start_at_fork(spec, point, record)
        attach_code(client, run_file, CodeOptions(), as_json)
        answers = submit_all(client, run_file, key, as_json)
        report(run_file, answers, as_json)
        runs = [answer.run for answer in answers]
        return OK if detach else follow_runs(client, runs, as_json)


def _read_runs(algo: str, file: str, sets: list[str]) -> RunFile:
    if file:
        return read_file(file, sets)
    root = MapNode({"runner": node_of(RUNNER, SOURCE), "algo": node_of(algo, SOURCE)}, SOURCE)
    return build(root, folder=Path.cwd(), sets=sets, source="the command")


def fork_at(client: Client, run: str, episode: str, step: int) -> tuple[ForkPoint, EpisodeRecord]:
    """Return the fork point and its episode. Raises RunNotFoundError and InvalidError."""
    from runspine.play.fork import fork_point
    from runspine.replay.episode_lookup import find_episode

    run_id = run_id_of(client, run)
    record = find_episode(client, run_id, episode, 0, None)
    return fork_point(run_id, record.response, step), record
