"""Datasets in the registry: artifacts of kind dataset, identified by aliases."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runspine.datasets.archive import SUFFIX
from runspine.datasets.manifest import Manifest
from runspine.domain.artifact_kinds import DATASET
from runspine.errors import InvalidError, RefusedError, RunNotFoundError
from runspine.eventlog.subjects import is_token
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import fill_value, plain_value
from runspine.spec.strict_yaml import node_of
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import CheckpointImported
from runspine.wire.v1.spec_pb2 import RunSpec

CHUNK_BYTES = 1 << 20
TIMEOUT_SECONDS, POLL_SECONDS = 60.0, 0.2


@dataclass(frozen=True, slots=True)
class RegisteredDataset:
    """A dataset in the registry, with its metadata."""

    artifact: wire.Artifact
    meta: dict[str, Any]

    @property
    def name(self) -> str:
        return self.artifact.aliases[0] if self.artifact.aliases else self.artifact.digest[:12]

    @property
    def env(self) -> str:
        return str(self.meta.get("env", ""))


def registered(client: Client) -> list[RegisteredDataset]:
    """All kept datasets by name; those without a name last."""
    found = ArtifactClient(client).list(wire.ListArtifactsRequest(kinds=[DATASET]))
    known: dict[str, wire.Artifact] = {}
    for artifact in found:
        # Several runs may keep the same bytes: the one with a name is listed.
        if artifact.digest not in known or artifact.aliases:
            known[artifact.digest] = artifact
    wrapped = [_registered(artifact) for artifact in known.values()]
    return sorted(wrapped, key=lambda each: (not each.artifact.aliases, each.name))


def find(client: Client, name: str) -> RegisteredDataset:
    """The dataset with this name or beginning of a digest. Raises RunNotFoundError."""
    everything = registered(client)
    for each in everything:
        if name in each.artifact.aliases or (len(name) >= 6 and each.artifact.digest.startswith(name)):
            return each
    names = [alias for each in everything for alias in each.artifact.aliases]
    hint = not_accepted(name, names) if names else f"{name!r}: none is registered yet"
    raise RunNotFoundError(f"dataset {hint}")


def register(
    client: Client, archive: Path, manifest: Manifest, name: str, project: str, source: str
) -> tuple[RegisteredDataset, bool]:
    """Import an archive and name it; also whether its bytes are new. Raises InvalidError, RefusedError."""
    check_name(name)
    answer = client.send_artifact(_parts(archive, manifest, name, project, source))
    found = wait_until_good(client, answer.card.artifact, name)
    return found, answer.created


def wait_until_good(client: Client, artifact: wire.Artifact, name: str) -> RegisteredDataset:
    """Wait until the artifact is verified, then name it. Raises RefusedError."""
    check_name(name)
    artifacts, give_up = ArtifactClient(client), time.monotonic() + TIMEOUT_SECONDS
    while True:
        answer = artifacts.get(f"{artifact.run_id}:{artifact.digest}")
        if not answer.obstacle:
            break
        soon = answer.artifact.integrity == wire.UNVERIFIED and answer.artifact.keeping == wire.KEPT
        if not soon or time.monotonic() > give_up:
            raise RefusedError(answer.obstacle)
        time.sleep(POLL_SECONDS)
    return _registered(artifacts.set_alias(name, f"{artifact.run_id}:{artifact.digest}"))


def check_name(name: str) -> None:
    if not is_token(name):
        raise InvalidError(f"{name[:80]!r} cannot be a name: letters, digits, - and _, at most 64 of them")


def resolve_dataset(client: Client, spec: RunSpec) -> None:
    """Fill in the digest of the dataset that a spec names, and its env if it has none.

    Raises RunNotFoundError.
    """
    if not spec.dataset.name or spec.dataset.digest:
        return
    found = find(client, spec.dataset.name)
    spec.dataset.digest, spec.dataset.size = found.artifact.digest, found.artifact.size
    if not spec.env:
        spec.env = found.env
        for key, value in (found.meta.get("env_kwargs") or {}).items():
            fill_value(spec.env_kwargs[key], node_of(value, key), key)


def plain(found: RegisteredDataset) -> dict[str, Any]:
    artifact = found.artifact
    return {
        "name": found.name,
        "aliases": list(artifact.aliases),
        "digest": artifact.digest,
        "size": artifact.size,
        "run_id": artifact.run_id,
        "integrity": wire.Integrity.Name(artifact.integrity).lower(),
        "flaw": artifact.flaw,
        **found.meta,
    }


def _registered(artifact: wire.Artifact) -> RegisteredDataset:
    return RegisteredDataset(artifact, {name: plain_value(value) for name, value in artifact.meta.items()})


def _parts(
    archive: Path, manifest: Manifest, name: str, project: str, source: str
) -> Iterator[wire.ImportRequest]:
    with archive.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
        about = CheckpointImported(
            kind=DATASET,
            source=source,
            env=manifest.env,
            digest=digest,
            size=file.tell(),
            name=f"{name}{SUFFIX}",
            project=project,
        )
        for key, value in manifest.meta().items():
            fill_value(about.meta[key], node_of(value, key), key)
        yield wire.ImportRequest(about=about)
        file.seek(0)
        while data := file.read(CHUNK_BYTES):
            yield wire.ImportRequest(data=data)
