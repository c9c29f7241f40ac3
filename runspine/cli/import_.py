"""`runspine import`: checkpoints from outside, looked at without running them, into the registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import click

from runspine.checkpoints import BadCheckpoint
from runspine.checkpoints.finding import Candidate, candidates
from runspine.cli.edge import FAILED, OK, json_option
from runspine.cli.registry import import_file
from runspine.cli.screen import note, say_json, table
from runspine.cli.text import escaped, size
from runspine.client import Client
from runspine.errors import Invalid, Refused
from runspine.plain import to_plain
from runspine.strict_yaml import node_of
from runspine.wire.v1.artifacts_pb2 import CheckpointCard, ImportRequest
from runspine.wire.v1.facts_pb2 import CheckpointImported

CHUNK = 1 << 20


class Given(NamedTuple):
    """What was said on the command line: it counts more than what is found."""

    env: str = ""
    algo: str = ""
    runner: str = ""
    seed: int | None = None
    name: str = ""
    project: str = ""
    # For a file that does not say it itself, and only then.
    env_if_unknown: str = ""


@click.command(name="import")
@click.argument("path", metavar="FILE | FOLDER", type=click.Path(path_type=Path))
@click.option("--env", default="", help="Env it is for, where neither the file nor its folder says so.")
@click.option("--algo", default="", help="Algorithm that made it.")
@click.option("--runner", default="", help="Runner it belongs to; by its layout when absent.")
@click.option("--seed", type=click.IntRange(0), help="Seed of its training.")
@click.option("--name", default="", help="Name in the registry; the file's own when absent.")
@click.option("--project", default="", help="Project it belongs to.")
@click.option("--dry-run", is_flag=True, help="Look at everything, import nothing.")
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
    """Import checkpoints from outside: a file, a folder of them, or a .zip of such a folder.

    Known are files of the builtin runner, Stable-Baselines3's .zip, CleanRL's .cleanrl_model, .safetensors.
    Env, algorithm and seed come from the file and from what lies beside it. Nothing in a file is ever run.

    \b
    runspine import runs/CartPole-v1__dqn__1__1700000000/dqn.cleanrl_model
    runspine import best_model.zip --env LunarLander-v3
    """
    given = Given(env, algo, runner, seed, name, project)
    if dry_run:
        with _looked(path) as found:
            _show_plan([_changed(each, given) for each in found], as_json)
            return OK if all(each.about for each in found) else FAILED
    with Client() as client:
        cards, refused = _import_all(client, path, given)
    if as_json:
        say_json(
            {"imported": [to_plain(card) for card in cards], "refused": [_refused(each) for each in refused]}
        )
    else:
        _report(cards, refused)
    return FAILED if refused else OK


def import_path(client: Client, path: Path, env_if_unknown: str = "") -> list[CheckpointCard]:
    """Everything at a path, or nothing. Raises Refused."""
    cards, refused = _import_all(client, path, Given(env_if_unknown=env_if_unknown))
    if refused:
        raise Refused(refused[0].flaw)
    return cards


def _looked(path: Path) -> AbstractContextManager[list[Candidate]]:
    if not path.exists():
        raise Invalid(f"{path} does not exist")
    return candidates(path)


def _import_all(client: Client, path: Path, given: Given) -> tuple[list[CheckpointCard], list[Candidate]]:
    cards: list[CheckpointCard] = []
    refused: list[Candidate] = []
    try:
        with _looked(path) as found:
            if given.name and len(found) > 1:
                raise Invalid(f"--name is for one checkpoint, and {path} holds {len(found)}")
            for each in found:
                if each.about is None:
                    refused.append(each)
                    continue
                wanted = _changed(each, given)
                if wanted.about and not wanted.about.env:
                    raise Invalid(f"nothing says which env {each.name} is for: give one with --env")
                answer = import_file(client, _parts(wanted, path, given))
                if not answer.created:
                    note(f"{escaped(each.name)}: the same bytes were imported before")
                cards.append(answer.card)
    except BadCheckpoint as error:
        raise Refused(str(error)) from error
    return cards, refused


def _changed(each: Candidate, given: Given) -> Candidate:
    """With what was said on the command line instead of what was found."""
    about = each.about
    if about is None:
        return each
    about = replace(
        about,
        env=given.env or about.env or given.env_if_unknown,
        algo=given.algo or about.algo,
        runner=given.runner or about.runner,
        seed=given.seed if given.seed is not None else about.seed,
    )
    return replace(each, about=about, name=given.name or each.name)


def _parts(each: Candidate, source: Path, given: Given) -> Iterator[ImportRequest]:
    """First what it is, then its bytes: hashed before they are sent, so that the service can compare."""
    about = each.about
    assert about is not None
    with each.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        said = CheckpointImported(
            source=str(source.resolve() if source.is_file() else source.resolve() / each.name),
            env=about.env,
            algo=about.algo,
            runner=about.runner,
            seed=about.seed,
            step=about.step,
            digest=digest,
            size=file.tell(),
            name=Path(each.name).name if "/" in each.name else each.name,
            project=given.project,
        )
        _fill_meta(said, about.meta())
        yield ImportRequest(about=said)
        file.seek(0)
        while data := file.read(CHUNK):
            yield ImportRequest(data=data)


def _fill_meta(said: CheckpointImported, meta: dict[str, object]) -> None:
    from runspine.plain import fill_value

    for key, value in meta.items():
        fill_value(said.meta[key], node_of(value, key), key)


def _show_plan(found: list[Candidate], as_json: bool) -> None:
    if as_json:
        say_json({"found": [_plain(each) for each in found]})
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
            rows.append([escaped(each.name), "", "", "", "", "", escaped(each.flaw)])
    table(["file", "runner", "algo", "env", "seed", "step", "refused because"], rows, right=["seed", "step"])


def _plain(each: Candidate) -> dict[str, object]:
    about = each.about
    if about is None:
        return _refused(each)
    told = {
        "runner": about.runner,
        "algo": about.algo,
        "env": about.env,
        "seed": about.seed,
        "step": about.step,
    }
    return {"name": each.name, **told, **about.meta()}


def _refused(each: Candidate) -> dict[str, object]:
    return {"name": each.name, "refused": each.flaw}


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
        note(f"refused {escaped(each.name)}: {escaped(each.flaw)}")
