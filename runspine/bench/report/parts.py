"""Parts of the report; each runs its benchmarks in a separate process.

`python -m runspine.bench.report.parts NAME SIZE FILE` measures one and writes it as JSON.
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

from runspine.bench.kit.figures import Report
from runspine.bench.kit.machine import describe, in_use, load, versions
from runspine.bench.kit.screen import Announce
from runspine.bench.report.sizes import SIZES, Sizes

Measure = Callable[[Sizes, str, Announce], Report]


@dataclass(frozen=True, slots=True)
class ReportPart:
    """One part. `about` states how it is measured, for readers of the report."""

    title: str
    about: str
    measure: Measure


def control(size: Sizes, peers: str, announce: Announce) -> Report:
    from runspine.bench.control.control import measure_live
    from runspine.bench.peers.ray_jobs import measure
    from runspine.bench.peers.ray_report import report_jobs

    report = Report("Control plane")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        asyncio.run(measure_live(report, Path(scratch), size.runs_in_turn, announce, size.limits))
    announce(f"{size.jobs} jobs of Ray, one after the other")
    report_jobs(report, measure(peers, size.jobs, size.burst), size.burst)
    return report


def measure_async(title: str, measure: Callable[[Report], Coroutine[object, object, object]]) -> Report:
    report = Report(title)
    asyncio.run(measure(report))
    return report


def runs(size: Sizes, peers: str, announce: Announce) -> Report:
    from runspine.bench.control.growth import grow_runs

    return measure_async(
        "Many runs", lambda report: grow_runs(report, size.runs, size.burst, peers, announce)
    )


def facts(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.control.growth import grow_facts

    return measure_async("Long logs", lambda report: grow_facts(report, size.facts, announce))


def fleet(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.fleet.answers import bench_answers
    from runspine.bench.fleet.box import bench_drain
    from runspine.bench.fleet.ended import bench_ended

    report = bench_answers(size.fleet_workers, size.fleet_runs, announce)
    others = (bench_ended(size.ended_runs, announce), asyncio.run(bench_drain(*size.drained, announce)))
    for other in others:
        report.figures += other.figures
        report.curves += other.curves
    return report


def trainer(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.trainers.capture import bench_trainer

    return bench_trainer(size.trainer_rounds, size.iterations, announce)


def telemetry(size: Sizes, peers: str, announce: Announce) -> Report:
    from runspine.bench.telemetry.telemetry import Size, bench_telemetry

    requested = Size(size.rounds, size.steps, size.peer_seconds, size.flow_seconds, peers)
    return asyncio.run(bench_telemetry(requested, announce))


def workers(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.control.growth import grow_workers

    steps, rounds = size.worker_steps, size.rounds
    return measure_async(
        "Many workers", lambda report: grow_workers(report, size.workers, steps, rounds, announce)
    )


def query(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.control.growth import grow_points

    return measure_async("Long series", lambda report: grow_points(report, size.points, announce))


def frames(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.pages.frames import bench_frames

    return bench_frames(size.frame_iterations, size.frame_seconds, announce)


def storage(size: Sizes, _: str, announce: Announce) -> Report:
    from runspine.bench.telemetry.store import bench_telemetry_store

    return asyncio.run(bench_telemetry_store(size.stored_steps, announce))


PARTS = {
    "control": ReportPart(
        "Control plane",
        "Runs that do nothing, one after the other on an idle worker, then as many as clients can submit. "
        "Ray's jobs do nothing either, on a separate head on this machine. A fact counts when it is synced "
        "to disk; the same disk and the same nats-server without Runspine are below.",
        control,
    ),
    "runs": ReportPart(
        "Many runs", "Runs that do nothing, submitted at once to one worker with two slots.", runs
    ),
    "facts": ReportPart(
        "Long logs",
        "An orchestrator started on a log of this length, until it answers: once reading all of it, once "
        "from the snapshot that the first left.",
        facts,
    ),
    "fleet": ReportPart(
        "Fleet",
        "CPU time of what the orchestrator does for each event, on a board of this size in one process, and "
        "the same by a fold over everything; what ended runs take; and workers with the real wire whose runs "
        "end at once.",
        fleet,
    ),
    "trainer": ReportPart(
        "Trainer",
        "CPU time captured minus bare on an env that costs nothing; and two PPO learners with the same seed "
        "in one process, one iteration each in turn. What is written is read and parsed by another process.",
        trainer,
    ),
    "telemetry": ReportPart(
        "Telemetry",
        "Real trainers under a real worker; a step counts when the manifest that names its segment is "
        "written, and all are read back and compared. The peers keep only the reward of each step, in turn "
        "with Runspine; so does Runspine in the row *one scalar*.",
        telemetry,
    ),
    "workers": ReportPart(
        "Many workers",
        "Workers with one trainer each, the same number of steps in all; everything on this machine.",
        workers,
    ),
    "query": ReportPart(
        "Long series",
        "A series of this length opened by a service, and by a TensorBoard, that has never seen it: from the "
        "start of the process until the chart has the last point. Two points are far outside: does the chart "
        "show them?",
        query,
    ),
    "frames": ReportPart(
        "Live frames",
        "Two PPO learners with the same seed, both captured, one with a view: no viewer, one viewer, ten.",
        frames,
    ),
    "storage": ReportPart(
        "Storage",
        "CartPole played by Gymnasium, as stored in the archive; and a stream full of it, archived.",
        storage,
    ),
}


def measured(name: str, size: str, peers: str, announce: Announce) -> dict[str, object]:
    """Measure one part, with its time and machine."""
    others = in_use()
    began, clock = time.time(), time.perf_counter()
    report = PARTS[name].measure(SIZES[size], peers, announce)
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
