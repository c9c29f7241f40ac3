"""Builds networks from the tensors of a checkpoint, with the tensors' sizes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor, nn

from runspine.checkpoints.adapters import Adapter, layers_of

ACTIVATIONS: dict[str, type[nn.Module]] = {"tanh": nn.Tanh, "relu": nn.ReLU}


class LayerChain(nn.Module):
    """Layers with activations between them, and a second output layer for the spread where there is one."""

    def __init__(self, adapter: Adapter, weights: Mapping[str, Any]) -> None:
        super().__init__()
        names = [layer for entry in adapter.layers for layer in layers_of(entry, weights)]
        hidden: list[nn.Module] = []
        for name in names[:-1]:
            hidden += [linear(weights, name), ACTIVATIONS[adapter.activation]()]
        self.hidden = nn.Sequential(*hidden)
        self.last = linear(weights, names[-1])
        has_spread = f"{adapter.spread}.weight" in weights
        self.spread = linear(weights, adapter.spread) if has_spread else None

    def forward(self, obs: Tensor) -> tuple[Tensor, Tensor | None]:
        inner = self.hidden(obs)
        return self.last(inner), self.spread(inner) if self.spread is not None else None


def linear(weights: Mapping[str, Any], name: str) -> nn.Linear:
    weight, bias = weights[f"{name}.weight"], weights.get(f"{name}.bias")
    made = nn.Linear(weight.shape[1], weight.shape[0], bias=bias is not None)
    with torch.no_grad():
        made.weight.copy_(weight)
        if bias is not None:
            made.bias.copy_(bias)
    return made
