"""`runspine eval`: a checkpoint's policy, let act and measured."""

from __future__ import annotations

import time
from pathlib import Path

import click

from runspine.cli.edge import json_option
from runspine.cli.evaluating import follow_evaluation
from runspine.cli.reference import Found, is_file, resolve
from runspine.cli.screen import note, say, say_json
from runspine.cli.submit import set_option, submitted_line
from runspine.client import Client
from runspine.errors import Invalid
from runspine.plain import to_plain
from runspine.runfile import changed
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec

FRAMES = 200


@click.command(name="eval")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option("--episodes", type=click.IntRange(1, 10_000), default=50, show_default=True, help="Of a batch.")
@click.option("--batches", type=click.IntRange(1, 1_000_000), default=1, help="Batches to do; 1 by default.")
@click.option("--repeat", is_flag=True, help="Batch after batch, until cancelled.")
@click.option(
    "--deterministic/--stochastic", default=True, help="Take the best action (default), or draw actions."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Episode k begins with seed + k; by default the checkpoint's own seed.",
)
@click.option("--env", help="Another env than the checkpoint's own; it must fit.")
@click.option("--video", is_flag=True, help="Clips of the best and of the worst episode.")
@click.option(
    "--frames", type=click.IntRange(1, 10_000), default=FRAMES, show_default=True, help="Of a clip, at most."
)
@set_option
@click.option("--detach", is_flag=True, help="Submit it and leave.")
@json_option
def eval_(
    checkpoint: str,
    episodes: int,
    batches: int,
    repeat: bool,
    deterministic: bool,
    seed: int | None,
    env: str | None,
    video: bool,
    frames: int,
    sets: tuple[str, ...],
    detach: bool,
    as_json: bool,
) -> int:
    """Evaluate a checkpoint: a run of its own that lets the policy act and keeps every return.

    CHECKPOINT is a digest or its beginning, RUN (its newest), RUN:best, RUN:latest, RUN:step-N, an alias, or
    a file on this machine, which is imported first.

    \b
    runspine eval 01KAQ3 --episodes 100
    runspine eval 01KAQ3:best --repeat --stochastic
    runspine eval ./dqn.cleanrl_model --env CartPole-v1 --video
    """
    if repeat and batches != 1:
        raise click.UsageError("--repeat goes on until cancelled: leave --batches out.")
    with Client() as client:
        found = _find(client, checkpoint, env, as_json)
        wanted = Evaluation(
            digest=found.digest,
            run_id=found.run_id,
            name=found.name,
            episodes=episodes,
            batches=0 if repeat else batches,
            repeat=repeat,
            stochastic=not deterministic,
            video_frames=frames if video else 0,
        )
        spec = changed(spec_for(client, found, wanted, env, seed), sets)
        answer = client.submit(spec)
        if detach:
            if as_json:
                say_json({"run": to_plain(answer.run), "created": answer.created})
            else:
                say(submitted_line(answer.run, answer.created, {}))
            return 0
        return follow_evaluation(client, answer.run, found.step, as_json)


def _find(client: Client, text: str, env: str | None, as_json: bool) -> Found:
    if not is_file(text):
        return resolve(client, text)
    from runspine.cli.import_ import import_path
    from runspine.cli.reference import of_card

    cards = import_path(client, Path(text), env_if_unknown=env or "")
    if len(cards) != 1:
        raise Invalid(f"{text} holds {len(cards)} checkpoints: evaluate one of them by its digest")
    if not as_json:
        note(f"imported {text} as {cards[0].artifact.digest[:12]}")
    return of_card(client, cards[0])


def spec_for(client: Client, found: Found, wanted: Evaluation, env: str | None, seed: int | None) -> RunSpec:
    """The run that evaluates it."""
    if not (env or found.env):
        raise Invalid("nothing says which env this checkpoint is for: give one with --env")
    chosen = seed if seed is not None else found.seed if found.seed is not None else 1
    algo = found.algo or "policy"
    spec = RunSpec(
        name=f"{env or found.env}__{algo}-eval__{chosen}__{int(time.time())}",
        runner=_runner(client, found.runner),
        algo=found.algo,
        env=env or found.env,
        seed=chosen,
        mode=EVALUATE,
        evaluation=wanted,
        project=found.project,
    )
    if not env or env == found.env:
        for name, value in found.env_kwargs.items():
            spec.env_kwargs[name].CopyFrom(value)
    return spec


def _runner(client: Client, name: str) -> str:
    """The one that made it if it evaluates; the builtin one reads every format, too."""
    able = {info.name for info in client.runners() if EVALUATE in info.modes and not info.not_ready}
    if name in able:
        return name
    return "builtin"
