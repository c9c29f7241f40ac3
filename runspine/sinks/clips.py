"""Stored clips of a run, downloaded one at a time for sinks that take videos."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Any

from runspine.domain.artifact_kinds import VIDEO
from runspine.domain.run import ENDED
from runspine.errors import RefusedError
from runspine.eventlog.admission import accepted_facts
from runspine.eventlog.subjects import ATTEMPTS, attempts_subject
from runspine.rpc.artifact_client import ArtifactClient
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import KEPT, Artifact, ListArtifactsRequest

SUFFIXES = (".mp4", ".webm", ".gif")
MAX_CLIPS = 500
MAX_CLIP_BYTES = 256 << 20
# The last clips of a run are uploaded and indexed after it has ended.
UPLOAD_SECONDS = 30.0
POLL_SECONDS = 0.2


@dataclass(frozen=True, slots=True)
class Clip:
    """A stored video and its file, which is gone when the next one is asked for."""

    position: int
    attempt: int
    path: Path
    name: str
    step: int
    at: int
    meta: dict[str, Any]


class StoredClips:
    """The clips of one run, oldest first; `left_out` counts those that cannot be given."""

    def __init__(self, client: Client, run_id: str) -> None:
        self._client = client
        self._artifacts = ArtifactClient(client)
        self._run_id = run_id
        self.left_out = 0

    def read(self) -> Iterator[Clip]:
        """Yield each clip once, with its verified file."""
        listed = sorted(self._listed(), key=lambda artifact: (artifact.produced_at, artifact.name))
        fitting = [artifact for artifact in listed if is_exported(artifact)][:MAX_CLIPS]
        self.left_out = len(listed) - len(fitting)
        for position, artifact in enumerate(fitting, 1):
            with tempfile.TemporaryDirectory(prefix="runspine-clip-") as folder:
                path = Path(folder) / f"clip{PurePosixPath(artifact.name).suffix.lower()}"
                try:
                    self._artifacts.download(artifact.digest, path)
                except RefusedError:
                    # Damaged, or pruned since it was listed.
                    self.left_out += 1
                else:
                    yield _clip(artifact, position, path)

    def _listed(self) -> list[Artifact]:
        """Clips that are kept; waits for those of an ended run that are on their way."""
        deadline = time.monotonic() + UPLOAD_SECONDS
        while True:
            found = self._client.get(self._run_id)
            pending = sum(attempt.artifacts_pending for attempt in found.attempts)
            produced = self._produced()
            request = ListArtifactsRequest(run=self._run_id, kinds=[VIDEO], with_pruned=True)
            known = self._artifacts.list(request)
            complete = not pending and produced <= {artifact.digest for artifact in known}
            if found.run.phase not in ENDED or complete or time.monotonic() > deadline:
                return [artifact for artifact in known if artifact.keeping == KEPT]
            time.sleep(POLL_SECONDS)

    def _produced(self) -> set[str]:
        """Digests of the clips that workers have reported."""
        records = self._client.read_log(ATTEMPTS, subject=attempts_subject(self._run_id))
        facts = (fact for _, fact in accepted_facts(records))
        return {
            fact.artifact_produced.digest
            for fact in facts
            if fact.HasField("artifact_produced") and fact.artifact_produced.kind == VIDEO
        }


def is_exported(artifact: Artifact) -> bool:
    """Whether its size and its format are accepted."""
    return artifact.size <= MAX_CLIP_BYTES and artifact.name.lower().endswith(SUFFIXES)


def _clip(artifact: Artifact, position: int, path: Path) -> Clip:
    meta = {name: plain_value(value) for name, value in artifact.meta.items()}
    return Clip(position, artifact.attempt, path, artifact.name, artifact.step, artifact.produced_at, meta)
