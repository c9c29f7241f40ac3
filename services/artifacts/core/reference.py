"""What people mean when they name an artifact or a run. Pure."""

from __future__ import annotations

import re

from runspine.wire.v1.artifacts_pb2 import Artifact
from services.artifacts.core.catalog import Catalog
from services.artifacts.core.standing import Standings, age_order, is_good

MIN_PREFIX, MIN_DIGEST = 4, 6
_HEX = re.compile(r"[0-9a-f]+\Z")
_STEP = re.compile(r"step-(\d+)\Z")
RESERVED = ("best", "latest")


class Unknown(Exception):
    """Nothing is meant by this."""


class Several(Exception):
    """More than one thing is meant."""


def resolve(catalog: Catalog, standings: Standings, text: str) -> Artifact:
    """The one artifact that a reference names. Raises Unknown, Several."""
    if not text:
        raise Unknown("name an artifact: a digest, RUN:best, RUN:latest, ENV/ALGO:best, or an alias")
    if text in catalog.aliases:
        found = catalog.get(*catalog.aliases[text])
        if found is not None:
            return found
    owner, colon, choice = text.rpartition(":")
    if colon:
        return _chosen(catalog, standings, owner, choice)
    if _HEX.match(text.lower()) and len(text) >= MIN_DIGEST and (match := _by_digest(catalog, text.lower())):
        return match
    run_id = find_run(catalog, text)
    if run_id is None:
        raise Unknown(f"no artifact, alias or run is called {text!r}")
    return _only(catalog, run_id, text)


def find_run(catalog: Catalog, text: str) -> str | None:
    """The run or import that is meant by an id, the beginning of one, or a name. Raises Several."""
    if text in catalog.shelves or text in catalog.runs:
        return text
    named = [run_id for run_id, known in catalog.runs.items() if known.run.name == text and text]
    if named:
        return max(named)
    if len(text) < MIN_PREFIX:
        return None
    begins = text if text.startswith("import-") else text.upper()
    found = sorted({run_id for run_id in (*catalog.runs, *catalog.shelves) if run_id.startswith(begins)})
    if len(found) > 1:
        raise Several(f"{text} is the beginning of {len(found)} runs, such as {found[0]} and {found[1]}")
    return found[0] if found else None


def _chosen(catalog: Catalog, standings: Standings, owner: str, choice: str) -> Artifact:
    if "/" in owner and choice in RESERVED:
        group = standings.best_of_kind if choice == "best" else standings.latest_of_kind
        if owner in group:
            return group[owner]
        if find_run(catalog, owner) is None:
            known = ", ".join(sorted(standings.latest_of_kind)[:5]) or "none"
            raise Unknown(f"no good checkpoint is for {owner} (env/algo); there are: {known}")
    run_id = find_run(catalog, owner)
    if run_id is None:
        raise Unknown(f"no run is called {owner!r}")
    return _of_run(catalog, standings, run_id, choice)


def _of_run(catalog: Catalog, standings: Standings, run_id: str, choice: str) -> Artifact:
    if choice in RESERVED:
        found = (standings.best_of_run if choice == "best" else standings.latest_of_run).get(run_id)
        if found is not None:
            return found
        why = "has no score yet" if choice == "best" and run_id in standings.latest_of_run else "is good"
        raise Unknown(f"run {run_id} has no {choice} checkpoint: none {why}")
    artifacts = list(catalog.shelves[run_id].artifacts.values()) if run_id in catalog.shelves else []
    step = _STEP.match(choice)
    matching = [
        a
        for a in artifacts
        if a.name == choice
        or a.name.rpartition("/")[2] == choice
        or (step is not None and a.step == int(step[1]) and a.kind == "checkpoint")
        or (len(choice) >= MIN_DIGEST and a.digest.startswith(choice.lower()))
    ]
    if not matching:
        raise Unknown(f"run {run_id} has no artifact {choice!r}; `runspine artifacts {run_id}` lists them")
    # A name that was written several times means what it holds now.
    return max(matching, key=lambda a: (is_good(a), a.name == choice, age_order(a)))


def _by_digest(catalog: Catalog, digest: str) -> Artifact | None:
    whole = [d for d in ([digest] if digest in catalog.owners else catalog.owners) if d.startswith(digest)]
    if len(whole) > 1:
        raise Several(f"{digest} is the beginning of {len(whole)} digests: give more of it")
    if not whole:
        return None
    found = [catalog.get(run_id, whole[0]) for run_id in sorted(catalog.owners[whole[0]])]
    return max((a for a in found if a is not None), key=lambda a: (is_good(a), a.produced_at), default=None)


def _only(catalog: Catalog, run_id: str, text: str) -> Artifact:
    artifacts = list(catalog.shelves[run_id].artifacts.values()) if run_id in catalog.shelves else []
    if len(artifacts) == 1:
        return artifacts[0]
    if not artifacts:
        raise Unknown(f"run {run_id} has no artifacts")
    raise Several(
        f"run {text} has {len(artifacts)} artifacts: name one, such as {text}:latest or {text}:best"
    )
