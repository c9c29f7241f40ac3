"""Draft of a run: the fields of the form, and its conversion to and from a run file. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.spec.plain import plain_value
from runspine.wire.v1.runner_pb2 import Param, RunnerInfo

# Fields of the spec that every runner understands, with their help texts.
COMMON_FIELDS = {
    "seed": "Runs with equal spec and seed are reproducible.",
    "total_steps": "Environment steps; default: that of the algorithm.",
    "project": "Groups runs; retention rules can be set per project.",
    "pool": 'Workers that may run it; default: the pool "default".',
    "priority": "0 (last) to 100 (first); default: 50.",
    "gpus": "Number of GPUs; default: none.",
    "notes": "Free text.",
}
LIMIT_FIELDS = {
    "wall_seconds": "Maximum duration of an attempt, in seconds.",
    "stall_seconds": "Longest time without output, telemetry and CPU time, in seconds.",
    "memory_mib": "Maximum memory of all its processes, in MiB.",
    "cpus": "Maximum number of cores.",
    "disk_mib": "Maximum size of the run's directory, in MiB.",
}


@dataclass(slots=True)
class RunDraft:
    """The values entered so far; empty text means `not given`."""

    runner: str = ""
    algo: str = ""
    env: str = ""
    common: dict[str, Any] = field(default_factory=dict)
    params: dict[str, Any] = field(default_factory=dict)
    limits: dict[str, Any] = field(default_factory=dict)
    labels: dict[str, str] = field(default_factory=dict)
    command: list[str] = field(default_factory=list)
    # Fields of a pasted run file without a control in the form; kept unchanged.
    rest: dict[str, Any] = field(default_factory=dict)


def params_of(info: RunnerInfo, algo: str) -> list[Param]:
    """The runner's common parameters and those of one algorithm."""
    own = next((each.params for each in info.algos if each.name == algo), ())
    return [*info.params, *own]


def default_of(param: Param) -> Any:
    return plain_value(param.default) if param.HasField("default") else None


def as_plain(draft: RunDraft, params: Sequence[Param]) -> dict[str, Any]:
    """The draft as a run file, without values that equal the defaults."""
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
        given = {key: value for key, value in getattr(draft, name).items() if _given(value)}
        if given:
            plain[name] = given
    return plain | draft.rest


def from_plain(plain: Mapping[str, Any]) -> RunDraft:
    """A draft from a run file or an earlier run."""
    known = {"runner", "algo", "env", "command", "params", "limits", "labels", *COMMON_FIELDS}
    return RunDraft(
        runner=str(plain.get("runner", "")),
        algo=str(plain.get("algo", "")),
        env=str(plain.get("env", "")),
        common={name: plain[name] for name in COMMON_FIELDS if name in plain},
        params=dict(plain.get("params", {})),
        limits=dict(plain.get("limits", {})),
        labels=dict(plain.get("labels", {})),
        command=list(plain.get("command", [])),
        rest={name: value for name, value in plain.items() if name not in known},
    )


def _given(value: Any) -> bool:
    return value is not None and value != ""
