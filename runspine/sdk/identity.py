"""Identity of an env: how to make it elsewhere, and the packages it was made with."""

from __future__ import annotations

import platform
import sys
from typing import Any, NamedTuple

import numpy as np

from runspine.sdk.tagged_json import is_encodable, tagged

# Modules that change what an env computes, and the packages they come in.
BACKENDS = {"Box2D": "box2d", "mujoco": "mujoco", "ale_py": "ale-py", "minigrid": "minigrid"}


class Identity(NamedTuple):
    """How to make an env, and with which packages it was made."""

    env_id: str
    # The arguments `gymnasium.make` would need.
    kwargs: dict[str, Any]
    # Packages an exact replay depends on.
    versions: dict[str, str]
    # The env's class, for ids that only its own module registers.
    entry_point: str = ""
    # Wrappers between the env and the recorder, innermost first.
    wrappers: list[dict[str, Any]] | None = None
    # Steps of the env for each action of the trainer: wrappers outside the recorder may repeat it.
    frame_skip: int = 1
    # For several agents: "parallel" or "aec", as PettingZoo calls its interfaces.
    agents: str = ""


def identity_of(env: Any, spec: Any = None) -> Identity:
    """Identity of an env, or of its spec where the env itself cannot be accessed."""
    bare = getattr(env, "unwrapped", env)
    entry_point = f"{type(bare).__module__}:{type(bare).__qualname__}"
    if spec is not None:
        given = getattr(spec, "entry_point", None)
        entry_point = given if isinstance(given, str) else ""
    spec = spec or getattr(env, "spec", None)
    if spec is None or not hasattr(spec, "entry_point"):
        # A spec of another kind, such as EnvPool's.
        return Identity(type(bare).__name__, {}, versions_of(bare, {}), entry_point)
    return Identity(str(spec.id), _kwargs(spec, bare), versions_of(bare, {}), entry_point, _wrappers(spec))


def name_of(env: Any) -> str:
    return str(env.spec.id) if env.spec is not None else type(env.unwrapped).__name__


def _kwargs(spec: Any, bare: Any) -> dict[str, Any]:
    kwargs = dict(spec.kwargs)
    registered = sys.modules["gymnasium"].registry.get(spec.id)
    usual = registered.max_episode_steps if registered is not None else None
    if spec.max_episode_steps != usual:
        # -1 makes `make` leave the limit out.
        kwargs["max_episode_steps"] = spec.max_episode_steps or -1
    # A map drawn at construction, from a generator that cannot be seeded.
    desc = getattr(bare, "desc", None)
    if desc is not None and kwargs.get("desc") is None and kwargs.get("map_name", "") is None:
        kwargs["desc"] = [b"".join(row).decode() for row in desc]
    return kwargs


def _wrappers(spec: Any) -> list[dict[str, Any]] | None:
    """Wrappers as Gymnasium lists them; no kwargs where they are hidden or hold a function."""
    found = []
    for wrapper in getattr(spec, "additional_wrappers", ()):
        known = wrapper.kwargs is not None and is_encodable(wrapper.kwargs)
        found.append(
            {"entry_point": wrapper.entry_point, "kwargs": tagged(wrapper.kwargs) if known else None}
        )
    return found or None


def versions_of(bare: Any, more: dict[str, str]) -> dict[str, str]:
    """Versions of the packages of an unwrapped env: its own, and `more` by module."""
    own = type(bare).__module__.partition(".")[0]
    packages = {"gymnasium": "gymnasium", own: own, **more}
    packages |= {module: name for module, name in BACKENDS.items() if module in sys.modules}
    found = {name: _version(module, name) for module, name in packages.items()}
    return {name: version for name, version in found.items() if version} | platform_versions()


def platform_versions() -> dict[str, str]:
    """Versions that every env depends on."""
    return {"numpy": np.__version__, "python": platform.python_version(), "machine": platform.machine()}


def _version(module: str, package: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return str(getattr(sys.modules.get(module), "__version__", ""))
