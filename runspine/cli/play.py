"""`runspine play`: people, policies and chance in an env, live."""

from __future__ import annotations

import time
from pathlib import Path

import click

from runspine.cli.casting import cast, check_fit
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.follow import follow_run
from runspine.cli.fork import fork_at
from runspine.cli.screen import note, say, say_json
from runspine.cli.stack import home_option
from runspine.cli.submit import set_option, submitted_line
from runspine.client import Client
from runspine.errors import Invalid
from runspine.ids import new_ulid
from runspine.plain import to_plain
from runspine.playing import kwargs_of, play_spec
from runspine.runfile import changed
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import ForkPoint, Play, RunSpec, Value

# Sessions of the same seeds, to be seen side by side.
VERSUS = "versus"


@click.command()
@click.argument("env", required=False, default="")
@click.option(
    "--actor", default="human", show_default=True, help="human, random, policy:CHECKPOINT or bdi[:AGENT]."
)
@click.option("--versus", default="", help="Another actor in a second session with the same seeds.")
@click.option(
    "--fork", default="", metavar="RUN:EPISODE:STEP", help="Begin in the middle of a recorded episode."
)
@click.option("--episodes", type=click.IntRange(1, 1_000_000), help="How many; until cancelled when absent.")
@click.option(
    "--seed", type=click.IntRange(0), default=1, show_default=True, help="Episode k begins with seed + k."
)
@click.option(
    "--fps", type=click.FloatRange(0.1, 10_000), help="Steps a second; the env's own rate when absent."
)
@click.option(
    "--turn-based/--real-time",
    default=None,
    help="Whether a person's steps wait for keys [default: by the env].",
)
@set_option
@home_option
@click.option("--detach", is_flag=True, help="Submit it and leave.")
@json_option
def play(
    env: str,
    actor: str,
    versus: str,
    fork: str,
    episodes: int | None,
    seed: int,
    fps: float | None,
    turn_based: bool | None,
    sets: tuple[str, ...],
    home: Path,
    detach: bool,
    as_json: bool,
) -> int:
    """Play in ENV: steer it in the browser, hand over to a policy and take back, in mid-episode.

    CHECKPOINT is a digest or its beginning, RUN (its newest), RUN:best, RUN:latest, an alias, or a file.
    AGENT is the same of a run of spade_bdi, or a file with AgentSpeak plans; the best for ENV when absent.
    Everything is recorded with who acted: episodes replay, export and train like any others.

    \b
    runspine play FrozenLake-v1
    runspine play CartPole-v1 --actor policy:01KAQ3:best --versus random --episodes 5
    runspine play FrozenLake-v1 --actor bdi --episodes 3
    runspine play --fork 01KAQ3:best:120
    """
    with Client() as client:
        point, env, kwargs = _forked(client, fork, env)
        if not env:
            raise click.UsageError("give an ENV to play in, or a --fork to begin with.")
        wanted = Play(steps_per_second=fps or 0, episodes=episodes or 0, turn_based=turn_based, fork=point)
        actors = filter(None, (actor, versus))
        specs = [_spec(client, who, env, wanted, kwargs, seed, sets) for who in actors]
        runs = _submit(client, specs)
        _tell(runs, home, as_json, detach)
        return OK if detach else _follow(client, runs, as_json)


def _spec(
    client: Client,
    who: str,
    env: str,
    wanted: Play,
    kwargs: dict[str, Value],
    seed: int,
    sets: tuple[str, ...],
) -> RunSpec:
    """Raises Invalid when the actor does not fit."""
    chosen = cast(client, who, env)
    found = chosen.found
    play = Play()
    play.CopyFrom(wanted)
    play.actor, play.plan_text = chosen.name, chosen.plan_text
    # A policy's env is made as it was when it was trained.
    own = dict(found.env_kwargs) if found and found.env == env else {}
    project = found.project if found else ""
    spec = play_spec(env, play, now=int(time.time()), seed=seed, env_kwargs=kwargs or own, project=project)
    spec = changed(spec, sets)
    check_fit(chosen, spec)
    return spec


def _forked(client: Client, fork: str, env: str) -> tuple[ForkPoint | None, str, dict[str, Value]]:
    """The moment, and the env it is in."""
    if not fork:
        return None, env, {}
    parts = fork.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        raise click.UsageError(f"--fork {fork}: expected RUN:EPISODE:STEP, such as 01KAQ3:best:120")
    point, record = fork_at(client, parts[0], parts[1], int(parts[2]))
    if env and env != record.env.env_id:
        raise Invalid(f"the episode to fork is in {record.env.env_id}, not in {env}: leave ENV out")
    return point, record.env.env_id, kwargs_of(record)


def _submit(client: Client, specs: list[RunSpec]) -> list[Run]:
    if len(specs) > 1:
        together = new_ulid()
        for spec in specs:
            spec.labels[VERSUS] = together
    return [client.submit(spec).run for spec in specs]


def _tell(runs: list[Run], home: Path, as_json: bool, detach: bool) -> None:
    if as_json:
        if detach:
            say_json({"runs": [to_plain(run) for run in runs]})
        return
    for run in runs:
        say(submitted_line(run, True, {}))
    address = _page(home)
    path = (
        "/play?runs=" + ",".join(run.id for run in runs) if len(runs) > 1 else f"/run/{runs[0].id}?tab=play"
    )
    if address:
        say(f"steer and watch: http://{address}{path}")
    else:
        note(f"steer and watch it on the web page, at {path}: `runspine web` opens the page")


def _page(home: Path) -> str:
    """Address of the page of a stack on this machine; empty when there is none."""
    from runspine.embedded.home import Home
    from runspine.embedded.record import running_record

    record = running_record(Home.at(home))
    return record.addresses.get("dashboard", "") if record else ""


def _follow(client: Client, runs: list[Run], as_json: bool) -> int:
    """One after the other, to the end of all. Cancelling a session without an end is its good end."""
    code = OK
    for run in runs:
        parting = f"detached; the session goes on. End it with: runspine cancel {run.id}"
        ended = follow_run(client, run, as_json, parting)
        endless = not run.spec.play.episodes and client.get(run.id).run.phase == Phase.CANCELLED
        code = code or (OK if ended == FAILED and endless else ended)
    return code
