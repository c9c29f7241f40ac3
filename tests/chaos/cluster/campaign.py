"""One run of chaos on a cluster: work, recorded calls, faults, and the verdict over all of it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from runspine.wire.v1.run_pb2 import CANCELLED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.chaos.cluster.faults import one_by_one, overlapping
from tests.chaos.cluster.gaps import gap_of, limit_of, rows
from tests.chaos.cluster.log_check import verify_log
from tests.chaos.cluster.prober import POOL, Prober
from tests.chaos.cluster.site import ClusterSite, open_cluster
from tests.chaos.cluster.strikes import ClusterStriker
from tests.chaos.mixed.verdict import Verdict, check_acknowledged, check_ends, check_ledger, check_steps
from tests.chaos.mixed.workload import Workload
from tests.histories.callers import Caller, Meeting
from tests.histories.calls import Recording, read_files
from tests.histories.check import check

# Recorded clients of each orchestrator, and the pause between two calls of one.
CALLERS = 2
CALL_PAUSE_SECONDS = 0.08
# As many cancels as submits: no worker serves the pool of these runs, and the board stays small.
CALLS = {"submit": 1.0, "again": 0.5, "get": 6.0, "list": 0.3, "priority": 1.5, "labels": 2.0, "cancel": 1.2}
LABELS = {"of": "recorded clients"}
ALONE_PART = 2 / 3
OVERLAP_GAP_SECONDS = 7.0
PATIENCE_SECONDS = 600.0
REPORT_SECONDS = 15.0
AT_ONCE = 4
# A worker that was unreachable is excused for a moment longer: its trainer has to be stopped first.
STOPPING_SECONDS = 5.0
QUICK = {
    "RUNSPINE_STALE_AFTER": "5",
    "RUNSPINE_LOST_AFTER": "15",
    "RUNSPINE_CHECKPOINT_PATIENCE": "5",
    "RUNSPINE_GONE_SECONDS": "3",
    "RUNSPINE_INGEST_TAKEOVER_SECONDS": "10",
    "RUNSPINE_INGEST_COMMIT_SECONDS": "5",
}


@dataclass(frozen=True, slots=True)
class Options:
    """Of the command line."""

    seconds: float
    seed: int
    runs: int
    partitions: int
    older: str
    only: str
    unchecked: bool = False


class Campaign:
    def __init__(self, options: Options, folder: Path, kept: Path) -> None:
        self._options = options
        self._folder = folder
        self._ledger = folder / "ledger"
        self._ledger.touch()
        self._kept = kept
        self._history = kept / f"cluster-history-{options.seed}.jsonl"
        self._calls = kept / f"cluster-calls-{options.seed}.jsonl"
        self._stop = asyncio.Event()

    async def run(self) -> dict[str, Any]:
        slots = -(-self._options.runs // 4) + 1
        emit(f"seed {self._options.seed}: starting three nats-servers, S3 and the services")
        checked = not self._options.unchecked
        async with open_cluster(
            self._folder, slots, self._options.partitions, QUICK, self._kept, checked
        ) as site:
            with self._history.open("w") as history, self._calls.open("w") as calls:
                work = Workload(site, self._ledger, history, self._options.seed)  # type: ignore[arg-type]
                prober = Prober(site.all_addresses("orchestrator"), site.token)
                striker = ClusterStriker(site, prober, self._options.seed, work.note, self._options.older)
                prober.start()
                await self._under_fire(site, work, striker, Recording(calls))
                prober.stop()
                emit("peace, and the verdict")
                found = await self._judge(site, work, striker)
            return {**found, **self._service(striker, prober), **self._recorded(found)}

    async def _under_fire(
        self, site: ClusterSite, work: Workload, striker: ClusterStriker, recording: Recording
    ) -> None:
        seconds = self._options.seconds
        meeting = Meeting(_recorded_spec, LABELS)
        auth = [("authorization", f"Bearer {site.token}")]
        async with asyncio.TaskGroup() as tasks:
            for number, address in enumerate(site.all_addresses("orchestrator") * CALLERS):
                caller = Caller(meeting, address, f"c{number}", recording, self._options.seed, auth, CALLS)
                tasks.create_task(caller.call_until(self._stop, CALL_PAUSE_SECONDS))
            reporting = tasks.create_task(self._report(work, striker, recording))
            working = tasks.create_task(work.keep_going(self._options.runs, seconds))
            await self._strike(striker, working)
            await working
            self._stop.set()
            reporting.cancel()

    async def _strike(self, striker: ClusterStriker, working: asyncio.Task[None]) -> None:
        only = self._options.only.split(",") if self._options.only else None
        targets = {kind: some for kind, some in striker.targets().items() if only is None or kind in only}
        began = time.monotonic()
        alone_until = began + self._options.seconds * ALONE_PART
        await asyncio.sleep(10)
        while time.monotonic() < alone_until:
            for fault in one_by_one(self._options.seed, targets):
                if time.monotonic() >= alone_until or working.done():
                    break
                await striker.strike_alone(fault)
        until = began + self._options.seconds
        rest = until - time.monotonic()
        async with asyncio.TaskGroup() as striking:
            for after, fault in overlapping(self._options.seed, targets, rest, OVERLAP_GAP_SECONDS):
                await asyncio.sleep(after)
                if time.monotonic() >= until or working.done():
                    break
                striking.create_task(striker.strike(fault))

    async def _report(self, work: Workload, striker: ClusterStriker, recording: Recording) -> None:
        began = time.monotonic()
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            emit(
                f"{time.monotonic() - began:5.0f} of {self._options.seconds:.0f} s: {len(work.asked)} runs, "
                f"{striker.struck.counts.total()} faults, {recording.count} calls"
            )

    async def _judge(self, site: ClusterSite, work: Workload, striker: ClusterStriker) -> dict[str, Any]:
        verdict = Verdict()
        for run_id in await work.until_all_ended(PATIENCE_SECONDS):
            verdict.blame("lost_runs", f"{run_id} has not ended after {PATIENCE_SECONDS:.0f} s of peace")
        for run_id in await work.until_all_uploaded(PATIENCE_SECONDS):
            verdict.blame("never_stored", f"{run_id} has files in no store")
        asked, log = list(work.asked.values()), await work.read_log("RUNS")
        check_acknowledged(verdict, work.asked, work.cancelled, log)
        check_ends(verdict, asked, log)
        workers = _who_held(await work.read_log("ATTEMPTS"))

        def excused(run_id: str, attempt: int, at: float) -> bool:
            worker = workers.get((run_id, attempt), "")
            return any(
                who == worker and start <= at <= end + STOPPING_SECONDS
                for who, start, end in striker.struck.unheard
            )

        check_ledger(verdict, self._ledger.read_text().splitlines(), excused)
        whole = [run for run in asked if CANCELLED not in run.ends]
        for first in range(0, len(whole), AT_ONCE):
            some = whole[first : first + AT_ONCE]
            found = await _gather([work.steps_of(run.run_id, run.steps) for run in some])
            for run, steps in zip(some, found, strict=True):
                check_steps(verdict, run, steps)
        for digest, problem in (await work.found_problems()).items():
            verdict.blame("unreadable", f"{digest}: {problem}")
        crashes = [
            f"{exit_.member} exit code {exit_.code}: {exit_.last_lines[-1500:]}" for exit_ in site.exits()
        ]
        log_found = await verify_log(site)
        return {
            "seed": self._options.seed,
            "seconds": self._options.seconds,
            "runs": len(asked),
            "cancelled": len(work.cancelled),
            "steps": sum(run.steps for run in whole),
            "faults": striker.struck.counts.total(),
            "each": dict(sorted(striker.struck.counts.items())),
            "restarts by the probe of a nats-server": site.probe_restarts,
            "stores set aside": site.stores_set_aside,
            "files with a flipped bit": striker.struck.flipped,
            "not whole in time": striker.struck.not_whole,
            "crashes": crashes,
            "log": log_found,
            **asdict(verdict),
        }

    def _service(self, striker: ClusterStriker, prober: Prober) -> dict[str, Any]:
        gaps = [(strike, gap_of(strike, prober.acknowledged)) for strike in striker.struck.alone]
        over = [
            f"{strike.name}: {gap:.1f} s, at most {limit_of(strike):.0f} s are promised"
            for strike, gap in gaps
            if gap > limit_of(strike)
        ]
        return {
            "writes of the prober": len(prober.acknowledged),
            "prober": repr(prober.failure) if prober.failure else "",
            "prober unreachable": prober.unreachable,
            "gaps": [asdict(row) for row in rows(gaps)],
            "gaps beyond their limit": over,
        }

    def _recorded(self, found: dict[str, Any]) -> dict[str, Any]:
        report = check(read_files([self._calls]))
        contradictions = [str(each) for each in report.contradictions]
        wrong = [*found["examples"], *found["crashes"], *found["log"]["flaws"], *contradictions[:10]]
        return {
            "recorded calls": report.calls,
            "recorded runs": report.runs,
            "recorded keys": report.keys,
            "contradictions": contradictions[:10],
            "wrong": wrong,
        }


def _recorded_spec(number: int) -> RunSpec:
    return RunSpec(runner="script", command=["true"], pool=POOL, seed=number, labels=LABELS)


async def _gather(tasks: list[Awaitable[Any]]) -> list[Any]:
    return list(await asyncio.gather(*tasks))


def _who_held(log: list[Any]) -> dict[tuple[str, int], str]:
    """The worker of each attempt, by the name of its process."""
    return {
        (subject.partition(".")[2], fact.attempt_started.attempt): (
            f"worker-{fact.attempt_started.worker_id.rpartition('-')[2]}"
        )
        for subject, commit in log
        for fact in commit.facts
        if fact.HasField("attempt_started")
    }


def emit(line: str) -> None:
    print(line, flush=True)
