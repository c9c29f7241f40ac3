"""Makes the env of several agents that a record names."""

from __future__ import annotations

import importlib
from typing import Any

from runspine.sdk.agents.identity import MAKERS
from runspine.wire.v1.telemetry_pb2 import EnvMade


def make_agents_env(env: EnvMade, kwargs: dict[str, Any]) -> Any:
    """The env with the interface of the record. Raises ValueError when the record names something else."""
    from pettingzoo import AECEnv, ParallelEnv

    module, _, name = env.entry_point.partition(":")
    found = getattr(importlib.import_module(module), name, None)
    is_class = isinstance(found, type) and issubclass(found, AECEnv | ParallelEnv)
    # The name in a record may be anything that can be called: these make an env, by convention.
    if found is None or not (is_class or name in MAKERS.values()):
        raise ValueError(f"{env.entry_point} makes no env of PettingZoo: it is not called")
    made = found(**kwargs)
    if not isinstance(made, AECEnv | ParallelEnv):
        raise ValueError(f"{env.entry_point} made no env of PettingZoo")
    return made
