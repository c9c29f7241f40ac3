"""Which modules a record may have imported: those of env packages, and of no other.

A record is written by a trainer, and a person who looks at it has it replayed in another's process. So the
modules that it names are compared with a list before anything is imported.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from functools import cache
from importlib import metadata
from typing import Any

from runspine.replay.providers import BY_ID, BY_MODULE, module_for
from runspine.wire.v1.telemetry_pb2 import EnvMade

VARIABLE = "RUNSPINE_ENV_MODULES"
# Packages of envs and wrappers that register themselves by an import alone.
KNOWN = frozenset(
    {"gymnasium", "shimmy", "minigrid", "stable_baselines3", "supersuit", "bsuite", "procgen", "miniworld"}
    | {module.partition(".")[0] for module in BY_MODULE}
    | {module for _, module, _ in BY_ID if module}
)
# Packages register their envs under this name; Gymnasium imports them for everybody.
GROUP = "gymnasium.envs"
# They make any env of another library, by a name in their arguments.
ADAPTERS = ("GymV21Environment", "GymV26Environment")
# They write files or open a window, and change nothing that is replayed.
LEFT_OUT = frozenset({"RecordVideo", "HumanRendering"})


def refused_module(env: EnvMade, environment: Mapping[str, str]) -> str:
    """The module, or env, of a record that is not imported, nor made; empty when all may be."""
    if env.env_id.startswith(ADAPTERS) or ":" in env.env_id:
        return env.env_id
    named = [module_for(env.env_id, env.entry_point)]
    named += [str(each.get("entry_point", "")).partition(":")[0] for each in wrappers_of(env)]
    return next((name for name in named if name and not is_allowed(name, environment)), "")


def wrappers_of(env: EnvMade) -> list[dict[str, Any]]:
    """The wrappers of a record that a replay needs."""
    wrappers = json.loads(env.wrappers_json) if env.wrappers_json else []
    return [each for each in wrappers if str(each["entry_point"]).rpartition(":")[2] not in LEFT_OUT]


def is_allowed(module: str, environment: Mapping[str, str]) -> bool:
    """Whether a module belongs to an env package that is known, installed as one, or named by the setting."""
    extended = {name.strip() for name in environment.get(VARIABLE, "").split(",")}
    parts = module.split(".")
    paths = {".".join(parts[: count + 1]) for count in range(len(parts))}
    # `__main__` is refused in words of its own.
    return module == "__main__" or bool(paths & (KNOWN | _installed() | extended))


@cache
def _installed() -> frozenset[str]:
    """Modules of packages that are installed as packages of envs."""
    found = metadata.entry_points(group=GROUP)
    return frozenset(entry.value.partition(":")[0].partition(".")[0] for entry in found)
