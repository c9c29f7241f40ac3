"""Converts outputs of a network to an action, one function for each kind of head."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from torch import Tensor

from runspine.checkpoints.adapters import Adapter
from runspine.trainers.builtin.packing import Array

# From outputs, and their spread if there is one, to the algorithm's action.
Act = Callable[[Tensor, Tensor | None], Array]


class Dice:
    """Random generators of a policy; unused when it is deterministic."""

    def __init__(self, seed: int, deterministic: bool) -> None:
        self.deterministic = deterministic
        self.torch = torch.Generator().manual_seed(seed)
        self.numpy = np.random.default_rng(seed)

    def normal(self, like: Tensor) -> Tensor:
        return torch.randn(like.shape, generator=self.torch)


def make_head(
    adapter: Adapter, weights: dict[str, Any], space: spaces.Space[Any], dice: Dice, share: float
) -> Act:
    match adapter.head:
        case "categorical":
            return _categorical(space, dice)
        case "gaussian":
            return _gaussian(weights[adapter.spread], dice)
        case "values":
            return _best(lambda values, _: values, dice, share)
        case "atoms":
            atoms = weights["atoms"].float()
            return _best(lambda out, _: _expected(out, atoms), dice, share)
        case "squashed":
            return _squashed(adapter, _bounds(adapter, weights, space), dice)
        case "tanh":
            scale, offset = _bounds(adapter, weights, space)
            return lambda out, _: _numpy(torch.tanh(out) * scale + offset)
    raise AssertionError(adapter.head)


def _categorical(space: spaces.Space[Any], dice: Dice) -> Act:
    if isinstance(space, spaces.MultiBinary):
        return lambda out, _: _coins(out, dice).reshape(space.shape)
    sizes = [int(n) for n in np.ravel(space.nvec)] if isinstance(space, spaces.MultiDiscrete) else None

    def act(out: Tensor, _: Tensor | None) -> Array:
        if sizes is None:
            return np.asarray(_drawn(out, dice))
        return np.asarray([_drawn(part, dice) for part in torch.split(out, sizes, dim=-1)])

    return act


def _drawn(logits: Tensor, dice: Dice) -> int:
    if dice.deterministic:
        return int(logits.argmax(dim=-1).item())
    return int(torch.multinomial(logits.softmax(dim=-1), 1, generator=dice.torch).item())


def _coins(logits: Tensor, dice: Dice) -> Array:
    chance = torch.sigmoid(logits)[0]
    limit = (
        torch.full_like(chance, 0.5) if dice.deterministic else torch.rand(chance.shape, generator=dice.torch)
    )
    return _numpy((chance > limit).to(torch.int8))


def _gaussian(log_std: Tensor, dice: Dice) -> Act:
    spread = log_std.float().exp().reshape(1, -1)

    def act(mean: Tensor, _: Tensor | None) -> Array:
        return _numpy(mean if dice.deterministic else mean + dice.normal(mean) * spread)

    return act


def _best(values_of: Act | Callable[[Tensor, Tensor | None], Tensor], dice: Dice, share: float) -> Act:
    """The action with the highest value; when stochastic, sometimes a random one, as in training."""

    def act(out: Tensor, spread_out: Tensor | None) -> Array:
        values = values_of(out, spread_out)
        if not dice.deterministic and dice.numpy.random() < share:
            return np.asarray(dice.numpy.integers(values.shape[-1]))
        return np.asarray(int(values.argmax(-1).item()))

    return act


def _expected(out: Tensor, atoms: Tensor) -> Tensor:
    """Mean of each action's distribution over the atoms."""
    chances = out.reshape(out.shape[0], -1, len(atoms)).softmax(dim=-1)
    return (chances * atoms).sum(dim=-1)


def _squashed(adapter: Adapter, bounds: tuple[Tensor, Tensor], dice: Dice) -> Act:
    low, high = adapter.spread_range or (-20.0, 2.0)
    scale, offset = bounds

    def act(out: Tensor, spread_out: Tensor | None) -> Array:
        mean, spread = out.chunk(2, dim=-1) if spread_out is None else (out, spread_out)
        if not dice.deterministic:
            bounded = low + 0.5 * (high - low) * (torch.tanh(spread) + 1) if adapter.spread_by_tanh else None
            spread = spread.clamp(low, high) if bounded is None else bounded
            mean = mean + dice.normal(mean) * spread.exp()
        return _numpy(torch.tanh(mean) * scale + offset)

    return act


def _bounds(adapter: Adapter, weights: dict[str, Any], space: spaces.Space[Any]) -> tuple[Tensor, Tensor]:
    """Half the width of each action's range, and its middle."""
    if adapter.bounds == "stored":
        scale, offset = (weights[name].float().reshape(1, -1) for name in adapter.scale)
        return scale, offset
    assert isinstance(space, spaces.Box)
    low, high = (torch.as_tensor(end, dtype=torch.float32).reshape(1, -1) for end in (space.low, space.high))
    return (high - low) / 2, (high + low) / 2


def _numpy(tensor: Tensor) -> Array:
    return np.asarray(tensor.reshape(-1).numpy())
