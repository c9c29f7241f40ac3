"""Retention profiles: their scopes, the one in force for a run, and their validation. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from runspine.domain.artifact_kinds import TENSORBOARD, WANDB
from runspine.errors import Violation
from runspine.ids import is_ulid
from runspine.wire.v1.artifacts_pb2 import RetentionRules, ScopedProfile
from runspine.wire.v1.facts_pb2 import Fact, RetentionProfile, RetentionSet

# The subject artifacts.retention holds the rules of all scopes.
RETENTION = "retention"
DEFAULT = "default"
PROJECT, RUN = "project:", "run:"
DAY = 86_400.0
# In force where nothing is set: nothing is pruned, and a manual prune can be undone.
DEFAULT_PROFILE = RetentionProfile(grace_seconds=3600.0, undo_seconds=7 * DAY, automatic=True)
# Limits of runs with files of a kind, counted over the scope in which they are set.
RUNS_WITH = {"max_tensorboard_runs": TENSORBOARD, "max_wandb_runs": WANDB}
FIELDS = tuple(field.name for field in RetentionProfile.DESCRIPTOR.fields)


def fold_rules(facts: Iterable[Fact], rules: RetentionRules | None = None) -> RetentionRules:
    """The profiles of all scopes after these facts."""
    after = RetentionRules()
    if rules is not None:
        after.CopyFrom(rules)
    for fact in facts:
        if fact.HasField("retention_set"):
            given = fact.retention_set
            if _is_empty(given.profile):
                after.scopes.pop(given.scope, None)
            else:
                after.scopes[given.scope].CopyFrom(given.profile)
    return after


def apply_rules(profiles: dict[str, ScopedProfile], fact: Fact) -> None:
    """Fold one fact in place, with who set the profile and when."""
    if not fact.HasField("retention_set"):
        return
    given = fact.retention_set
    if _is_empty(given.profile):
        profiles.pop(given.scope, None)
    else:
        profiles[given.scope] = ScopedProfile(
            scope=given.scope, profile=given.profile, set_by=given.set_by, set_at=fact.at
        )


def decide_rules(
    rules: RetentionRules, scope: str, profile: RetentionProfile, at: int, by: str
) -> list[Fact]:
    """Set the profile of a scope as a whole; an empty one removes it."""
    before = rules.scopes[scope] if scope in rules.scopes else RetentionProfile()
    if before == profile:
        return []
    return [Fact(at=at, retention_set=RetentionSet(scope=scope, profile=profile, set_by=by))]


def scopes_of(run_id: str, project: str) -> list[str]:
    """The scopes of a run, the narrowest first."""
    return [RUN + run_id, *([PROJECT + project] if project else []), DEFAULT]


def effective(
    profiles: Mapping[str, ScopedProfile], run_id: str, project: str
) -> tuple[RetentionProfile, dict[str, str]]:
    """The profile in force for a run, merged field by field, and the scope of each field."""
    found = RetentionProfile()
    found.CopyFrom(DEFAULT_PROFILE)
    origin: dict[str, str] = {}
    for scope in reversed(scopes_of(run_id, project)):
        if scope not in profiles:
            continue
        given = profiles[scope].profile
        for name in FIELDS:
            if given.HasField(name):
                setattr(found, name, getattr(given, name))
                origin[name] = scope
    return found, origin


def violations(scope: str, profile: RetentionProfile) -> list[Violation]:
    """Violations of a profile, by field."""
    found = []
    kind, colon, name = scope.partition(":")
    if scope != DEFAULT and (kind not in ("project", "run") or not colon or not name):
        found.append(Violation("scope", f"{scope!r}: expected default, project:<name> or run:<id>"))
    if kind == "run" and name and not is_ulid(name):
        found.append(Violation("scope", f"{name!r} is not the id of a run"))
    for field in ("max_runs_per_agent", *RUNS_WITH):
        if kind == "run" and profile.HasField(field):
            found.append(Violation(field, "a run has no runs; set it for a project or as default"))
    for field in ("max_age_seconds", "grace_seconds", "undo_seconds"):
        value = getattr(profile, field)
        if not math.isfinite(value) or value < 0:
            found.append(Violation(field, f"{value} is not a duration; expected 0 or more seconds"))
    if profile.HasField("max_age_seconds") and 0 < profile.max_age_seconds < 60:
        found.append(Violation("max_age_seconds", "less than a minute; did you mean days? (1d, 12h)"))
    return found


def _is_empty(profile: RetentionProfile) -> bool:
    return not profile.ListFields()
