"""Files of a run, and their verified download."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any

from runspine.api.fields import moment
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import enum_word, plain_value
from runspine.wire.v1.artifacts_pb2 import Artifact, Keeping


@dataclass(frozen=True, slots=True)
class StoredFile:
    """An artifact: a checkpoint, a video, or another file of a run."""

    name: str
    kind: str
    size: int
    # SHA-256 of its bytes.
    digest: str
    step: int
    attempt: int
    produced: datetime | None
    # kept, pruned or erased.
    keeping: str
    meta: dict[str, Any]
    _endpoint: Endpoint = field(repr=False, compare=False)

    def download(self, path: Path | str = ".") -> Path:
        """Write it to a new file, or under its own name into a folder, and verify its digest. Blocks."""
        target = Path(path)
        if target.is_dir():
            target = target / Path(self.name).name
        with Client(self._endpoint) as client:
            ArtifactClient(client).download(self.digest, target)
        return target


def stored_file(artifact: Artifact, endpoint: Endpoint) -> StoredFile:
    return StoredFile(
        name=artifact.name,
        kind=artifact.kind,
        size=artifact.size,
        digest=artifact.digest,
        step=artifact.step,
        attempt=artifact.attempt,
        produced=moment(artifact.produced_at),
        keeping=enum_word(Keeping.DESCRIPTOR, artifact.keeping),
        meta={key: plain_value(artifact.meta[key]) for key in sorted(artifact.meta)},
        _endpoint=endpoint,
    )
