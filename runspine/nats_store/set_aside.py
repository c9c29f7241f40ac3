"""Moves a damaged store away, once the other servers are whole."""

from __future__ import annotations

import json
import os
import shutil
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from pathlib import Path

from runspine.nats_store.stores import jetstream_of

PREFIX = "damaged-"
ASK_SECONDS = 5.0
PAUSE_SECONDS = 1.0


def wait_for_peers(
    peers: Sequence[str], patience: float, waiting: Callable[[dict[str, str]], None] = lambda answers: None
) -> dict[str, str]:
    """Ask until every peer is healthy; the answers of those that are not, empty when all are.

    `waiting` is called with the answers whenever they change.
    """
    deadline = time.monotonic() + patience
    reported: dict[str, str] = {}
    while True:
        unhealthy = {peer: answer for peer in peers if (answer := _trouble(peer))}
        if not unhealthy or time.monotonic() >= deadline:
            return unhealthy
        if unhealthy != reported:
            waiting(unhealthy)
            reported = unhealthy
        time.sleep(PAUSE_SECONDS)


def _trouble(peer: str) -> str:
    """Why a server is not healthy, by its monitoring port; empty when it is."""
    try:
        with urllib.request.urlopen(f"{peer.rstrip('/')}/healthz", timeout=ASK_SECONDS) as answer:
            found = json.load(answer)
    except urllib.error.HTTPError as error:
        return _health(_json(error.read())) or f"HTTP status {error.code}"
    except (OSError, ValueError) as error:
        return str(getattr(error, "reason", error)) or type(error).__name__
    return _health(found)


def _json(text: bytes) -> object:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _health(answer: object) -> str:
    if not isinstance(answer, dict):
        return "its answer is no health"
    if answer.get("status") == "ok":
        return ""
    return str(answer.get("error") or answer.get("status") or "its answer is no health")


def set_aside(directory: Path, now: float) -> Path:
    """Rename the JetStream folder of a stopped server; where it is now. Older ones are removed."""
    source = jetstream_of(directory)
    stamp = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime(now))
    target = _free(source.parent / f"{PREFIX}{stamp}")
    os.rename(source, target)
    _sync(source.parent)
    for older in source.parent.glob(f"{PREFIX}*"):
        if older != target:
            shutil.rmtree(older, ignore_errors=True)
    return target


def _free(path: Path) -> Path:
    number, found = 1, path
    while found.exists():
        number += 1
        found = path.with_name(f"{path.name}-{number}")
    return found


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
