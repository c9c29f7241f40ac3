"""`runspine bench telemetry`: durable steps end to end compared with other tools, and latency."""

from __future__ import annotations

import asyncio
import os
import tempfile
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from runspine.bench.kit.figures import Report, spread
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.durable import DurableBench, TrainerLoad, sandbox_with
from runspine.bench.telemetry.latency import Latency, measure_latency
from runspine.bench.telemetry.peer_scalars import TOOLS, KeptScalars, measure
from runspine.bench.telemetry.trainer import ENVS
from runspine.embedded import running_stack

RATE = 100_000
LATENCY_SECONDS = 0.25
AT_REST = 20
MANY = 8
# Parts of the stack that steps pass through, without trainers.
PARTS = ("worker", "nats", "telemetry", "s3")
# The two that handle each step: the worker, and the ingest of the telemetry service.
HANDLERS = ("worker", "telemetry")
MAX_HANDLING_MICROS = 1.0
VECTOR = "one trainer of 512 envs"
FAST = {"one trainer": 500_000, VECTOR: 1_000_000}
# The same work as the peers: only the reward of a step.
SCALAR = "one scalar a step, run.log"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int = 3
    steps: int = 2_000_000
    peer_seconds: float = 3.0
    flow_seconds: float = 10.0
    # The Python of the peers that have their own virtualenv.
    peers: str = ""


QUICK = Size(rounds=1, steps=300_000, peer_seconds=1.0, flow_seconds=4.0)


@dataclass(slots=True)
class Durable:
    """Results of a group of trainers over several rounds."""

    rates: list[float] = field(default_factory=list)
    # µs of CPU per step, of all parts.
    costs: list[float] = field(default_factory=list)
    # Of it, those of the worker and the telemetry service.
    handling: list[float] = field(default_factory=list)
    steps: int = 0
    bytes: int = 0


def stages(size: Size) -> int:
    """Number of announced stages."""
    return size.rounds * (5 + len(TOOLS)) + 2


async def bench_telemetry(size: Size, announce: Announce) -> Report:
    report = Report("Telemetry")
    groups = {
        "one trainer": TrainerLoad(1, size.steps),
        VECTOR: TrainerLoad(1, size.steps // ENVS * ENVS, kind="vector"),
        "eight trainers": TrainerLoad(MANY, size.steps // MANY),
        "one trainer, random policy": TrainerLoad(1, size.steps // 4, policy="random"),
        SCALAR: TrainerLoad(1, size.steps // 4, kind="metrics"),
    }
    durable = {name: Durable() for name in groups}
    peers: dict[str, list[KeptScalars | str]] = {tool: [] for tool in TOOLS}
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        folder = Path(scratch)
        shared = sandbox_with(folder / "trainers")
        async with running_stack(folder / "stack", workers=1, slots=MANY, settings=shared) as stack:
            bench = DurableBench(stack, folder / "trainers")
            for turn in range(size.rounds):
                # In turn, so that other load on the machine affects all of them.
                for ours, tool in zip_longest(groups.items(), TOOLS):
                    if ours:
                        name, load = ours
                        announce(f"{name}: {load.total:,} steps to the archive")
                        await measure_durable(bench, load, durable[name])
                    announce(f"{tool}: one scalar a step for {size.peer_seconds:g} s")
                    place = folder / "peers" / f"{tool.split()[0]}-{turn}"
                    kept = await asyncio.to_thread(measure, tool, size.peer_seconds, place, size.peers)
                    peers[tool].append(kept)
            latencies = {}
            for name, trainers in (("one trainer", 1), ("eight trainers", MANY)):
                announce(f"{name}: {RATE:,} steps/s to a subscriber for {size.flow_seconds:g} s")
                each = TrainerLoad(trainers, int(RATE / trainers * size.flow_seconds), rate=RATE / trainers)
                latencies[name] = await measure_latency(bench, each)
            await bench.close()
    report_durable(report, durable)
    report_peers(report, peers, {name: median(durable[name].rates) for name in ("one trainer", SCALAR)})
    report_latency(report, latencies)
    return report


async def measure_durable(bench: DurableBench, load: TrainerLoad, into: Durable) -> None:
    async with bench.group(load) as group:
        before, handled = cpu_seconds(bench), cpu_seconds(bench, HANDLERS)
        group.begin()
        await bench.ended(group)
        done = await bench.archived(group)
        cost, handled = cpu_seconds(bench) - before, cpu_seconds(bench, HANDLERS) - handled
        into.bytes += await bench.prove(group)
        into.steps += load.total
        into.rates.append(load.total / (done - group.began))
        into.costs.append(cost / load.total * 1e6)
        into.handling.append(handled / load.total * 1e6)


def cpu_seconds(bench: DurableBench, parts: tuple[str, ...] = PARTS) -> float:
    """CPU seconds that these parts of the stack have used so far."""
    total = 0.0
    for name in (name for name in bench.stack.parts if name.partition("-")[0] in parts):
        fields = Path(f"/proc/{bench.stack.pid(name)}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def report_durable(report: Report, durable: dict[str, Durable]) -> None:
    for name, found in durable.items():
        rate = median(found.rates)
        target: dict[str, Any] = {}
        if name in FAST or name.endswith("trainers"):
            least = FAST.get(name, RATE)
            target = {"target": f"≥ {least:,}/s", "met": rate >= least}
        if name == "one trainer":
            target["key"] = "durable"
        what = name if name == SCALAR else f"steps durable, {name}"
        who = {"one trainer": "runspine, the whole step", SCALAR: "runspine, one scalar"}.get(name, "")
        report.add(
            what, unit="steps/s", **spread(found.rates), **target, group="kept" if who else "", who=who,
            context=f"{found.steps:,} of {found.steps:,} read back, each once and bit for bit; "
            f"{median(found.costs):.1f} µs of CPU a step",
        )  # fmt: skip
    for name in FAST:
        cost = spread(durable[name].handling)
        report.add(
            f"CPU of worker and ingest for a step, {name}", unit="µs", **cost,
            target=f"≤ {MAX_HANDLING_MICROS:g} µs", met=cost["value"] <= MAX_HANDLING_MICROS,
        )  # fmt: skip
    for name in ("one trainer", "one trainer, random policy"):
        size = durable[name].bytes / durable[name].steps
        length = 22 if "random" in name else 200
        report.add(
            f"bytes a step at rest, episodes of {length}", size, "B", target=f"≤ {AT_REST} B",
            met=size <= AT_REST, context="with observations", key="bytes", group="rest",
            who=f"runspine, the whole step, episodes of {length}",
        )  # fmt: skip


def report_peers(report: Report, peers: dict[str, list[KeptScalars | str]], ours: dict[str, float]) -> None:
    whole, scalar = ours.values()
    for tool, found in peers.items():
        kept = [each for each in found if isinstance(each, KeptScalars)]
        what = f"the reward alone, {tool}"
        if not kept:
            report.add(what, float("nan"), "", context=f"not measured: {found[-1]}", group="kept", who=tool)
            continue
        rates = [each.rate for each in kept]
        report.add(
            what, unit="steps/s", **spread(rates), group="kept", who=tool,
            context=f"runspine: {whole / median(rates):,.0f} × as many whole steps, "
            f"{scalar / median(rates):,.0f} × as many scalars",
        )  # fmt: skip
        report.add(
            f"bytes a scalar at rest, {tool}", unit="B", group="rest", who=f"{tool}, one scalar",
            **spread([each.bytes / each.scalars for each in kept]),
        )  # fmt: skip


def report_latency(report: Report, latencies: dict[str, Latency]) -> None:
    for name, found in latencies.items():
        key = {"one trainer": "latency", "eight trainers": "latency of eight"}[name]
        report.add(f"step made → at a subscriber, {name}, p50", found.p50 * 1000, "ms")
        report.add(
            f"step made → at a subscriber, {name}, p99", found.p99 * 1000, "ms",
            target=f"≤ {LATENCY_SECONDS * 1000:.0f} ms", met=found.p99 <= LATENCY_SECONDS, key=key,
            context=f"{found.rate:,.0f} steps/s; slowest of {found.steps:,}: {found.worst * 1000:.0f} ms",
        )  # fmt: skip
