"""Metadata from a saved object: its adapter, sizes and env. Pure."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from runspine.checkpoints.about import CheckpointAbout
from runspine.checkpoints.adapters import BUILTIN, CLEANRL, OFFLINE, Adapter, layers_of
from runspine.checkpoints.errors import CheckpointError
from runspine.checkpoints.plain_pickle import Tensor

FORMAT = 1


def about_builtin(saved: Mapping[str, Any], name: str) -> CheckpointAbout:
    if saved["format"] != FORMAT:
        raise CheckpointError(
            f"{name} has format {saved['format']} of the builtin runner; this version reads {FORMAT}"
        )
    algo, args = saved["algo"], saved.get("args")
    known = BUILTIN | OFFLINE
    if algo not in known or not isinstance(args, dict):
        raise CheckpointError(f"{name} is of algorithm {str(algo)[:80]!r}; known are: {', '.join(known)}")
    adapter, weights = _choose(known[algo], saved, name)
    inputs, outputs = sizes(adapter, weights, name)
    return CheckpointAbout(
        runner=adapter.runner,
        algo=algo,
        adapter=adapter,
        env=text(args.get("env_id")),
        env_kwargs=_kwargs(args.get("env_kwargs")),
        seed=whole(args.get("seed")),
        step=whole(saved.get("step")) or 0,
        inputs=inputs,
        outputs=outputs,
        return_mean=_mean(saved["parts"].get("history")),
        details={
            "moments": algo in OFFLINE
            or args.get("normalize") == "yes"
            or (args.get("normalize") == "auto" and adapter.head == "gaussian"),
            "random": 0.05 if algo == "dqn" else 0.0,
        },
    )


def about_weights(
    weights: Mapping[Any, Any],
    args: Mapping[str, Any],
    name: str,
    *,
    path: tuple[str | int, ...] = (),
    algo: str = "",
) -> CheckpointAbout:
    """Metadata of a bare state_dict, as CleanRL saves it; the names of its tensors identify the algorithm."""
    adapter = next((each for each in CLEANRL if each.fits(_names(weights))), None)
    if adapter is None:
        some = ", ".join(sorted(map(str, weights))[:4])
        raise CheckpointError(
            f"{name} holds weights that no adapter knows ({some}, …); known are those of CleanRL's "
            + ", ".join(dict.fromkeys(each.algo for each in CLEANRL))
        )
    inputs, outputs = sizes(adapter, weights, name)
    return CheckpointAbout(
        runner="cleanrl",
        algo=algo or adapter.algo,
        adapter=replace(adapter, path=path),
        env=text(args.get("env_id")),
        seed=whole(args.get("seed")),
        step=whole(args.get("total_timesteps")) or 0,
        inputs=inputs,
        outputs=outputs,
        details={"random": 0.05 if adapter.head in ("values", "atoms") else 0.0},
    )


def _choose(candidates: tuple[Adapter, ...], saved: Any, name: str) -> tuple[Adapter, Mapping[str, Any]]:
    for adapter in candidates:
        weights = weights_at(saved, adapter.path, name)
        if adapter.fits(_names(weights)):
            return adapter, weights
    raise CheckpointError(
        f"{name} lacks weights that {candidates[0].name} needs ({', '.join(candidates[0].layers)})"
    )


def weights_at(saved: Any, path: tuple[str | int, ...], name: str) -> Any:
    """The weights in a saved object. Raises CheckpointError."""
    for step in path:
        try:
            saved = saved[step]
        except (KeyError, IndexError, TypeError) as error:
            raise CheckpointError(f"{name} lacks {step!r}") from error
    if not isinstance(saved, Mapping):
        raise CheckpointError(f"{name} holds no weights where they should be")
    return saved


def sizes(adapter: Adapter, weights: Mapping[str, Any], name: str) -> tuple[int, int]:
    """Sizes of the input and output; adjacent layers must fit each other."""
    if adapter.head == "table":
        rows, columns = _shape(weights, "q", 2, name)
        return rows, columns
    chain = [layer for entry in adapter.layers for layer in layers_of(entry, weights)]
    before, first = 0, 0
    for layer in chain:
        shape = _shape(weights, f"{layer}.weight", 2, name)
        if before and shape[1] != before:
            raise CheckpointError(
                f"{name}: {layer} takes {shape[1]} numbers, and the layer before it gives {before}"
            )
        first = first or shape[1]
        before = shape[0]
        if f"{layer}.bias" in weights and _shape(weights, f"{layer}.bias", 1, name) != (before,):
            raise CheckpointError(f"{name}: {layer} has a bias of another size than its weight")
    return first, before


def _shape(weights: Mapping[str, Any], key: str, dimensions: int, name: str) -> tuple[int, ...]:
    tensor = weights.get(key)
    if not isinstance(tensor, Tensor) or not all(0 < n < 1 << 31 for n in tensor.shape):
        raise CheckpointError(f"{name}: {key} is not a tensor")
    if len(tensor.shape) != dimensions:
        what = (
            "a convolution: networks for images are not evaluated here"
            if len(tensor.shape) == 4
            else "misshapen"
        )
        raise CheckpointError(f"{name}: {key} of shape {tensor.shape} is {what}")
    return tensor.shape


def _names(weights: Mapping[Any, Any]) -> set[str]:
    return {key for key in weights if isinstance(key, str)}


def text(value: object) -> str:
    return value if isinstance(value, str) and len(value) <= 200 else ""


def whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 1 << 63 else None


def _kwargs(value: object) -> dict[str, Any]:
    try:
        given = json.loads(value) if isinstance(value, str) else {}
    except ValueError:
        return {}
    return given if isinstance(given, dict) else {}


def _mean(history: object) -> float | None:
    """Mean of the last returns that the builtin runner stores."""
    last = history.get("last") if isinstance(history, dict) else None
    numbers = [each for each in last if isinstance(each, int | float)] if isinstance(last, list) else []
    mean = sum(numbers) / len(numbers) if numbers else math.nan
    return mean if math.isfinite(mean) else None
