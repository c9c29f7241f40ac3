"""`runspine eval`: evaluate the policy of a checkpoint as a run."""

from __future__ import annotations

import time
from pathlib import Path

import click

from runspine.cli.commands.runs.submit import set_option, submitted_line
from runspine.cli.errors import OK, json_option
from runspine.cli.lookup.checkpoint_reference import FoundCheckpoint, is_file, resolve
from runspine.cli.ui.evaluation_progress import follow_evaluation
from runspine.cli.ui.screen import echo, echo_json, note
from runspine.domain.defaults import DEFAULT_EPISODES, DEFAULT_SEED
from runspine.errors import InvalidError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.spec.run_file import apply_overrides
from runspine.wire.v1.spec_pb2 import EVALUATE, Evaluation, RunSpec
from runspine.wire.v1.trainer_pb2 import SubmitResponse

DEFAULT_FRAMES = 200


@click.command(name="eval")
@click.argument("checkpoint", metavar="CHECKPOINT")
@click.option(
    "--episodes",
    type=click.IntRange(1, 10_000),
    default=DEFAULT_EPISODES,
    show_default=True,
    help="Episodes of a batch.",
)
@click.option(
    "--batches", type=click.IntRange(1, 1_000_000), default=1, help="Number of batches.  [default: 1]"
)
@click.option("--repeat", is_flag=True, help="Run batches until cancelled.")
@click.option(
    "--deterministic/--stochastic", default=True, help="Take the best action (default) or sample actions."
)
@click.option(
    "--seed",
    type=click.IntRange(0),
    help="Episode k starts with seed + k.  [default: the checkpoint's seed]",
)
@click.option("--env", help="Env with the same spaces.  [default: the checkpoint's env]")
@click.option("--video", is_flag=True, help="Record clips of the best and the worst episode.")
@click.option(
    "--frames",
    type=click.IntRange(1, 10_000),
    default=DEFAULT_FRAMES,
    show_default=True,
    help="Maximum frames of a clip.",
)
@set_option
@click.option("--detach", is_flag=True, help="Submit the run and return.")
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
    """Evaluate a checkpoint in a run that records every return.

    CHECKPOINT is a digest or its prefix, RUN (its newest), RUN:best, RUN:latest, RUN:step-N, an alias, or
    a local file, which is imported first.

    \b
    runspine eval 01KAQ3 --episodes 100
    runspine eval 01KAQ3:best --repeat --stochastic
    runspine eval ./dqn.cleanrl_model --env CartPole-v1 --video
    """
    if repeat and batches != 1:
        raise click.UsageError("--repeat runs until cancelled: omit --batches.")
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
        spec = apply_overrides(spec_for(client, found, wanted, env, seed), sets)
        answer = client.submit(spec)
        if detach:
            return _echo_submitted(answer, as_json)
        return follow_evaluation(client, answer.run, found.step, as_json)


def _echo_submitted(answer: SubmitResponse, as_json: bool) -> int:
    if as_json:
        echo_json({"run": to_plain(answer.run), "created": answer.created})
    else:
        echo(submitted_line(answer.run, answer.created, {}))
    return OK


def _find(client: Client, text: str, env: str | None, as_json: bool) -> FoundCheckpoint:
    if not is_file(text):
        return resolve(client, text)
    from runspine.cli.lookup.checkpoint_import import import_path
    from runspine.cli.lookup.checkpoint_reference import from_card

    cards = import_path(client, Path(text), env_if_unknown=env or "")
    if len(cards) != 1:
        raise InvalidError(f"{text} holds {len(cards)} checkpoints: evaluate one of them by its digest")
    if not as_json:
        note(f"imported {text} as {cards[0].artifact.digest[:12]}")
    return from_card(client, cards[0])


def spec_for(
    client: Client, found: FoundCheckpoint, wanted: Evaluation, env: str | None, seed: int | None
) -> RunSpec:
    """Spec of the run that evaluates a checkpoint."""
    if not (env or found.env):
        raise InvalidError("the env of this checkpoint is unknown: give it with --env")
    chosen = seed if seed is not None else found.seed if found.seed is not None else DEFAULT_SEED
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
    """The runner that made the checkpoint if it can evaluate, else builtin, which reads every format."""
    able = {info.name for info in client.runners() if EVALUATE in info.modes and not info.not_ready}
    if name in able:
        return name
    return "builtin"
