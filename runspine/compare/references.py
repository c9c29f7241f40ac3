"""Returns of a random policy, of the data and of an expert as lines of a comparison, and advice. Pure."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from runspine.wire.v1.spec_pb2 import RunSpec, Value

RETURNS = ("episode/return", "charts/episodic_return")
SCORE = "charts/normalized_score"
OFFLINE, FINE_TUNED, ONLINE = "offline", "fine-tuned", "online"
MAX_DATASETS = 5


@dataclass(frozen=True, slots=True)
class DatasetReturns:
    """Mean returns that belong to a dataset; None where it does not state one."""

    name: str
    env: str
    random: float | None = None
    data: float | None = None
    expert: float | None = None


@dataclass(frozen=True, slots=True)
class Reference:
    """A horizontal line of a chart."""

    label: str
    value: float


class Final(Protocol):
    """Final performance of a group, with the lower end of its interval when it has one."""

    @property
    def value(self) -> float: ...

    @property
    def low(self) -> float: ...


def stage_of(spec: RunSpec) -> str:
    """What a run does to a policy: offline learning, fine-tuning, or neither (empty)."""
    online = spec.params["online"].boolean if "online" in spec.params else False
    if spec.dataset.digest and not online:
        return OFFLINE
    if spec.warm_start.run_id:
        return FINE_TUNED
    return ONLINE if spec.dataset.digest else ""


def default_metrics(specs: Iterable[RunSpec]) -> tuple[str, ...]:
    """Metrics of returns, the one to show first.

    Trials of offline learning are episodes outside the steps of the run: its own chart places them.
    """
    offline = any(spec.dataset.digest for spec in specs)
    return tuple(reversed(RETURNS)) if offline else RETURNS


def dataset_returns(name: str, meta: Mapping[str, Value]) -> DatasetReturns:
    """Returns from the metadata of a registered dataset."""
    returns = meta["returns"].map.entries if "returns" in meta else {}

    def of(key: str) -> float | None:
        kind = returns[key].WhichOneof("kind") if key in returns else None
        return float(getattr(returns[key], kind)) if kind in ("number", "integer") else None

    env = meta["env"].text if "env" in meta else ""
    return DatasetReturns(name, env, of("random"), of("mean"), of("expert"))


def references(
    datasets: Sequence[DatasetReturns], metric: str, scales: Mapping[str, tuple[float, float]]
) -> tuple[Reference, ...]:
    """Lines for a metric of returns; none for other metrics. `scales` by env, as the curves have them."""
    found = []
    for dataset in datasets:
        low, high = scales.get(dataset.env, (0.0, 1.0))
        whose = f" ({dataset.name})" if len(datasets) > 1 else ""
        for label, value in _levels(dataset, metric):
            found.append(Reference(label + whose, (value - low) / (high - low)))
    return tuple(found)


def _levels(dataset: DatasetReturns, metric: str) -> list[tuple[str, float]]:
    random, expert = dataset.random, dataset.expert
    levels = [("random", random), ("data", dataset.data), ("expert", expert)]
    if metric in RETURNS:
        return [(label, value) for label, value in levels if value is not None]
    if metric == SCORE and random is not None and expert is not None and expert != random:
        width = expert - random
        return [(label, 100 * (value - random) / width) for label, value in levels if value is not None]
    return []


def advise(groups: Sequence[tuple[str, Final]], lines: Sequence[Reference]) -> str:
    """One sentence on what to deploy, from the stages and final values; empty when nothing follows.

    Only for metrics of which more is better, that is, where there are lines.
    """
    best: dict[str, Final] = {}
    for stage, final in groups:
        if math.isfinite(final.value) and (stage not in best or final.value > best[stage].value):
            best[stage] = final
    levels = {line.label: line.value for line in lines}
    if not levels or OFFLINE not in best:
        return ""
    offline = best[OFFLINE]
    if FINE_TUNED in best:
        return _about_fine_tuning(offline, best[FINE_TUNED], levels)
    return _about_offline(offline.value, levels)


def _about_fine_tuning(offline: Final, tuned: Final, levels: Mapping[str, float]) -> str:
    before, after = f"{offline.value:.4g}", f"{tuned.value:.4g}"
    certain = tuned.low if math.isfinite(tuned.low) else tuned.value
    if certain > offline.value:
        expert = levels.get("expert", math.inf)
        reached = ", which reaches the expert" if tuned.value >= expert else ""
        return (
            f"fine-tuning raises the final value from {before} to {after}{reached}: "
            "deploy the fine-tuned policy"
        )
    if tuned.value > offline.value:
        return (
            f"fine-tuning ends at {after}, and offline learning at {before} is within its interval: "
            "fine-tune longer or with more seeds before you switch"
        )
    return (
        f"fine-tuning ends at {after}, not above the {before} of offline learning: "
        "deploy the offline policy, or fine-tune longer"
    )


def _about_offline(value: float, levels: Mapping[str, float]) -> str:
    reached = f"offline learning ends at {value:.4g}"
    expert, data = levels.get("expert"), levels.get("data")
    if expert is not None and value >= expert:
        return f"{reached}, at the level of the expert ({expert:.4g}): deploy it; fine-tuning can add little"
    if data is not None and value > data:
        return f"{reached}, above its data ({data:.4g}): deploy it, or fine-tune it online with warm_start"
    if data is not None:
        return (
            f"{reached}, not above its data ({data:.4g}): "
            "train longer, or fine-tune it online before you deploy it"
        )
    return ""
