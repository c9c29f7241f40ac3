"""docs/reference/metrics.md, from every metric that a service registers."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import NamedTuple

from prometheus_client.core import GaugeMetricFamily
from prometheus_client.metrics import MetricWrapperBase

from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.metrics import CatalogCollector
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.edges.metrics import BoardCollector
from runspine.services.worker.machine.status import MachineCollector
from tests.kit.paths import ROOT

EVERY = "every service"
INTRODUCTION = """# Metrics

Generated from the code by `make proto`: the metrics of each service, on `/metrics` of
`RUNSPINE_METRICS_ADDRESS`. No run id is ever a label. Dashboards
and alerts that use them: [monitoring](../howto/monitoring.md).
"""


class Metric(NamedTuple):
    name: str
    kind: str
    labels: tuple[str, ...]
    help: str


def metrics_doc() -> str:
    found: dict[str, list[Metric]] = {EVERY: []}
    for path in sorted([*(ROOT / "runspine").rglob("*.py"), *(ROOT / "services").rglob("*.py")]):
        if "from prometheus_client import" not in path.read_text():
            continue
        parts = path.relative_to(ROOT).with_suffix("").parts
        if parts[-1] == "__main__":
            continue  # it registers the collectors below
        service = parts[1] if parts[0] == "services" else EVERY
        module = ".".join(("runspine", *parts) if parts[0] == "services" else parts)
        found.setdefault(service, []).extend(_defined(module))
    # Collected when Prometheus scrapes, so they are no objects of the module.
    found["orchestrator"] += _collected(BoardCollector(Board()).collect())
    found["artifacts"] += _collected(CatalogCollector(ArtifactCatalog()).collect())
    found["worker"] += _collected(MachineCollector().collect())
    lines = [INTRODUCTION]
    for service, metrics in found.items():
        rows = [
            f"| `{m.name}` | {m.kind} | {', '.join(f'`{label}`' for label in m.labels)} | {m.help} |"
            for m in sorted(set(metrics))
        ]
        lines += [
            f"## {service.capitalize()}",
            "",
            "| metric | type | labels | |",
            "|---|---|---|---|",
            *rows,
            "",
        ]
    return "\n".join(lines)


def _defined(module: str) -> Iterator[Metric]:
    for value in vars(importlib.import_module(module)).values():
        if isinstance(value, MetricWrapperBase):
            family = value.describe()[0] if hasattr(value, "describe") else next(iter(value.collect()))  # type: ignore[index]
            suffix = "_total" if family.type == "counter" else ""
            yield Metric(family.name + suffix, family.type, value._labelnames, family.documentation)


def _collected(families: object) -> list[Metric]:
    assert isinstance(families, list)
    found = []
    for family in families:
        assert isinstance(family, GaugeMetricFamily)
        found.append(Metric(family.name, family.type, tuple(family._labelnames), family.documentation))
    return found
