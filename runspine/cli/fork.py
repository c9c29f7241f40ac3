"""`runspine fork`: a training that begins at a step of a recorded episode."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from runspine.cli.ask import run_argument, run_id_of
from runspine.cli.edge import OK, json_option
from runspine.cli.follow import follow_group, follow_run
from runspine.cli.submit import group_name, read_file, report, seed_sets, seeds_option, set_option, submit_all
from runspine.client import Client
from runspine.ids import new_ulid
from runspine.runfile import RunFile, build, group_labels
from runspine.strict_yaml import MapNode, node_of
from runspine.wire.v1.spec_pb2 import ForkPoint

if TYPE_CHECKING:
    from runspine.replay.record import Record

RUNNER = "builtin"
SOURCE = "command line"


@click.command()
@run_argument
@click.argument("episode")
@click.option("--step", type=click.IntRange(0), required=True, help="Steps that are played again first.")
@click.option("--algo", default="", help="Train with this algorithm of the builtin runner.")
@click.option("--train", "file", default="", metavar="FILE | -", help="Train as this run file says.")
@click.option("--every", is_flag=True, help="Every episode of every env begins there, not the first alone.")
@set_option
@seeds_option
@click.option("--detach", is_flag=True, help="Submit it and leave.")
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
    """Train on from STEP of a recorded EPISODE of RUN: an index, an id, best, worst, first or last.

    The recorded steps are played again exactly, as the first steps of the new run's first episode; if
    they do not come out as recorded, the run ends there and says where they part.
    `runspine play --fork RUN:EPISODE:STEP` plays on from there.

    \b
    runspine fork 01KAQ3 best --step 120 --algo dqn --set total_steps=50000
    runspine fork 01KAQ3 0 --step 40 --train examples/ppo_cartpole.yaml --every
    """
    if bool(algo) == bool(file):
        raise click.UsageError("give --algo NAME or --train FILE; to play on, use `runspine play --fork`.")
    from runspine.forking import begin_at

    asked = _asked(algo, file, [*sets, *seed_sets(seeds)])
    key = new_ulid()
    if asked.several:
        group_labels(asked, group_name(file or None, key))
    with Client() as client:
        point, record = fork_at(client, run, episode, step)
        point.every = every
        for spec in asked.specs:
            begin_at(spec, point, record)
        answers = submit_all(client, asked, key, as_json)
        report(asked, answers, as_json)
        runs = [answer.run for answer in answers]
        if detach:
            return OK
        return follow_group(client, runs, as_json) if asked.several else follow_run(client, runs[0], as_json)


def _asked(algo: str, file: str, sets: list[str]) -> RunFile:
    if file:
        return read_file(file, sets)
    root = MapNode({"runner": node_of(RUNNER, SOURCE), "algo": node_of(algo, SOURCE)}, SOURCE)
    return build(root, folder=Path.cwd(), sets=sets, source="the command")


def fork_at(client: Client, run: str, episode: str, step: int) -> tuple[ForkPoint, Record]:
    """The moment, with the episode that it is in. Raises NotFound and Invalid."""
    from runspine.forking import fork_point
    from runspine.replay.finding import find_episode

    run_id = run_id_of(client, run)
    record = find_episode(client, run_id, episode, 0, None)
    return fork_point(run_id, record.said, step), record
