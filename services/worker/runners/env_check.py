"""Preflight of a Gymnasium env before a launch, in the Python that will run the trainer."""

from __future__ import annotations

import importlib.util
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from runspine.runners import NotReadyError
from runspine.services.worker.runners.interpreter import PREFIX
from runspine.services.worker.runners.probes import (
    PROBE_SECONDS,
    ProbeFailedError,
    ProbeTimeoutError,
    run_probe,
)
from runspine.spec.nearest import not_accepted
from runspine.spec.plain import plain_value
from runspine.wire.v1.spec_pb2 import RunSpec

PROBE = "runspine.trainers.builtin.probe"
ATARI = "ALE/"


@dataclass(frozen=True, slots=True)
class Space:
    """A Gymnasium space: the name of its class and its text."""

    kind: str
    text: str
    bounded: bool


@dataclass(frozen=True, slots=True)
class EnvSpaces:
    """The spaces of an env, and the versions of what made it."""

    observations: Space
    actions: Space
    # Of the packages in the Python that will run the trainer.
    versions: dict[str, str] = field(default_factory=dict)


def missing_packages(runner: str, packages: Sequence[str], extra: str) -> str:
    """Why the worker's own Python cannot run a runner; empty when it can. Nothing is imported.

    A Python that the worker's settings name for the runner is checked at launch instead.
    """
    if os.environ.get(PREFIX + runner.upper()) or runner in os.environ.get(PREFIX.rstrip("_"), ""):
        return ""
    missing = [name for name in packages if importlib.util.find_spec(name) is None]
    return f"{', '.join(missing)} is not installed: pip install '{extra}'" if missing else ""


def env_kwargs(spec: RunSpec) -> dict[str, Any]:
    """The spec's env_kwargs as plain values."""
    return {name: plain_value(value) for name, value in spec.env_kwargs.items()}


def check_env(python: str, spec: RunSpec, packages: Sequence[str], extra: str) -> EnvSpaces:
    """The env's spaces.

    Raises NotReadyError with the nearest id, the missing package, or the env's error.
    """
    if not spec.env:
        raise NotReadyError("env is missing: name one that Gymnasium knows, such as CartPole-v1")
    command = [python, "-m", PROBE, spec.env, json.dumps(env_kwargs(spec)), *packages]
    found = _probe(command, spec.variables, extra)
    if found.get("missing"):
        raise NotReadyError(
            f"{', '.join(found['missing'])} is not installed for {python}: pip install '{extra}'", "runner"
        )
    if "unknown" in found:
        raise NotReadyError(f"env {unknown_env(spec.env, found)}")
    if "unmade" in found:
        raise NotReadyError(f"env {spec.env} cannot be made: {found['unmade']}")
    return EnvSpaces(
        Space(**found["observations"]), Space(**found["actions"]), dict(found.get("versions") or {})
    )


def unknown_env(env: str, found: Mapping[str, Any]) -> str:
    """Why an env is not known, and the remedy."""
    known = found["known"]
    if env in known or ":" in env:  # known, but not available: its error states why
        return f"{env!r}: {found['unknown']}"
    if env.startswith(ATARI):
        return f"{env!r} is registered by the package ale-py: write ale_py:{env}, with ale-py installed there"
    near = not_accepted(env, known).partition(". ")[2]
    return f"{env!r} is not one that Gymnasium knows here. {near or found['unknown']}"


def _probe(command: list[str], variables: Mapping[str, str], extra: str) -> dict[str, Any]:
    python = command[0]
    try:
        return run_probe(command, variables)
    except ProbeTimeoutError as error:
        raise NotReadyError(f"env {command[3]} was not made within {PROBE_SECONDS:.0f} s") from error
    except ProbeFailedError as error:
        raise NotReadyError(
            f"{python} cannot check the env ({error}): pip install '{extra}' there", "runner"
        ) from error
