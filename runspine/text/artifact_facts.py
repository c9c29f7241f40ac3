"""One-line descriptions of facts about artifacts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.text.values import size
from runspine.wire.v1.facts_pb2 import ArtifactProduced


def _short(digest: str) -> str:
    return digest[:12] or "the whole run"


def _by(name: str) -> str:
    return f" by {name}" if name else ""


def _in(env: str) -> str:
    return f" in {env}" if env else ""


def _verified(artifact: ArtifactProduced) -> str:
    return (
        f"{artifact.kind} {artifact.name} verified ({size(artifact.size)}, sha256 {_short(artifact.digest)})"
    )


def _rules(f: Any) -> str:
    limits = ", ".join(f"{field.name}={value:g}" for field, value in f.profile.ListFields())
    return f"rules of {f.scope}: {limits or 'none'}{_by(f.set_by)}"


DESCRIPTIONS: dict[str, Callable[[Any], str]] = {
    "artifact_indexed": lambda f: _verified(f.artifact),
    "artifact_corrupt": lambda f: f"{_short(f.digest)} is corrupt: {f.flaw} (found by {f.found_by})",
    "artifact_mended": lambda f: f"{_short(f.digest)} is intact again",
    "artifact_pinned": lambda f: (
        f"{_short(f.digest)} pinned{_by(f.pinned_by)}" + (f": {f.reason}" if f.reason else "")
    ),
    "artifact_unpinned": lambda f: f"{_short(f.digest)} unpinned{_by(f.unpinned_by)}",
    "artifact_pruned": lambda f: (
        f"{f.kind} {f.name} pruned by {f.rule} ({size(f.size)}, sha256 {_short(f.digest)}){_by(f.pruned_by)}"
    ),
    "artifact_restored": lambda f: f"{_short(f.digest)} restored{_by(f.restored_by)}",
    "artifact_erased": lambda f: f"{_short(f.digest)} erased from S3 ({size(f.size)})",
    "alias_set": lambda f: f"alias {f.alias} set to {_short(f.digest)}{_by(f.set_by)}",
    "alias_removed": lambda f: f"alias {f.alias} removed{_by(f.removed_by)}",
    "checkpoint_imported": lambda f: (
        f"checkpoint of {f.env}/{f.algo} imported from {f.source}{_by(f.imported_by)}"
    ),
    "checkpoint_activated": lambda f: (
        f"actor {f.actor} uses {_short(f.digest)}{_in(f.env)}{_by(f.activated_by)}"
    ),
    "checkpoint_retired": lambda f: f"actor {f.actor} no longer uses {_short(f.digest)}{_in(f.env)}",
    "retention_set": _rules,
    "janitor_elected": lambda f: f"janitor {f.holder} prunes from now on (term {f.term})",
    "janitor_resigned": lambda f: f"janitor {f.holder} stopped (term {f.term})",
}
