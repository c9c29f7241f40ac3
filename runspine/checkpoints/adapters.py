"""Adapters: how a policy is built from the weights of each algorithm. Pure data.

A policy is a chain of layers, found by their names in the file, and a head that turns their output into an
action. Sizes are those of the tensors.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Literal

Head = Literal["categorical", "gaussian", "values", "atoms", "squashed", "tanh", "table"]
Bounds = Literal["", "stored", "space"]
Observations = Literal["flat", "moments", "running", "index"]


@dataclass(frozen=True, slots=True)
class Adapter:
    """How a policy is built from a checkpoint's weights."""

    runner: str
    algo: str
    # Path of the weights in the saved object: keys and indices, outermost first.
    path: tuple[str | int, ...]
    # Names of the layers in order; `actor` stands for actor.0, actor.2, … as nn.Sequential numbers them.
    layers: tuple[str, ...]
    activation: Literal["tanh", "relu", ""]
    # categorical, gaussian: parameters of a distribution. values, atoms: the best action is the one worth
    # most. squashed: a Gaussian through tanh. tanh: the action itself. table: a row for each state.
    head: Head
    # Where the logarithm of the deviation is: a parameter, or a layer parallel to the last one.
    spread: str = ""
    # Range of the spread: clamped, or scaled by tanh.
    spread_range: tuple[float, float] | None = None
    spread_by_tanh: bool = False
    # Bounds of a squashed action: buffers stored with the weights, or the env's.
    bounds: Bounds = ""
    scale: tuple[str, str] = ("", "")
    # flat: rows of numbers. moments: scaled by statistics in the file. running: by statistics gathered
    # while acting, as CleanRL does where its files hold none. index: the number of a state.
    observations: Observations = "flat"
    # Further names that must exist.
    needs: tuple[str, ...] = ()

    @property
    def name(self) -> str:
        return f"{self.runner}/{self.algo}"

    def fits(self, names: Collection[str]) -> bool:
        """Whether a policy can be built from weights with these names."""
        return all(layers_of(name, names) for name in self.layers) and all(
            name in names or f"{name}.weight" in names
            for name in (self.spread, *self.scale, *self.needs)
            if name
        )


def layers_of(name: str, names: Collection[str]) -> list[str]:
    """The layers that one entry stands for: itself, or those numbered below it."""
    if f"{name}.weight" in names:
        return [name]
    prefix = f"{name}." if name else ""
    numbers = {
        int(parts[0])
        for each in names
        if each.startswith(prefix)
        and len(parts := each.removeprefix(prefix).split(".")) == 2
        and parts[0].isdecimal()
        and parts[1] == "weight"
    }
    return [f"{prefix}{number}" for number in sorted(numbers)]


_EXTRACTOR = "mlp_extractor.policy_net"
_FC = ("fc1", "fc2")

BUILTIN = {
    "ppo": (
        Adapter(
            *("builtin", "ppo", ("parts", "agent"), ("actor",), "tanh", "gaussian", "log_std"),
            observations="moments",
        ),
        Adapter(
            "builtin", "ppo", ("parts", "agent"), ("actor",), "tanh", "categorical", observations="moments"
        ),
    ),
    "dqn": (Adapter("builtin", "dqn", ("parts", "q"), ("",), "relu", "values"),),
    "sac": (
        Adapter(
            *("builtin", "sac", ("parts", "actor"), ("net",), "relu", "squashed"),
            spread_range=(-5.0, 2.0),
            spread_by_tanh=True,
            bounds="stored",
            scale=("scale", "offset"),
        ),
    ),
    "qlearning": (
        Adapter(
            "builtin", "qlearning", ("parts", "table"), (), "", "table", observations="index", needs=("q",)
        ),
    ),
}
_OFFLINE = ("parts", "actor")
# The offline algorithms save as the builtin ones do; observations are scaled by the dataset's moments.
OFFLINE = {
    "bc": (
        Adapter(
            *("corl", "bc", _OFFLINE, ("net",), "relu", "tanh"),
            bounds="stored",
            scale=("scale", "offset"),
            observations="moments",
        ),
        Adapter("corl", "bc", _OFFLINE, ("net",), "relu", "categorical", observations="moments"),
    ),
    **{
        algo: (
            Adapter(
                *("corl", algo, _OFFLINE, ("net",), "relu", "tanh"),
                bounds="stored",
                scale=("scale", "offset"),
                observations="moments",
            ),
        )
        for algo in ("td3_bc", "iql")
    },
}
SB3 = {
    **{
        algo: (
            Adapter("sb3", algo, (), (_EXTRACTOR, "action_net"), "tanh", "gaussian", "log_std"),
            Adapter("sb3", algo, (), (_EXTRACTOR, "action_net"), "tanh", "categorical"),
        )
        for algo in ("ppo", "a2c")
    },
    "dqn": (Adapter("sb3", "dqn", (), ("q_net.q_net",), "relu", "values"),),
    "sac": (
        Adapter(
            *("sb3", "sac", (), ("actor.latent_pi", "actor.mu"), "relu", "squashed", "actor.log_std"),
            spread_range=(-20.0, 2.0),
            bounds="space",
        ),
    ),
    **{
        algo: (Adapter("sb3", algo, (), ("actor.mu",), "relu", "tanh", bounds="space"),)
        for algo in ("td3", "ddpg")
    },
}
# In the order in which they are tried, the most specific first.
CLEANRL = (
    Adapter(
        *("cleanrl", "ppo_continuous_action", (), ("actor_mean",), "tanh", "gaussian", "actor_logstd"),
        observations="running",
    ),
    Adapter("cleanrl", "ppo", (), ("actor",), "tanh", "categorical"),
    Adapter(
        *("cleanrl", "sac_continuous_action", (), (*_FC, "fc_mean"), "relu", "squashed", "fc_logstd"),
        spread_range=(-5.0, 2.0),
        spread_by_tanh=True,
        bounds="stored",
        scale=("action_scale", "action_bias"),
    ),
    Adapter(
        *("cleanrl", "td3_continuous_action", (), (*_FC, "fc_mu"), "relu", "tanh"),
        bounds="stored",
        scale=("action_scale", "action_bias"),
    ),
    Adapter("cleanrl", "c51", (), ("network",), "relu", "atoms", needs=("atoms",)),
    Adapter("cleanrl", "dqn", (), ("network",), "relu", "values"),
)
