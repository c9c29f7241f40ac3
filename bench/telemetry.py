"""`runspine bench telemetry`: steps durable end to end, beside others; when a subscriber has them."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import zip_longest
from pathlib import Path
from statistics import median
from typing import Any

from bench.figures import Report, spread
from bench.telemetry_durable import Asked, Bench
from bench.telemetry_latency import Latency, measure_latency
from bench.telemetry_peers import TOOLS, Kept, measure
from runspine.embedded import running_stack

Tell = Callable[[str], None]
RATE = 100_000
LATENCY_SECONDS = 0.25
AT_REST = 20
MANY = 8
# What the steps pass through on their way; trainers are apart.
PARTS = ("worker", "nats", "telemetry", "s3")
# The same work as the peers do: the reward of a step and no more.
SCALAR = "one scalar a step, run.log"


@dataclass(frozen=True, slots=True)
class Size:
    """How much is measured."""

    rounds: int = 3
    steps: int = 2_000_000
    peer_seconds: float = 3.0
    flow_seconds: float = 10.0
    # The Python of the peers that have a virtualenv of their own.
    peers: str = ""


QUICK = Size(rounds=1, steps=300_000, peer_seconds=1.0, flow_seconds=4.0)


@dataclass(slots=True)
class Durable:
    """A group of trainers, round after round."""

    rates: list[float] = field(default_factory=list)
    # µs of CPU for a step, in all parts together.
    costs: list[float] = field(default_factory=list)
    steps: int = 0
    bytes: int = 0


def stages(size: Size) -> int:
    """How often `tell` is called."""
    return size.rounds * (4 + len(TOOLS)) + 2


async def bench_telemetry(size: Size, tell: Tell) -> Report:
    report = Report("Telemetry")
    groups = {
        "one trainer": Asked(1, size.steps),
        "eight trainers": Asked(MANY, size.steps // MANY),
        "one trainer, random policy": Asked(1, size.steps // 4, policy="random"),
        SCALAR: Asked(1, size.steps // 4, kind="metrics"),
    }
    durable = {name: Durable() for name in groups}
    peers: dict[str, list[Kept | str]] = {tool: [] for tool in TOOLS}
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        folder = Path(scratch)
        async with running_stack(folder / "stack", workers=1, slots=MANY) as stack:
            bench = Bench(stack, folder / "trainers")
            for turn in range(size.rounds):
                # In turn, so that whatever else the machine does falls on all of them.
                for ours, tool in zip_longest(groups.items(), TOOLS):
                    if ours:
                        name, asked = ours
                        tell(f"{name}: {asked.total:,} steps to the archive")
                        await measure_durable(bench, asked, durable[name])
                    tell(f"{tool}: one scalar a step for {size.peer_seconds:g} s")
                    place = folder / "peers" / f"{tool.split()[0]}-{turn}"
                    kept = await asyncio.to_thread(measure, tool, size.peer_seconds, place, size.peers)
                    peers[tool].append(kept)
            latencies = {}
            for name, trainers in (("one trainer", 1), ("eight trainers", MANY)):
                tell(f"{name}: {RATE:,} steps/s to a subscriber for {size.flow_seconds:g} s")
                each = Asked(trainers, int(RATE / trainers * size.flow_seconds), rate=RATE / trainers)
                latencies[name] = await measure_latency(bench, each)
            await bench.close()
    report_durable(report, durable)
    report_peers(report, peers, {name: median(durable[name].rates) for name in ("one trainer", SCALAR)})
    report_latency(report, latencies)
    return report


async def measure_durable(bench: Bench, asked: Asked, into: Durable) -> None:
    async with bench.group(asked) as group:
        before = cpu_seconds(bench)
        group.begin()
        await bench.ended(group)
        done = await bench.archived(group)
        cost = cpu_seconds(bench) - before
        into.bytes += await bench.prove(group)
        into.steps += asked.total
        into.rates.append(asked.total / (done - group.began))
        into.costs.append(cost / asked.total * 1e6)


def cpu_seconds(bench: Bench) -> float:
    """What the parts of the stack have used so far."""
    total = 0.0
    for name in (name for name in bench.stack.parts if name.partition("-")[0] in PARTS):
        fields = Path(f"/proc/{bench.stack.pid(name)}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / os.sysconf("SC_CLK_TCK")


def report_durable(report: Report, durable: dict[str, Durable]) -> None:
    for name, found in durable.items():
        rate = median(found.rates)
        target: dict[str, Any] = {}
        if name == "one trainer" or name.endswith("trainers"):
            target = {"target": f"≥ {RATE:,}/s", "met": rate >= RATE}
        if name == "one trainer":
            target["key"] = "durable"
        what = name if name == SCALAR else f"steps durable, {name}"
        who = {"one trainer": "runspine, the whole step", SCALAR: "runspine, one scalar"}.get(name, "")
        report.add(
            what, unit="steps/s", **spread(found.rates), **target, group="kept" if who else "", who=who,
            beside=f"{found.steps:,} of {found.steps:,} read back, each once and bit for bit; "
            f"{median(found.costs):.1f} µs of CPU a step",
        )  # fmt: skip
    for name in ("one trainer", "one trainer, random policy"):
        size = durable[name].bytes / durable[name].steps
        length = 22 if "random" in name else 200
        report.add(
            f"bytes a step at rest, episodes of {length}", size, "B", target=f"≤ {AT_REST} B",
            met=size <= AT_REST, beside="with observations", key="bytes", group="rest",
            who=f"runspine, the whole step, episodes of {length}",
        )  # fmt: skip


def report_peers(report: Report, peers: dict[str, list[Kept | str]], ours: dict[str, float]) -> None:
    whole, scalar = ours.values()
    for tool, found in peers.items():
        kept = [each for each in found if isinstance(each, Kept)]
        what = f"the reward alone, {tool}"
        if not kept:
            report.add(what, float("nan"), "", beside=f"not measured: {found[-1]}", group="kept", who=tool)
            continue
        rates = [each.rate for each in kept]
        report.add(
            what, unit="steps/s", **spread(rates), group="kept", who=tool,
            beside=f"runspine: {whole / median(rates):,.0f} × as many whole steps, "
            f"{scalar / median(rates):,.0f} × as many scalars",
        )  # fmt: skip
        report.add(
            f"bytes a scalar at rest, {tool}", unit="B", group="rest", who=f"{tool}, one scalar",
            **spread([each.bytes / each.scalars for each in kept]),
        )  # fmt: skip


def report_latency(report: Report, latencies: dict[str, Latency]) -> None:
    for name, told in latencies.items():
        key = {"one trainer": "latency", "eight trainers": "latency of eight"}[name]
        report.add(f"step made → at a subscriber, {name}, p50", told.p50 * 1000, "ms")
        report.add(
            f"step made → at a subscriber, {name}, p99", told.p99 * 1000, "ms",
            target=f"≤ {LATENCY_SECONDS * 1000:.0f} ms", met=told.p99 <= LATENCY_SECONDS, key=key,
            beside=f"{told.rate:,.0f} steps/s; slowest of {told.steps:,}: {told.worst * 1000:.0f} ms",
        )  # fmt: skip
