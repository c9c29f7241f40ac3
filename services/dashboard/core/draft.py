"""A run that somebody is filling in: which fields are shown, and the run file that they add up to. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.plain import plain_value
from runspine.wire.v1.runner_pb2 import Param, RunnerInfo

# Fields of the spec that every runner understands, with what the form says about them.
COMMON = {
    "seed": "Two runs of the same seed are the same run.",
    "total_steps": "Environment steps; empty: the algorithm's default.",
    "project": "Groups runs; retention rules can be set for it.",
    "pool": "Workers that may take it; empty: default.",
    "priority": "0 (last) to 100 (first); empty: 50.",
    "gpus": "GPUs the run needs; empty: none.",
    "notes": "Free text for people.",
}
LIMITS = {
    "wall_seconds": "Longest time of an attempt, in seconds.",
    "memory_mib": "Most memory of all its processes, in MiB.",
    "cpus": "Cores it may keep busy.",
    "disk_mib": "Most bytes in the run's directory, in MiB.",
}


@dataclass(slots=True)
class Draft:
    """What was typed so far; empty text means `not given`."""

    runner: str = ""
    algo: str = ""
    env: str = ""
    common: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    # Fields of a pasted run file that the form has no control for; kept as they are.
    rest: dict[str, Any] = field(default_factory=dict)


def params_of(info: RunnerInfo, algo: str) -> list[Param]:
    """The runner's common parameters and those of one algorithm."""
    own = next((each.params for each in info.algos if each.name == algo), ())
    return [*info.params, *own]


def default_of(param: Param) -> Any:
    return plain_value(param.default) if param.HasField("default") else None


def as_plain(draft: Draft, params: Sequence[Param]) -> dict[str, Any]:
    """The draft as a run file: only what differs from the defaults is said."""
    plain: dict[str, Any] = {"runner": draft.runner}
    for name in ("algo", "env"):
        if getattr(draft, name):
            plain[name] = getattr(draft, name)
    if draft.command:
        plain["command"] = draft.command
    plain |= {name: value for name, value in draft.common.items() if _given(value)}
    defaults = {param.name: default_of(param) for param in params}
    chosen = {
        name: value
        for name, value in draft.params.items()
        if _given(value) and (name not in defaults or value != defaults[name])
    }
    if chosen:
        plain["params"] = chosen
    for name in ("limits", "labels"):
        said = {key: value for key, value in getattr(draft, name).items() if _given(value)}
        if said:
            plain[name] = said
    return plain | draft.rest


def from_plain(plain: Mapping[str, Any]) -> Draft:
    """A draft from a run file or an older run."""
    known = {"runner", "algo", "env", "command", "params", "limits", "labels", *COMMON}
    return Draft(
        runner=str(plain.get("runner", "")),
        algo=str(plain.get("algo", "")),
        env=str(plain.get("env", "")),
        common={name: plain[name] for name in COMMON if name in plain},
        params=dict(plain.get("params", {})),
        limits=dict(plain.get("limits", {})),
        labels=dict(plain.get("labels", {})),
        command=list(plain.get("command", [])),
        rest={name: value for name, value in plain.items() if name not in known},
    )


def _given(value: Any) -> bool:
    return value is not None and value != ""
