"""Inspects an env with the Python that will train in it.

`python -m runspine.trainers.builtin.probe ENV_ID KWARGS_AS_JSON package …` prints one JSON object: the
kinds of its observations and actions, or why it cannot be made. It imports no torch.
"""

from __future__ import annotations

import contextlib
import importlib.metadata
import importlib.util
import json
import sys
from typing import Any

import runspine


def probe(env_id: str, kwargs: dict[str, Any], packages: list[str]) -> dict[str, Any]:
    missing = [name for name in ("gymnasium", *packages) if importlib.util.find_spec(name) is None]
    if missing:
        return {"missing": missing}
    import gymnasium as gym

    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        return {"unknown": _text(error), "known": list(gym.registry)}
    try:
        env = gym.make(env_id, **kwargs)
    # An env may raise anything: that is the reason why it cannot be made.
    except Exception as error:  # noqa: BLE001
        return {"unmade": f"{type(error).__name__}: {_text(error)}"}
    try:
        return {
            "observations": _kind(env.observation_space),
            "actions": _kind(env.action_space),
            "versions": versions(["gymnasium", *packages]),
        }
    finally:
        env.close()


def versions(packages: list[str]) -> dict[str, str]:
    """Versions of Runspine and of these packages; without those that have none."""
    found = {"runspine": runspine.__version__}
    for name in packages:
        with contextlib.suppress(importlib.metadata.PackageNotFoundError):
            found[name] = importlib.metadata.version(name)
    return found


def _kind(space: Any) -> dict[str, Any]:
    bounded = bool(space.is_bounded()) if hasattr(space, "is_bounded") else True
    return {"kind": type(space).__name__, "text": str(space), "bounded": bounded}


def _text(error: Exception) -> str:
    return " ".join(str(error).split())


if __name__ == "__main__":
    # What an env prints while it is made goes to stderr: stdout is for the result.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(probe(sys.argv[1], json.loads(sys.argv[2]), sys.argv[3:]), answer)
