"""Metadata of a checkpoint."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from runspine.checkpoints.adapters import Adapter


@dataclass(frozen=True, slots=True)
class CheckpointAbout:
    """Metadata from the file and its surroundings; unknown fields are empty."""

    # builtin, corl, sb3 or cleanrl: the runner whose layout it has.
    runner: str
    algo: str
    adapter: Adapter
    env: str = ""
    env_kwargs: dict[str, Any] = field(default_factory=dict)
    seed: int | None = None
    step: int = 0
    # Sizes of the network's input and of its last layer's output.
    inputs: int = 0
    outputs: int = 0
    return_mean: float | None = None
    # Parameters of the policy besides its weights: activation, share of random actions, …
    details: dict[str, Any] = field(default_factory=dict)

    def meta(self) -> dict[str, Any]:
        """Metadata for the registry."""
        found: dict[str, Any] = {"inputs": self.inputs, "outputs": self.outputs}
        if self.env_kwargs:
            found["env_kwargs"] = self.env_kwargs
        if self.return_mean is not None:
            found["return_mean"] = self.return_mean
        return found
