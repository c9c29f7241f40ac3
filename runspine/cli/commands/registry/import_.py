"""`runspine import`: import checkpoint files of other tools without executing them."""

from __future__ import annotations

from pathlib import Path

import click

from runspine.checkpoints.candidates import Candidate
from runspine.cli.errors import FAILED, OK, json_option
from runspine.cli.lookup.checkpoint_import import ImportOverrides, import_all, open_candidates, with_overrides
from runspine.cli.ui.screen import echo_json, note, table
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import to_plain
from runspine.text.values import escaped, size
from runspine.wire.v1.artifacts_pb2 import CheckpointCard


@click.command(name="import")
@click.argument("path", metavar="FILE | FOLDER", type=click.Path(path_type=Path))
@click.option("--env", default="", help="Env, when neither the file nor its folder states it.")
@click.option("--algo", default="", help="Algorithm that made it.")
@click.option("--runner", default="", help="Runner.  [default: by file format]")
@click.option("--seed", type=click.IntRange(0), help="Seed of its training.")
@click.option("--name", default="", help="Name in the registry.  [default: the file name]")
@click.option("--project", default="", help="Project it belongs to.")
@click.option("--dry-run", is_flag=True, help="Inspect only; import nothing.")
@json_option
def import_(
    path: Path,
    env: str,
    algo: str,
    runner: str,
    seed: int | None,
    name: str,
    project: str,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Import checkpoints from a file, a folder, or a .zip of a folder.

    Formats: builtin runner, Stable-Baselines3 .zip, CleanRL .cleanrl_model, .safetensors. Env, algorithm
    and seed are read from the file and from the files next to it. No code in a file is executed.

    \b
    runspine import runs/CartPole-v1__dqn__1__1700000000/dqn.cleanrl_model
    runspine import best_model.zip --env LunarLander-v3
    """
    given = ImportOverrides(env, algo, runner, seed, name, project)
    if dry_run:
        with open_candidates(path) as found:
            _show_plan([with_overrides(each, given) for each in found], as_json)
            return OK if all(each.about for each in found) else FAILED
    with Client() as client:
        cards, refused = import_all(client, path, given)
    if as_json:
        echo_json(
            {"imported": [to_plain(card) for card in cards], "refused": [_refused(each) for each in refused]}
        )
    else:
        _report(cards, refused)
    return FAILED if refused else OK


def _show_plan(found: list[Candidate], as_json: bool) -> None:
    if as_json:
        echo_json({"found": [_plain(each) for each in found]})
        return
    rows = []
    for each in found:
        about = each.about
        if about:
            seed = "–" if about.seed is None else str(about.seed)
            rows.append(
                [escaped(each.name), about.runner, about.algo, about.env or "?", seed, f"{about.step:,}", ""]
            )
        else:
            rows.append([escaped(each.name), "", "", "", "", "", escaped(each.problem)])
    table(["file", "runner", "algo", "env", "seed", "step", "refused because"], rows, right=["seed", "step"])


def _plain(each: Candidate) -> dict[str, object]:
    about = each.about
    if about is None:
        return _refused(each)
    fields = {
        "runner": about.runner,
        "algo": about.algo,
        "env": about.env,
        "seed": about.seed,
        "step": about.step,
    }
    return {"name": each.name, **fields, **about.meta()}


def _refused(each: Candidate) -> dict[str, object]:
    return {"name": each.name, "refused": each.problem}


def _report(cards: list[CheckpointCard], refused: list[Candidate]) -> None:
    rows = [
        [
            card.artifact.digest[:12],
            escaped(card.artifact.name),
            card.runner,
            card.algo,
            card.env or "?",
            str(card.seed) if card.HasField("seed") else "–",
            size(card.artifact.size),
        ]
        for card in cards
    ]
    if rows:
        table(["checkpoint", "name", "runner", "algo", "env", "seed", "size"], rows, right=["seed", "size"])
    for each in refused:
        note(f"refused {escaped(each.name)}: {escaped(each.problem)}")
