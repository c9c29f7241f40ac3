"""Which envs Gymnasium knows in a runner's Python: asked once, then kept until its packages change."""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import time
from pathlib import Path

import structlog

from services.worker.environment import PASSED_ON

log = structlog.get_logger()

LISTING = "services.worker.algorithms.env_listing"
# A worker that stops waits for the answer.
LIST_SECONDS = 20.0
# An env that is being written registers others from day to day without any package changing.
KEPT_SECONDS = 24 * 3600.0
# Beyond this a list helps nobody, and it is on the log with every start.
MOST_IDS = 4_000


def kept_ids(python: str) -> list[str] | None:
    """What was found before, if it still holds. Cheap."""
    path = _place(python)
    try:
        if path is None or time.time() - path.stat().st_mtime > KEPT_SECONDS:
            return None
        found = json.loads(path.read_text())
    except (OSError, ValueError):
        return None
    return [str(each) for each in found] if isinstance(found, list) else None


def find_ids(python: str) -> list[str]:
    """Ask, and keep the answer; nothing when there is none. Takes as long as importing Gymnasium. Blocks."""
    passed = {name: os.environ[name] for name in (*PASSED_ON, "PYTHONPATH") if name in os.environ}
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
        # It is asked again at each launch, with a reason for whoever wants that env.
        log.info("envs.not_listed", python=python, error=str(error))
        return []
    if len(ids) > MOST_IDS:
        return []
    _keep(python, ids)
    return ids


def _keep(python: str, ids: list[str]) -> None:
    path = _place(python)
    if path is None:
        return
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        draft = path.with_suffix(f".{os.getpid()}")
        draft.write_text(json.dumps(ids))
        draft.rename(path)
    except OSError as error:
        log.info("envs.not_kept", path=str(path), error=str(error))


def _place(python: str) -> Path | None:
    """A file of the user's cache, named after the packages as they are now; None when they are not found."""
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
