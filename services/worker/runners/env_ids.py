"""Env ids that Gymnasium knows in a runner's Python, cached until its packages change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import structlog

from runspine.services.worker.process.environment import PASSED_VARIABLES

log = structlog.get_logger()

LISTING = "runspine.trainers.builtin.env_listing"
# A worker that stops waits for the listing.
LIST_SECONDS = 20.0
# An env under development registers ids without any package changing.
CACHE_SECONDS = 24 * 3600.0
# A longer list is not useful, and it is on the log with every start.
MAX_IDS = 4_000


def cached_env_ids(python: str) -> list[str] | None:
    """The cached ids, if they are still valid. Cheap."""
    path = _cache_path(python)
    try:
        if path is None or time.time() - path.stat().st_mtime > CACHE_SECONDS:
            return None
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


def list_env_ids(python: str) -> list[str]:
    """List and cache the ids; empty on failure. Takes as long as importing Gymnasium. Blocks."""
    passed = {name: os.environ[name] for name in (*PASSED_VARIABLES, "PYTHONPATH") if name in os.environ}
    try:
        done = subprocess.run(
            [python, "-m", LISTING],
            env=passed,
            capture_output=True,
            timeout=LIST_SECONDS,
            text=True,
            check=True,
        )
        ids = [str(each) for each in json.loads(done.stdout)]
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        # Each launch checks its env again, and reports the reason.
        log.info("envs.not_listed", python=python, error=str(error))
        return []
    if len(ids) > MAX_IDS:
        return []
    _write_cache(python, ids)
    return ids


def _write_cache(python: str, ids: list[str]) -> None:
    path = _cache_path(python)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(ids))
        draft.rename(path)
    except OSError as error:
        log.info("envs.not_kept", path=str(path), error=str(error))


def _cache_path(python: str) -> Path | None:
    """A file in the user's cache, named by the state of the packages; None when they are not found."""
    folders = sorted(Path(python).parents[1].glob("lib/python3*/site-packages"))
    try:
        # Installing, updating or removing a package changes its folder.
        stamps = [(str(folder), folder.stat().st_mtime_ns) for folder in folders]
        cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    except (OSError, RuntimeError):
        return None
    if not stamps:
        return None
    name = hashlib.sha256(json.dumps([python, os.environ.get("PYTHONPATH"), stamps]).encode()).hexdigest()
    return cache / "runspine" / "envs" / f"{name[:32]}.json"
