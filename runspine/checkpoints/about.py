"""What a checkpoint says of itself."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runspine.checkpoints.adapters import Adapter


@dataclass(frozen=True, slots=True)
class About:
    """Found in the file and beside it; what nobody says is empty."""

    # builtin, corl, sb3 or cleanrl: the runner whose layout it has.
    runner: str
    algo: str
    adapter: Adapter
    env: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    step: int = 0
    # Numbers that go into the network, and that come out of its last layer.
    inputs: int = 0
    outputs: int = 0
    return_mean: float | None = None
    # What the policy needs beyond its weights: activation, share of random actions, …
    details: dict[str, Any] = field(default_factory=dict)

    def meta(self) -> dict[str, Any]:
        """For the registry."""
        told: dict[str, Any] = {"inputs": self.inputs, "outputs": self.outputs}
        if self.env_kwargs:
            told["env_kwargs"] = self.env_kwargs
        if self.return_mean is not None:
            told["return_mean"] = self.return_mean
        return told
