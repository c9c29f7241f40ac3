"""Identity of an env with several agents: the function of its module that makes it, and the arguments."""

from __future__ import annotations

import inspect
import sys
from typing import Any

from runspine.sdk.identity import Identity, versions_of

PARALLEL, AEC = "parallel", "aec"
# How modules of PettingZoo name the functions that make an env.
MAKERS = {PARALLEL: "parallel_env", AEC: "env"}


def agents_identity(env: Any, interface: str) -> Identity:
    """Identity of an env of PettingZoo, as it was wrapped."""
    bare = env.unwrapped
    kind = type(bare)
    module = sys.modules.get(kind.__module__)
    maker = MAKERS[interface]
    if type(env) is kind or not callable(getattr(module, maker, None)):
        maker = kind.__qualname__
    named = str((getattr(env, "metadata", None) or {}).get("name") or kind.__name__)
    return Identity(
        named.replace(":", "_"),
        _arguments(bare),
        versions_of(bare, {"pettingzoo": "pettingzoo"}),
        f"{kind.__module__}:{maker}",
        agents=interface,
    )


def _arguments(bare: Any) -> dict[str, Any]:
    """Arguments of the class, as EzPickle keeps them."""
    given = getattr(bare, "_ezpickle_args", ())
    names = list(inspect.signature(type(bare)).parameters) if given else []
    return {**dict(zip(names, given, strict=False)), **getattr(bare, "_ezpickle_kwargs", {})}
