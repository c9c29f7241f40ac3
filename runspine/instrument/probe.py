"""Inspects a runner's Python before a launch: `python probe.py '{"packages": […], "env": …}'`.

Prints one JSON object. Run by its path in a virtualenv that need not have Runspine; needs the standard
library only, and Gymnasium when an env is given.
"""

from __future__ import annotations

import difflib
import importlib
import importlib.metadata
import importlib.util
import json
import sys
from collections.abc import Iterable
from typing import Any

PLUGINS = ("ale_py", "minigrid")
VERSIONS = ("gymnasium", "numpy", "torch", "mujoco")
# Similar names to report.
MAX_NEAR = 5


def probe(asked: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = {"python": list(sys.version_info[:3]), "versions": {}, "missing": []}
    for name in VERSIONS:
        try:
            found["versions"][name] = importlib.metadata.version(name)
        except importlib.metadata.PackageNotFoundError:
            continue
    found["missing"] = absent(asked.get("packages", ()))
    found["absent"] = absent(asked.get("optional", ()))
    if asked.get("env") and not found["missing"]:
        found.update(inspect_env(asked["env"], asked.get("kwargs") or {}))
    return found


def absent(names: Iterable[str]) -> list[str]:
    return [name for name in names if importlib.util.find_spec(name) is None]


def inspect_env(env_id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    import gymnasium as gym

    module, _, name = env_id.rpartition(":")
    try:
        if module:
            importlib.import_module(module)
        elif name not in gym.registry:
            register_plugins()
        gym.spec(name)
    except (gym.error.Error, ImportError) as error:
        return {"unknown": text(error), "near": near(name, gym.registry)}
    try:
        env = gym.make(env_id, **kwargs)
    # An env may raise anything: that is the reason why it cannot be made.
    except Exception as error:  # noqa: BLE001
        return {"unmade": f"{type(error).__name__}: {text(error)}", "near": near(name, gym.registry)}
    try:
        return {"actions": type(env.action_space).__name__, "actions_text": text(env.action_space)}
    finally:
        env.close()


def register_plugins() -> None:
    for name in PLUGINS:
        try:
            importlib.import_module(name)
        except ImportError:
            continue


def near(name: str, registry: Iterable[str]) -> list[str]:
    """Other versions of the same env first, then similar names."""
    family = name.rpartition("-v")[0]
    versions = [
        known for known in registry if family and known.rpartition("-v")[0] == family and known != name
    ]
    alike = difflib.get_close_matches(name, list(registry), n=MAX_NEAR, cutoff=0.6)
    return list(dict.fromkeys([*reversed(versions), *alike]))[:MAX_NEAR]


def text(value: object) -> str:
    return " ".join(str(value).split())


if __name__ == "__main__":
    # Python has put this folder first in the path: its files must not shadow modules.
    sys.path.pop(0)
    # What an env prints while it is made goes to stderr: stdout is for the result.
    answer, sys.stdout = sys.stdout, sys.stderr
    json.dump(probe(json.loads(sys.argv[1])), answer)
