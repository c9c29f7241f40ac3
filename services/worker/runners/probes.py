"""Runs a probe in the Python that will run the trainer, and keeps its report for launch checks."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from typing import Any

from runspine.runners import NotReadyError
from runspine.services.worker.process.environment import PASSED_VARIABLES

PROBE_SECONDS = 60.0
# How long the report of an env that could be made answers further launch checks.
KEPT_SECONDS = 30.0
MAX_KEPT = 128
# Reports of these are not kept: somebody is about to fix what they name.
_FAILURES = ("missing", "unknown", "unmade")

_reusing: ContextVar[bool] = ContextVar("reusing", default=False)
_reports: dict[tuple[str, ...], tuple[float, dict[str, Any]]] = {}
_lock = threading.Lock()


class ProbeTimeoutError(Exception):
    """The probe did not end in time."""


class ProbeFailedError(Exception):
    """The probe printed no report; the message is its last line."""


@contextlib.contextmanager
def reused_reports() -> Iterator[None]:
    """In this thread, a probe whose report is fresh is not run again: for launch checks, not for launches."""
    token = _reusing.set(True)
    try:
        yield
    finally:
        _reusing.reset(token)


def run_probe(command: list[str], variables: Mapping[str, str]) -> dict[str, Any]:
    """The report of a probe. Raises ProbeTimeoutError, ProbeFailedError, and NotReadyError when its Python
    cannot be started.

    It gets the same few variables as a trainer, because the env's code runs in it.
    """
    passed = {name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}
    environment = {**passed, **variables}
    key = (*command, "", *(f"{name}={environment[name]}" for name in sorted(environment)))
    if _reusing.get() and (kept := _kept(key)) is not None:
        return kept
    found = _run(command, environment)
    if _reusing.get() and not any(found.get(name) for name in _FAILURES):
        _keep(key, found)
    return found


def _run(command: list[str], environment: dict[str, str]) -> dict[str, Any]:
    try:
        done = subprocess.run(
            command, env=environment, capture_output=True, timeout=PROBE_SECONDS, text=True, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise ProbeTimeoutError from error
    except OSError as error:
        raise NotReadyError(f"{command[0]} cannot be started: {error}", "runner") from error
    try:
        found = json.loads(done.stdout)
    except ValueError as error:
        lines = done.stderr.strip().splitlines() or [f"exit code {done.returncode}"]
        raise ProbeFailedError(lines[-1]) from error
    return found if isinstance(found, dict) else {}


def _kept(key: tuple[str, ...]) -> dict[str, Any] | None:
    with _lock:
        until, found = _reports.get(key, (0.0, {}))
        return found if until > time.monotonic() else None


def _keep(key: tuple[str, ...], found: dict[str, Any]) -> None:
    now = time.monotonic()
    with _lock:
        for old in [each for each, (until, _) in _reports.items() if until <= now]:
            del _reports[old]
        if len(_reports) < MAX_KEPT:
            _reports[key] = (now + KEPT_SECONDS, found)
