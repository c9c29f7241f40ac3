"""The parts of the report: each runs what `runspine bench` has for it, in a process of its own.

`python -m bench.report.parts NAME SIZE FILE` measures one and writes it as JSON.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Report
from bench.machine import describe, in_use, load, versions
from bench.report.sizes import SIZES, Sizes

Tell = Callable[[str], None]
Measure = Callable[[Sizes, str, Tell], Report]


@dataclass(frozen=True, slots=True)
class Part:
    """`about` says how it is measured, for whoever reads the figures."""

    title: str
    about: str
    measure: Measure


def control(size: Sizes, peers: str, tell: Tell) -> Report:
    from bench.control import measure_live
    from bench.ray_jobs import measure
    from bench.ray_report import report_jobs

    report = Report("Control plane")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        asyncio.run(measure_live(report, Path(scratch), size.runs_in_turn, tell, size.limits))
    tell(f"{size.jobs} jobs of Ray, one after the other")
    report_jobs(report, measure(peers, size.jobs, size.burst), size.burst)
    return report


def told(title: str, measure: Callable[[Report], Coroutine[object, object, object]]) -> Report:
    report = Report(title)
    asyncio.run(measure(report))
    return report


def runs(size: Sizes, peers: str, tell: Tell) -> Report:
    from bench.growth import grow_runs

    return told("Many runs", lambda report: grow_runs(report, size.runs, size.burst, peers, tell))


def facts(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.growth import grow_facts

    return told("Long logs", lambda report: grow_facts(report, size.facts, tell))


def trainer(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.trainer import bench_trainer

    return bench_trainer(size.trainer_rounds, size.iterations, tell)


def telemetry(size: Sizes, peers: str, tell: Tell) -> Report:
    from bench.telemetry import Size, bench_telemetry

    asked = Size(size.rounds, size.steps, size.peer_seconds, size.flow_seconds, peers)
    return asyncio.run(bench_telemetry(asked, tell))


def workers(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.growth import grow_workers

    steps, rounds = size.worker_steps, size.rounds
    return told("Many workers", lambda report: grow_workers(report, size.workers, steps, rounds, tell))


def query(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.growth import grow_points

    return told("Long series", lambda report: grow_points(report, size.points, tell))


def frames(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.frames import bench_frames

    return bench_frames(size.frame_iterations, size.frame_seconds, tell)


def storage(size: Sizes, _: str, tell: Tell) -> Report:
    from bench.telemetry_store import bench_telemetry_store

    return asyncio.run(bench_telemetry_store(size.stored_steps, tell))


PARTS = {
    "control": Part(
        "Control plane",
        "Runs that do nothing, one after the other on an idle worker, then as many as clients can submit. "
        "Ray's jobs do nothing either, on a head of its own on this machine. A fact counts when it is synced "
        "to disk; the same disk and the same nats-server without us are below.",
        control,
    ),
    "runs": Part(
        "Many runs", "So many runs that do nothing, submitted at once to one worker with two slots.", runs
    ),
    "facts": Part(
        "Long logs",
        "An orchestrator started on a log of this length, until it answers: once reading all of it, once "
        "from the snapshot that the first left.",
        facts,
    ),
    "trainer": Part(
        "Trainer",
        "CPU time captured minus bare on an env that costs nothing; and two PPO learners with the same seed "
        "in one process, one iteration each in turn. What is written is read and parsed by another process.",
        trainer,
    ),
    "telemetry": Part(
        "Telemetry",
        "Real trainers under a real worker; a step counts when the manifest that names its segment is "
        "written, and all are read back and compared. The peers keep the reward of each step alone, in turn "
        "with us; so do we in the row *one scalar*.",
        telemetry,
    ),
    "workers": Part(
        "Many workers",
        "Workers with one trainer each, the same number of steps in all; everything on this machine.",
        workers,
    ),
    "query": Part(
        "Long series",
        "A series of this length opened by a service, and by a TensorBoard, that has never seen it: from the "
        "start of the process until the chart has the last point. Two points are far outside: does the chart "
        "show them?",
        query,
    ),
    "frames": Part(
        "Live frames",
        "Two PPO learners with the same seed, both captured, one with a view: nobody looks, one viewer, ten.",
        frames,
    ),
    "storage": Part(
        "Storage",
        "CartPole played by Gymnasium itself, as it lies in the archive; and a stream full of it, archived.",
        storage,
    ),
}


def measured(name: str, size: str, peers: str, tell: Tell) -> dict[str, object]:
    """One part with when and where it was taken."""
    others = in_use()
    began, clock = time.time(), time.perf_counter()
    report = PARTS[name].measure(SIZES[size], peers, tell)
    return {
        "part": name,
        "size": size,
        "at": began,
        "seconds": time.perf_counter() - clock,
        "others": others,
        "load": load(),
        "machine": describe(),
        "versions": versions(peers),
        **{key: value for key, value in report.as_json().items() if key in ("figures", "curves")},
    }


if __name__ == "__main__":
    name, size, peers, file = sys.argv[1:]
    found = measured(name, size, peers, lambda text: print(text, file=sys.stderr, flush=True))
    Path(file).write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")
