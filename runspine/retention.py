"""Retention profiles: where they are set, what is in force for a run, and what is accepted. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from runspine.errors import Violation
from runspine.ids import is_ulid
from runspine.wire.v1.artifacts_pb2 import RetentionRules, ScopedProfile
from runspine.wire.v1.facts_pb2 import Fact, RetentionProfile, RetentionSet

# The subject artifacts.retention holds the rules of all scopes.
RETENTION = "retention"
DEFAULT = "default"
PROJECT, RUN = "project:", "run:"
DAY = 86_400.0
# What is in force where nothing was said: nothing is pruned, and a prune by hand can be undone.
UNSAID = RetentionProfile(grace_seconds=3600.0, undo_seconds=7 * DAY, automatic=True)
LIMITS = (
    "max_videos_per_run",
    "max_checkpoints_per_run",
    "max_runs_per_agent",
    "max_age_seconds",
    "max_bytes",
)
FIELDS = tuple(field.name for field in RetentionProfile.DESCRIPTOR.fields)


def fold_rules(facts: Iterable[Fact], rules: RetentionRules | None = None) -> RetentionRules:
    """The profiles of all scopes."""
    after = RetentionRules()
    if rules is not None:
        after.CopyFrom(rules)
    for fact in facts:
        if fact.HasField("retention_set"):
            said = fact.retention_set
            if _is_empty(said.profile):
                after.scopes.pop(said.scope, None)
            else:
                after.scopes[said.scope].CopyFrom(said.profile)
    return after


def apply_rules(profiles: dict[str, ScopedProfile], fact: Fact) -> None:
    """The same, with who set it and when, in place."""
    if not fact.HasField("retention_set"):
        return
    said = fact.retention_set
    if _is_empty(said.profile):
        profiles.pop(said.scope, None)
    else:
        profiles[said.scope] = ScopedProfile(
            scope=said.scope, profile=said.profile, set_by=said.set_by, set_at=fact.at
        )


def decide_rules(
    rules: RetentionRules, scope: str, profile: RetentionProfile, at: int, by: str
) -> list[Fact]:
    """The profile of a scope is set as a whole; an empty one removes it."""
    before = rules.scopes[scope] if scope in rules.scopes else RetentionProfile()
    if before == profile:
        return []
    return [Fact(at=at, retention_set=RetentionSet(scope=scope, profile=profile, set_by=by))]


def scopes_of(run_id: str, project: str) -> list[str]:
    """The scopes a run lies in, the narrowest first."""
    return [RUN + run_id, *([PROJECT + project] if project else []), DEFAULT]


def effective(
    profiles: Mapping[str, ScopedProfile], run_id: str, project: str
) -> tuple[RetentionProfile, dict[str, str]]:
    """What is in force for a run, field by field, and the scope each limit comes from."""
    found = RetentionProfile()
    found.CopyFrom(UNSAID)
    origin: dict[str, str] = {}
    for scope in reversed(scopes_of(run_id, project)):
        if scope not in profiles:
            continue
        said = profiles[scope].profile
        for name in FIELDS:
            if said.HasField(name):
                setattr(found, name, getattr(said, name))
                origin[name] = scope
    return found, origin


def violations(scope: str, profile: RetentionProfile) -> list[Violation]:
    """What is wrong with a profile, by field."""
    found = []
    kind, colon, name = scope.partition(":")
    if scope != DEFAULT and (kind not in ("project", "run") or not colon or not name):
        found.append(Violation("scope", f"{scope!r}: expected default, project:<name> or run:<id>"))
    if kind == "run" and name and not is_ulid(name):
        found.append(Violation("scope", f"{name!r} is not the id of a run"))
    if kind == "run" and profile.HasField("max_runs_per_agent"):
        found.append(Violation("max_runs_per_agent", "a run has no runs; set it for a project or as default"))
    for field in ("max_age_seconds", "grace_seconds", "undo_seconds"):
        value = getattr(profile, field)
        if not math.isfinite(value) or value < 0:
            found.append(Violation(field, f"{value} is no length of time; expected 0 or more seconds"))
    if profile.HasField("max_age_seconds") and 0 < profile.max_age_seconds < 60:
        found.append(Violation("max_age_seconds", "less than a minute; did you mean days? (1d, 12h)"))
    return found


def _is_empty(profile: RetentionProfile) -> bool:
    return not profile.ListFields()
