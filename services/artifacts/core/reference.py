"""Resolves references to artifacts and runs. Pure."""

from __future__ import annotations

import re

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import Ranking, age_order, is_good
from runspine.wire.v1.artifacts_pb2 import Artifact

MIN_PREFIX, MIN_DIGEST = 4, 6
_HEX = re.compile(r"[0-9a-f]+\Z")
_STEP = re.compile(r"step-(\d+)\Z")
RESERVED = ("best", "latest")


class UnknownReferenceError(Exception):
    """The reference matches nothing."""


class SeveralMatchesError(Exception):
    """The reference matches more than one thing."""


def resolve(catalog: ArtifactCatalog, ranking: Ranking, text: str) -> Artifact:
    """The artifact that a reference names. Raises UnknownReferenceError, SeveralMatchesError."""
    if not text:
        raise UnknownReferenceError(
            "name an artifact: a digest, RUN:best, RUN:latest, ENV/ALGO:best, or an alias"
        )
    if text in catalog.aliases:
        found = catalog.get(*catalog.aliases[text])
        if found is not None:
            return found
    owner, colon, choice = text.rpartition(":")
    if colon:
        return _chosen(catalog, ranking, owner, choice)
    if (
        _HEX.match(text.lower())
        and len(text) >= MIN_DIGEST
        and (match := _by_digest(catalog, ranking, text.lower()))
    ):
        return match
    run_id = find_run(catalog, text)
    if run_id is None:
        raise UnknownReferenceError(f"no artifact, alias or run is called {text!r}")
    return _only(catalog, run_id, text)


def find_run(catalog: ArtifactCatalog, text: str) -> str | None:
    """The run or import with this id, a unique beginning of it, or this name.

    Raises SeveralMatchesError.
    """
    if text in catalog.run_artifacts or text in catalog.runs:
        return text
    named = [run_id for run_id, known in catalog.runs.items() if known.run.name == text and text]
    if named:
        return max(named)
    if len(text) < MIN_PREFIX:
        return None
    begins = text if text.startswith("import-") else text.upper()
    found = sorted(
        {run_id for run_id in (*catalog.runs, *catalog.run_artifacts) if run_id.startswith(begins)}
    )
    if len(found) > 1:
        raise SeveralMatchesError(
            f"{text} is the beginning of {len(found)} runs, such as {found[0]} and {found[1]}"
        )
    return found[0] if found else None


def _chosen(catalog: ArtifactCatalog, ranking: Ranking, owner: str, choice: str) -> Artifact:
    if "/" in owner and choice in RESERVED:
        group = ranking.best_of_kind if choice == "best" else ranking.latest_of_kind
        if owner in group:
            return group[owner]
        if find_run(catalog, owner) is None:
            known = ", ".join(sorted(ranking.latest_of_kind)[:5]) or "none"
            raise UnknownReferenceError(f"no good checkpoint is for {owner} (env/algo); there are: {known}")
    run_id = find_run(catalog, owner)
    if run_id is None:
        raise UnknownReferenceError(f"no run is called {owner!r}")
    return _in_run(catalog, ranking, run_id, choice)


def _in_run(catalog: ArtifactCatalog, ranking: Ranking, run_id: str, choice: str) -> Artifact:
    if choice in RESERVED:
        found = (ranking.best_of_run if choice == "best" else ranking.latest_of_run).get(run_id)
        if found is not None:
            return found
        why = "has no score yet" if choice == "best" and run_id in ranking.latest_of_run else "is good"
        raise UnknownReferenceError(f"run {run_id} has no {choice} checkpoint: none {why}")
    artifacts = (
        list(catalog.run_artifacts[run_id].artifacts.values()) if run_id in catalog.run_artifacts else []
    )
    step = _STEP.match(choice)
    matching = [
        a
        for a in artifacts
        if a.name == choice
        or a.name.rpartition("/")[2] == choice
        or (step is not None and a.step == int(step[1]) and a.kind == CHECKPOINT)
        or (len(choice) >= MIN_DIGEST and a.digest.startswith(choice.lower()))
    ]
    if not matching:
        raise UnknownReferenceError(
            f"run {run_id} has no artifact {choice!r}; `runspine artifacts {run_id}` lists them"
        )
    # Of several artifacts with one name the newest counts.
    return max(matching, key=lambda a: (is_good(a), a.name == choice, age_order(a)))


def _by_digest(catalog: ArtifactCatalog, ranking: Ranking, digest: str) -> Artifact | None:

    def worth(artifact: Artifact) -> tuple[bool, bool, int]:
        # A run that uses a policy did not make it.
        made = not ranking.sources[artifact.run_id].uses_policies
        return is_good(artifact), made, artifact.produced_at

    whole = [d for d in ([digest] if digest in catalog.owners else catalog.owners) if d.startswith(digest)]
    if len(whole) > 1:
        raise SeveralMatchesError(f"{digest} is the beginning of {len(whole)} digests: give more of it")
    if not whole:
        return None
    found = [catalog.get(run_id, whole[0]) for run_id in sorted(catalog.owners[whole[0]])]
    return max((a for a in found if a is not None), key=worth, default=None)


def _only(catalog: ArtifactCatalog, run_id: str, text: str) -> Artifact:
    artifacts = (
        list(catalog.run_artifacts[run_id].artifacts.values()) if run_id in catalog.run_artifacts else []
    )
    if len(artifacts) == 1:
        return artifacts[0]
    if not artifacts:
        raise UnknownReferenceError(f"run {run_id} has no artifacts")
    raise SeveralMatchesError(
        f"run {text} has {len(artifacts)} artifacts: name one, such as {text}:latest or {text}:best"
    )
