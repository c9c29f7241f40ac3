"""Groups of runs that differ only in their seed. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.compare.references import stage_of
from runspine.errors import InvalidError
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import json_text, plain_value
from runspine.wire.v1.run_pb2 import Run

# Fields that come first in a label.
FIRST = ("stage", "algo", "env", "runner")


@dataclass(frozen=True, slots=True)
class Member:
    """A run with the fields it is grouped by; the seed is not one of them."""

    run_id: str
    name: str
    env: str
    fields: Mapping[str, Any] = field(default_factory=dict)
    # Fields that only --by groups by: project, seed, name, label.<key>.
    extra: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Group:
    label: str
    members: tuple[Member, ...]

    @property
    def stage(self) -> str:
        """Offline, fine-tuned or online, when all its runs are; else empty."""
        stages = {str(member.fields.get("stage", "")) for member in self.members}
        return stages.pop() if len(stages) == 1 else ""


def group_runs(members: Sequence[Member], by: Sequence[str] = ()) -> list[Group]:
    """Group the runs; groups are in order of their first run."""
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
            raise InvalidError(f"--by {not_accepted(name, known, limit=40)}")


def _labels(keys: Sequence[Mapping[str, Any]], by: Sequence[str]) -> list[str]:
    """Labels with as few fields as distinguish the groups; env and algo for a single group."""
    if len(keys) == 1 and not by:
        only = keys[0]
        words = [str(only[name]) for name in ("env", "algo", "stage") if only.get(name)]
        return [" ".join(words) or "all runs"]
    names = list(dict.fromkeys([*by] or [*FIRST, *sorted({name for key in keys for name in key})]))
    differing = [name for name in names if len({json_text(key.get(name)) for key in keys}) > 1]
    chosen: list[str] = []
    distinct = 1
    for name in differing:
        now = len({json_text([key.get(n) for n in (*chosen, name)]) for key in keys})
        if now > distinct:
            chosen.append(name)
            distinct = now
        if distinct == len(keys):
            break
    chosen = chosen or list(by)
    return [", ".join(_label_part(name, key.get(name)) for name in chosen) for key in keys]


def _label_part(name: str, value: Any) -> str:
    if name == "stage":
        return str(value or "from scratch")
    if name in ("algo", "env", "runner", "project", "name"):
        return str(value or f"no {name}")
    short = name.removeprefix("params.")
    return f"{short}={'–' if value is None else value}"


def member_of(run: Run) -> Member:
    spec = run.spec
    return Member(
        run_id=run.id,
        name=run.name,
        env=spec.env,
        fields={
            **({"stage": stage} if (stage := stage_of(spec)) else {}),
            "env": spec.env,
            "algo": spec.algo,
            "runner": spec.runner,
            **({"command": " ".join(spec.command)} if spec.command else {}),
            **{f"env_kwargs.{key}": plain_value(value) for key, value in spec.env_kwargs.items()},
            **{f"params.{key}": plain_value(value) for key, value in spec.params.items() if key != "seed"},
        },
        extra={
            "project": spec.project,
            "name": run.name,
            "seed": spec.seed if spec.HasField("seed") else 1,
            "total_steps": spec.total_steps,
            **{f"label.{key}": value for key, value in run.labels.items()},
        },
    )
