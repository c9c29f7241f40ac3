"""What lies beside a checkpoint and tells env, algorithm and seed: names of folders, files of arguments."""

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
LARGEST = 1 << 20
UP = 3


class Beside(NamedTuple):
    env: str = ""
    algo: str = ""
    seed: int | None = None
    # Where it was found, for people.
    where: str = ""


def beside(path: Path) -> Beside:
    """The nearest that says something: the file's own name, then its folders, three up at most."""
    told = [_by_arguments(path.parent), *(_by_name(name) for name in _names(path))]
    env = next((each for each in told if each.env), Beside())
    algo = next((each.algo for each in told if each.algo), "")
    seed = next((each.seed for each in told if each.seed is not None), None)
    return Beside(env.env, algo, seed, env.where)


def _names(path: Path) -> list[str]:
    folders = [folder.name for folder in list(path.resolve().parents)[:UP]]
    return [path.stem, *folders]


def _by_name(name: str) -> Beside:
    if match := _RUN.match(name):
        # A slash of an env's id becomes something else in a folder's name; CleanRL keeps it as a folder.
        return Beside(match["env"], match["algo"], int(match["seed"]), name)
    if match := _ZOO.match(name):
        return Beside(match["env"], "", None, name)
    return Beside("", name, None, name) if name in _ALGOS else Beside()


def _by_arguments(folder: Path) -> Beside:
    for name in _ARGUMENTS:
        found = _object(folder / name)
        env = found.get("env_id") or found.get("env")
        if isinstance(env, str) and 0 < len(env) <= 200:
            seed, algo = found.get("seed"), found.get("algo")
            whole = seed if isinstance(seed, int) and not isinstance(seed, bool) and seed >= 0 else None
            return Beside(env, algo if isinstance(algo, str) else "", whole, name)
    return Beside()


def _object(path: Path) -> dict[str, Any]:
    try:
        if path.is_symlink() or not path.is_file() or path.stat().st_size > LARGEST:
            return {}
        found = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
