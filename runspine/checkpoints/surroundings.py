"""Env, algorithm and seed of a checkpoint from the names of its folders and from argument files next to
it."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, NamedTuple

# CleanRL's folders: runs/<env>__<experiment>__<seed>__<unix time>/<experiment>.cleanrl_model
_RUN = re.compile(r"(?P<env>.+?)__(?P<algo>[A-Za-z0-9_]+?)__(?P<seed>\d{1,19})__(?P<time>\d{6,})\Z")
# RL Zoo's: logs/<algo>/<env>_<n>/<env>.zip or best_model.zip
_ZOO = re.compile(r"(?P<env>[\w.-]+-v\d+)(?:_\d+)?\Z")
_ALGOS = ("ppo", "a2c", "dqn", "sac", "td3", "ddpg")
# Files with the arguments of a training.
_ARGUMENTS = ("args.json", "config.json", "runspine.json", "summary.json")
MAX_ARGUMENT_BYTES = 1 << 20
MAX_PARENTS = 3


class Surroundings(NamedTuple):
    """What folders and argument files state about a checkpoint."""

    env: str = ""
    algo: str = ""
    seed: int | None = None
    # Name of the file or folder that names the env.
    where: str = ""


def read_surroundings(path: Path) -> Surroundings:
    """The nearest source of each value: an argument file, the file's name, then at most three parent
    folders."""
    found = [_by_arguments(path.parent), *(_by_name(name) for name in _names(path))]
    env = next((each for each in found if each.env), Surroundings())
    algo = next((each.algo for each in found if each.algo), "")
    seed = next((each.seed for each in found if each.seed is not None), None)
    return Surroundings(env.env, algo, seed, env.where)


def _names(path: Path) -> list[str]:
    folders = [folder.name for folder in list(path.resolve().parents)[:MAX_PARENTS]]
    return [path.stem, *folders]


def _by_name(name: str) -> Surroundings:
    if match := _RUN.match(name):
        # CleanRL keeps a slash in an env's id as a folder separator.
        return Surroundings(match["env"], match["algo"], int(match["seed"]), name)
    if match := _ZOO.match(name):
        return Surroundings(match["env"], "", None, name)
    return Surroundings("", name, None, name) if name in _ALGOS else Surroundings()


def _by_arguments(folder: Path) -> Surroundings:
    for name in _ARGUMENTS:
        found = _object(folder / name)
        env = found.get("env_id") or found.get("env")
        if isinstance(env, str) and 0 < len(env) <= 200:
            seed, algo = found.get("seed"), found.get("algo")
            whole = seed if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 else None
            return Surroundings(env, algo if isinstance(algo, str) else "", whole, name)
    return Surroundings()


def _object(path: Path) -> dict[str, Any]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > MAX_ARGUMENT_BYTES:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
