"""`runspine play`: live play sessions of people, policies and agents in an env."""

from __future__ import annotations

import time
from pathlib import Path

import click

from runspine.cli.commands.runs.fork import fork_at
from runspine.cli.commands.runs.submit import set_option, submitted_line
from runspine.cli.commands.stack.stack import home_option
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.actor import check_fit, choose_actor
from runspine.cli.ui.follow import follow_run
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.domain.defaults import DEFAULT_SEED
from runspine.errors import InvalidError
from runspine.ids import new_ulid
from runspine.play.play_spec import kwargs_of, play_spec
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import apply_overrides
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import ForkPoint, Play, RunSpec, Value

# Label of sessions with the same seeds, shown side by side.
VERSUS = "versus"


@click.command()
@click.argument("env", required=False, default="")
@click.option(
    "--actor",
    default="human",
    show_default=True,
    help="human, random, policy:CHECKPOINT, bdi[:AGENT], script:NAME, llm[:MODEL], hybrid[:ACTOR], or "
    "the name of an activated actor such as default.",
)
@click.option("--versus", default="", help="Actor of a second session with the same seeds.")
@click.option("--fork", default="", metavar="RUN:EPISODE:STEP", help="Start at a step of a recorded episode.")
@click.option(
    "--episodes", type=click.IntRange(1, 1_000_000), help="Number of episodes.  [default: until cancelled]"
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    default=DEFAULT_SEED,
    show_default=True,
    help="Episode k starts with seed + k.",
)
@click.option(
    "--fps", type=click.FloatRange(0.1, 10_000), help="Steps per second.  [default: the env's own rate]"
)
@click.option(
    "--turn-based/--real-time",
    default=None,
    help="Whether a step of a person waits for a key.  [default: by env]",
)
@set_option
@home_option
@click.option("--detach", is_flag=True, help="Submit the run and return.")
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
    """Start a play session in ENV: control it in the browser and switch actors during an episode.

    CHECKPOINT is a digest or its prefix, RUN (its newest), RUN:best, RUN:latest, an alias, or a file.
    AGENT is the same for a run of spade_bdi, or a file of AgentSpeak plans; by default the best for ENV.
    hybrid shares control: keys of a person count, otherwise ACTOR acts (by default the activated one).
    Every step is recorded with its actor: episodes can be replayed, exported and trained on.

    \b
    runspine play FrozenLake-v1
    runspine play CartPole-v1 --actor policy:01KAQ3:best --versus random --episodes 5
    runspine play FrozenLake-v1 --actor bdi --episodes 3
    runspine play CartPole-v1 --actor hybrid:default
    runspine play --fork 01KAQ3:best:120
    """
    with Client() as client:
        point, env, kwargs = _forked(client, fork, env)
        if not env:
            raise click.UsageError("give an ENV, or --fork.")
        wanted = Play(steps_per_second=fps or 0, episodes=episodes or 0, turn_based=turn_based, fork=point)
        actors = filter(None, (actor, versus))
        specs = [_spec(client, who, env, wanted, kwargs, seed, sets) for who in actors]
        runs = _submit(client, specs)
        _echo_sessions(runs, home, as_json, detach)
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
    """Spec of one session. Raises InvalidError when the actor does not fit the env."""
    chosen = choose_actor(client, who, env)
    found = chosen.found
    play = Play()
    play.CopyFrom(wanted)
    play.actor, play.plan_text = chosen.name, chosen.plan_text
    # Env arguments default to those of the policy's training.
    own = dict(found.env_kwargs) if found and found.env == env else {}
    project = found.project if found else ""
    spec = play_spec(env, play, now=int(time.time()), seed=seed, env_kwargs=kwargs or own, project=project)
    spec = apply_overrides(spec, sets)
    check_fit(chosen, spec)
    return spec


def _forked(client: Client, fork: str, env: str) -> tuple[ForkPoint | None, str, dict[str, Value]]:
    """Fork point, env and env arguments of --fork."""
    if not fork:
        return None, env, {}
    parts = fork.rsplit(":", 2)
    if len(parts) != 3 or not parts[2].isdecimal():
        raise click.UsageError(f"--fork {fork}: expected RUN:EPISODE:STEP, such as 01KAQ3:best:120")
    point, record = fork_at(client, parts[0], parts[1], int(parts[2]))
    if env and env != record.env.env_id:
        raise InvalidError(f"the episode to fork is in {record.env.env_id}, not in {env}: omit ENV")
    return point, record.env.env_id, kwargs_of(record)


def _submit(client: Client, specs: list[RunSpec]) -> list[Run]:
    if len(specs) > 1:
        together = new_ulid()
        for spec in specs:
            spec.labels[VERSUS] = together
    return [client.submit(spec).run for spec in specs]


def _echo_sessions(runs: list[Run], home: Path, as_json: bool, detach: bool) -> None:
    if as_json:
        if detach:
            echo_json({"runs": [to_plain(run) for run in runs]})
        return
    for run in runs:
        echo(submitted_line(run, True, {}))
    address = _page(home)
    path = (
        "/play?runs=" + ",".join(run.id for run in runs) if len(runs) > 1 else f"/run/{runs[0].id}?tab=play"
    )
    if address:
        echo(f"play at: http://{address}{path}")
    else:
        note(f"play on the web page at {path}: `runspine web` opens it")


def _page(home: Path) -> str:
    """Address of the web page of the local stack; empty when it does not run."""
    from runspine.embedded.home import Home
    from runspine.embedded.record import running_record

    record = running_record(Home.at(home))
    return record.addresses.get("dashboard", "") if record else ""


def _follow(client: Client, runs: list[Run], as_json: bool) -> int:
    """Follow the sessions to their end. Cancelling an unlimited session is success."""
    code = OK
    for run in runs:
        parting = f"detached; the session continues. End it with: runspine cancel {run.id}"
        ended = follow_run(client, run, as_json, parting)
        endless = not run.spec.play.episodes and client.get(run.id).run.phase == Phase.CANCELLED
        code = code or (OK if ended == FAILED and endless else ended)
    return code
