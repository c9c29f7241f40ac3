"""A catalog of artifacts on paper, filled fact by fact."""

from __future__ import annotations

import hashlib
from typing import Any

from runspine.domain.artifact.commands import Pin
from runspine.domain.artifact.decide import decide
from runspine.domain.retention import DEFAULT
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Recorded, Version
from runspine.ids import ulid
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking
from runspine.services.artifacts.core.retention import Planner, PrunePlan
from runspine.wire.v1.facts_pb2 import (
    ArtifactIndexed,
    ArtifactProduced,
    Fact,
    RetentionProfile,
    RetentionSet,
    RunCompleted,
    RunQueued,
    RunSubmitted,
)
from runspine.wire.v1.spec_pb2 import RunSpec, Value

SECOND = 1_000_000
NOW = 1_000 * 3600 * SECOND


class ArtifactHistory:
    """A catalog on paper."""

    def __init__(self) -> None:
        self.catalog = ArtifactCatalog()
        self._count = 0

    def append(self, subject: str, *facts: Fact) -> None:
        data = seal(Version(), facts, "c", "test")
        self.catalog.apply(Recorded("X", 1, subject, data, digest_of(data), 0))

    def run(self, *, ended: bool = True, at: int = 0, **spec: Any) -> str:
        self._count += 1
        run_id = ulid(self._count, b"0123456789")
        made = RunSpec(**{"env": "CartPole-v1", "algo": "ppo", "runner": "builtin", **spec})
        submitted = RunSubmitted(run_id=run_id, name=f"run {self._count}", spec=made)
        at = at or self._count * SECOND
        self.append(
            f"runs.{run_id}", Fact(at=at, run_submitted=submitted), Fact(at=at, run_queued=RunQueued())
        )
        if ended:
            self.append(f"runs.{run_id}", Fact(at=at + 1, run_completed=RunCompleted()))
        return run_id

    def add(
        self, run_id: str, *, kind: str = "video", step: int = 0, at: int = 0, size: int = 10,
        score: float | None = None, data: str = "", verified: bool = True,
        meta: dict[str, Value] | None = None,
    ) -> str:  # fmt: skip
        self._count += 1
        digest = hashlib.sha256((data or str(self._count)).encode()).hexdigest()
        meta = (meta or {}) if score is None else {"return_mean": Value(number=score)}
        emitted = ArtifactProduced(
            attempt=1,
            kind=kind,
            name=f"{kind}-{step}",
            digest=digest,
            size=size,
            key=digest,
            step=step,
            meta=meta,
        )
        at = at or self._count * SECOND
        self.append(f"attempts.{run_id}", Fact(at=at, artifact_produced=emitted))
        if verified:
            indexed = ArtifactIndexed(artifact=emitted, produced_at=at)
            self.append(f"artifacts.{run_id}", Fact(at=at, artifact_indexed=indexed))
        return digest

    def rule(self, scope: str = DEFAULT, **limits: Any) -> None:
        profile = RetentionProfile(**limits)
        self.append("artifacts.retention", Fact(retention_set=RetentionSet(scope=scope, profile=profile)))

    def pin(self, run_id: str, digest: str = "") -> None:
        self.append(f"artifacts.{run_id}", *decide(self.catalog.run_artifacts[run_id], Pin(0, digest)))

    def plan(self, now: int = NOW) -> PrunePlan:
        planner = Planner(self.catalog, Ranking(self.catalog), now)
        return planner.plan(lambda *_: True)

    def gone(self, now: int = NOW) -> set[str]:
        return {item.artifact.digest for item in self.plan(now).items}
