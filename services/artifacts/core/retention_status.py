"""Status of retention: what of a run is retained, and of runs that a scope limits. Pure."""

from __future__ import annotations

from runspine.domain.retention import RUNS_WITH, effective
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import card_source
from runspine.wire.v1.artifacts_pb2 import KEPT, KindStatus, RetentionStatus, RunsWithStatus


def status(catalog: ArtifactCatalog, run_id: str) -> RetentionStatus:
    """The status of one run."""
    this = card_source(catalog, run_id)
    profile, _ = effective(catalog.profiles, run_id, this.project)
    kinds: dict[str, KindStatus] = {}
    entry = catalog.run_artifacts.get(run_id)
    for artifact in entry.artifacts.values() if entry is not None else ():
        kind = kinds.setdefault(artifact.kind, KindStatus(kind=artifact.kind))
        kind.total += 1
        if artifact.keeping == KEPT:
            kind.retained += 1
            kind.bytes += artifact.size
    return RetentionStatus(
        run_id=run_id,
        run_name=this.name,
        effective=profile,
        kinds=[kinds[kind] for kind in sorted(kinds)],
        last_pruned_at=entry.last_pruned_at if entry is not None else 0,
        pruned_bytes=entry.pruned_bytes if entry is not None else 0,
    )


def runs_with(catalog: ArtifactCatalog, wanted: str = "") -> list[RunsWithStatus]:
    """Runs with files of a kind, in each scope that limits them; those of one scope if it is given."""
    found = {
        (scope, rule): RunsWithStatus(scope=scope, kind=kind, limit=getattr(each.profile, rule))
        for scope, each in sorted(catalog.profiles.items())
        for rule, kind in RUNS_WITH.items()
        if wanted in ("", scope) and getattr(each.profile, rule)
    }
    if not found:
        return []
    for run_id, entry in catalog.run_artifacts.items():
        kinds: dict[str, bool] = {}
        for artifact in entry.artifacts.values():
            kinds[artifact.kind] = kinds.get(artifact.kind, False) or artifact.keeping == KEPT
        _, origin = effective(catalog.profiles, run_id, card_source(catalog, run_id).project)
        for rule, kind in RUNS_WITH.items():
            counted = found.get((origin.get(rule, ""), rule))
            if counted is not None and kind in kinds:
                counted.total += 1
                counted.retained += kinds[kind]
    return list(found.values())
