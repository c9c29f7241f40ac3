"""Which runs belong together: those that differ in nothing but their seed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.errors import Invalid
from runspine.nearest import not_accepted
from runspine.plain import json_text

# What a label says first.
FIRST = ("algo", "env", "runner")


@dataclass(frozen=True, slots=True)
class Member:
    """A run as far as grouping goes: its fields by name, the seed not among them."""

    run_id: str
    name: str
    env: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    # More to group by, when asked: project, seed, name, label.<key>.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    label: str
    members: tuple[Member, ...]


def grouped(members: Sequence[Member], by: Sequence[str] = ()) -> list[Group]:
    """In the order in which their first runs were given."""
    if by:
        _check(members, by)
        keys = [{name: _value(member, name) for name in by} for member in members]
    else:
        keys = [dict(member.fields) for member in members]
    found: dict[str, list[int]] = {}
    for at, key in enumerate(keys):
        found.setdefault(json_text(dict(sorted(key.items()))), []).append(at)
    groups = [[members[at] for at in places] for places in found.values()]
    labels = _labels([keys[places[0]] for places in found.values()], by)
    return [Group(label, tuple(group)) for label, group in zip(labels, groups, strict=True)]


def _value(member: Member, name: str) -> Any:
    return member.fields.get(name, member.extra.get(name))


def _check(members: Sequence[Member], by: Sequence[str]) -> None:
    known = {name for member in members for name in (*member.fields, *member.extra)}
    for name in by:
        if name not in known:
            raise Invalid(f"--by {not_accepted(name, known, limit=40)}")


def _labels(keys: Sequence[Mapping[str, Any]], by: Sequence[str]) -> list[str]:
    """As few fields as tell the groups apart; env and algo when there is but one."""
    if len(keys) == 1 and not by:
        only = keys[0]
        return [" ".join(str(only[name]) for name in ("env", "algo") if only.get(name)) or "all runs"]
    names = list(dict.fromkeys([*by] or [*FIRST, *sorted({name for key in keys for name in key})]))
    differing = [name for name in names if len({json_text(key.get(name)) for key in keys}) > 1]
    chosen: list[str] = []
    told = 1
    for name in differing:
        now = len({json_text([key.get(n) for n in (*chosen, name)]) for key in keys})
        if now > told:
            chosen.append(name)
            told = now
        if told == len(keys):
            break
    chosen = chosen or list(by)
    return [", ".join(_said(name, key.get(name)) for name in chosen) for key in keys]


def _said(name: str, value: Any) -> str:
    if name in ("algo", "env", "runner", "project", "name"):
        return str(value or f"no {name}")
    short = name.removeprefix("params.")
    return f"{short}={'–' if value is None else value}"
