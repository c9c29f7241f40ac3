"""Import of checkpoint files from other tools into the registry."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from runspine.checkpoints import CheckpointError
from runspine.checkpoints.candidates import Candidate, candidates
from runspine.cli.ui.screen import note
from runspine.errors import InvalidError, RefusedError
from runspine.rpc.trainer_client import Client
from runspine.spec.strict_yaml import node_of
from runspine.text.values import escaped
from runspine.wire.v1.artifacts_pb2 import CheckpointCard, ImportRequest
from runspine.wire.v1.facts_pb2 import CheckpointImported

CHUNK_BYTES = 1 << 20


class ImportOverrides(NamedTuple):
    """Values from the command line; they take precedence over what the file states."""

    env: str = ""
    algo: str = ""
    runner: str = ""
    seed: int | None = None
    name: str = ""
    project: str = ""
    # Used only when neither the file nor --env names an env.
    env_if_unknown: str = ""


def import_path(client: Client, path: Path, env_if_unknown: str = "") -> list[CheckpointCard]:
    """Import every checkpoint at a path. Raises RefusedError for the first that cannot be read."""
    cards, refused = import_all(client, path, ImportOverrides(env_if_unknown=env_if_unknown))
    if refused:
        raise RefusedError(refused[0].problem)
    return cards


def open_candidates(path: Path) -> AbstractContextManager[list[Candidate]]:
    if not path.exists():
        raise InvalidError(f"{path} does not exist")
    return candidates(path)


def import_all(
    client: Client, path: Path, overrides: ImportOverrides
) -> tuple[list[CheckpointCard], list[Candidate]]:
    cards: list[CheckpointCard] = []
    refused: list[Candidate] = []
    try:
        with open_candidates(path) as found:
            if overrides.name and len(found) > 1:
                raise InvalidError(f"--name is for one checkpoint, and {path} holds {len(found)}")
            for each in found:
                if each.about is None:
                    refused.append(each)
                    continue
                wanted = with_overrides(each, overrides)
                if wanted.about and not wanted.about.env:
                    raise InvalidError(f"the env of {each.name} is unknown: give it with --env")
                answer = client.send_artifact(_parts(wanted, path, overrides))
                if not answer.created:
                    note(f"{escaped(each.name)}: already imported")
                cards.append(answer.card)
    except CheckpointError as error:
        raise RefusedError(str(error)) from error
    return cards, refused


def with_overrides(each: Candidate, overrides: ImportOverrides) -> Candidate:
    """Return the candidate with values from the command line applied."""
    about = each.about
    if about is None:
        return each
    about = replace(
        about,
        env=overrides.env or about.env or overrides.env_if_unknown,
        algo=overrides.algo or about.algo,
        runner=overrides.runner or about.runner,
        seed=overrides.seed if overrides.seed is not None else about.seed,
    )
    return replace(each, about=about, name=overrides.name or each.name)


def _parts(each: Candidate, source: Path, overrides: ImportOverrides) -> Iterator[ImportRequest]:
    """Yield the description, with the digest for the service to compare, then the bytes."""
    about = each.about
    assert about is not None
    with each.path.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        imported = CheckpointImported(
            source=str(source.resolve() if source.is_file() else source.resolve() / each.name),
            env=about.env,
            algo=about.algo,
            runner=about.runner,
            seed=about.seed,
            step=about.step,
            digest=digest,
            size=file.tell(),
            name=Path(each.name).name if "/" in each.name else each.name,
            project=overrides.project,
        )
        _fill_meta(imported, about.meta())
        yield ImportRequest(about=imported)
        file.seek(0)
        while data := file.read(CHUNK_BYTES):
            yield ImportRequest(data=data)


def _fill_meta(imported: CheckpointImported, meta: dict[str, object]) -> None:
    from runspine.spec.plain import fill_value

    for key, value in meta.items():
        fill_value(imported.meta[key], node_of(value, key), key)
