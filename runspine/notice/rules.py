"""The shape of notice rules, of the operator's file and of specs. Pure."""

from __future__ import annotations

import hashlib
import math
import re
from collections.abc import Collection, Iterator, Sequence

from runspine.eventlog.subjects import is_token
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.spec_pb2 import NoticeRule

THRESHOLD, PLATEAU, COLLAPSE, QUIET = "threshold", "plateau", "collapse", "quiet"
METRIC_EVENTS = (THRESHOLD, PLATEAU, COLLAPSE, QUIET)
EVENTS = (
    "started",
    "retried",
    "completed",
    "failed",
    "cancelled",
    "ended",
    "stale",
    "stalled",
    "disk",
    "nan",
    *METRIC_EVENTS,
)
GOALS = ("max", "min")
STOP, LABEL = "action/stop", "action/label"
MAX_RULES = 20
MAX_CHANNELS = 10
MAX_LABELS = 16
MAX_TEXT = 200
_LABEL_NAME = re.compile(r"[A-Za-z0-9_./-]{1,63}\Z")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069]")
_OF_THRESHOLD = ("above", "below")
_OF_PLATEAU = ("steps", "goal", "min_delta")
# Fields of a rule on a metric, by its event.
_FIELDS = {
    THRESHOLD: ("metric", *_OF_THRESHOLD),
    PLATEAU: ("metric", *_OF_PLATEAU),
    COLLAPSE: ("metric", "goal", "drop", "points"),
    QUIET: ("metric", "minutes"),
}
_OF_METRICS = frozenset(name for names in _FIELDS.values() for name in names)
MAX_POINTS = 1000


def rules_problems(rules: Sequence[NoticeRule], channels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Fields of the rules of a spec that are wrong, and what is wrong with them."""
    if len(rules) > MAX_RULES:
        yield "", f"{len(rules)} rules, more than the {MAX_RULES} accepted"
        return
    if rules and not channels:
        yield "", "there are no channels: set RUNSPINE_NOTICES_FILE of the notices service, or remove it"
        return
    names = [rule_name(rule, index) for index, rule in enumerate(rules)]
    for index, rule in enumerate(rules):
        for field, what in rule_problems(rule, channels):
            yield f"[{index}].{field}", what
        if names.count(names[index]) > 1:
            yield f"[{index}].name", f"{names[index]!r} is the name of two rules"


def rule_problems(rule: NoticeRule, channels: Collection[str]) -> Iterator[tuple[str, str]]:
    """Fields of one rule that are wrong, and what is wrong with them."""
    if rule.on not in EVENTS:
        yield "on", not_accepted(rule.on, EVENTS)
        return
    for name in rule.channels:
        if name not in channels:
            yield "channels", not_accepted(name, channels)
    if len(rule.channels) > MAX_CHANNELS:
        yield "channels", f"{len(rule.channels)} channels, more than the {MAX_CHANNELS} accepted"
    if len(set(rule.channels)) < len(rule.channels):
        yield "channels", "names a channel twice"
    if not targets(rule):
        yield "channels", "is missing: name a channel, or an action (stop, labels)"
    if rule.name and not is_token(rule.name):
        yield "name", f"{rule.name!r}: use letters, digits, - and _, at most 64 of them"
    yield from _metric_problems(rule)
    yield from _label_problems(rule)


def rule_name(rule: NoticeRule, index: int) -> str:
    return rule.name or str(index + 1)


def targets(rule: NoticeRule) -> list[str]:
    """What a rule notifies: channels, then actions."""
    return [*rule.channels, *([STOP] if rule.stop else []), *([LABEL] if rule.labels else [])]


def rule_digest(rule: NoticeRule, where: str = "") -> str:
    data = rule.SerializeToString(deterministic=True) + b"\0" + where.encode()
    return hashlib.sha256(data).hexdigest()


def notice_id(run_id: str, rule: str, cause: str, target: str) -> str:
    """The same in every process that decides on the same cause."""
    text = "\0".join(("runspine notice 1", run_id, rule, cause, target))
    return hashlib.sha256(text.encode()).hexdigest()[:32]


def _metric_problems(rule: NoticeRule) -> Iterator[tuple[str, str]]:
    wanted = _FIELDS.get(rule.on, ())
    for field, _ in rule.ListFields():
        if field.name in _OF_METRICS and field.name not in wanted:
            yield field.name, f"has no meaning for {rule.on}: remove it"
    if rule.on not in METRIC_EVENTS:
        return
    if not rule.metric or _CONTROL.search(rule.metric) or len(rule.metric) > MAX_TEXT:
        yield "metric", "is missing or not the name of a series, such as losses/value_loss"
    if rule.on == THRESHOLD:
        if rule.HasField("above") == rule.HasField("below"):
            yield "above", "give either above or below"
        for name in _OF_THRESHOLD:
            if rule.HasField(name) and not math.isfinite(getattr(rule, name)):
                yield name, "is not a finite number"
        return
    if rule.goal and rule.goal not in GOALS:
        yield "goal", not_accepted(rule.goal, GOALS)
    if rule.on == QUIET and not (math.isfinite(rule.minutes) and rule.minutes > 0):
        yield "minutes", "is missing: after how many minutes without a point"
    if rule.on == COLLAPSE:
        yield from _collapse_problems(rule)
    if rule.on == PLATEAU:
        yield from _plateau_problems(rule)


def _collapse_problems(rule: NoticeRule) -> Iterator[tuple[str, str]]:
    if not (math.isfinite(rule.drop) and rule.drop > 0):
        yield "drop", "is missing: by how much the metric is worse than at its best"
    if rule.points > MAX_POINTS:
        yield "points", f"{rule.points:,} points, more than the {MAX_POINTS:,} accepted"


def _plateau_problems(rule: NoticeRule) -> Iterator[tuple[str, str]]:
    if not rule.steps:
        yield "steps", "is missing: after how many steps without a better value it is a plateau"
    if not math.isfinite(rule.min_delta) or rule.min_delta < 0:
        yield "min_delta", "is not a finite number of at least 0"


def _label_problems(rule: NoticeRule) -> Iterator[tuple[str, str]]:
    if len(rule.labels) > MAX_LABELS:
        yield "labels", f"{len(rule.labels)} labels, more than the {MAX_LABELS} accepted"
    for key, value in rule.labels.items():
        if not _LABEL_NAME.match(key):
            what = f"{key!r}: a label's name has letters, digits, _ . / and -, at most 63 of them"
            yield "labels", what
        elif _CONTROL.search(value) or len(value) > MAX_TEXT:
            yield f"labels.{key}", f"at most {MAX_TEXT} characters and no control characters"
