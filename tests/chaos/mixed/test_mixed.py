"""Fifty runs in flight, everything broken at random: nothing lost, misstated or doubled.

`make chaos SECONDS=1800 SEED=7` takes as long as it is given. The history of the client and of the faults
is kept in build/chaos, with the verdict.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

import pytest

from runspine.embedded.s3 import BUCKET
from runspine.settings import ServiceSettings
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import CANCELLED
from tests.chaos.mixed.clocks import Clocks
from tests.chaos.mixed.faults import KINDS, schedule
from tests.chaos.mixed.site import Site, open_site
from tests.chaos.mixed.strikes import Striker, Struck
from tests.chaos.mixed.verdict import (
    Verdict,
    check_acknowledged,
    check_artifacts,
    check_ends,
    check_ledger,
    check_steps,
)
from tests.chaos.mixed.workload import Workload
from tests.kit.servers.power import PowerDomain, power_domain

SECONDS = float(os.environ.get("RUNSPINE_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("RUNSPINE_CHAOS_SEED") or random.randrange(1 << 31))
IN_FLIGHT = int(os.environ.get("RUNSPINE_CHAOS_RUNS", "50"))
# Seconds between faults, in the mean: a service needs a second or two to be back.
GAP = 5.0
PATIENCE = 900.0
QUICK = {
    "RUNSPINE_STALE_AFTER": "3",
    "RUNSPINE_LOST_AFTER": "8",
    "RUNSPINE_CHECKPOINT_PATIENCE": "5",
    "RUNSPINE_GONE_SECONDS": "3",
}
# A worker that was unreachable is excused for a moment longer: its trainer has to be stopped first.
STOPPING = 5.0
# Runs that are read back at once.
AT_ONCE = 4
REPORT_SECONDS = 15.0
KEPT = Path("build/chaos")


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[PowerDomain | None]:
    """A disk that can be filled and lose power, where root may mount one."""
    if os.geteuid() != 0:
        yield None
        return
    with power_domain(tmp_path) as domain:
        yield domain


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.timeout(SECONDS + 2 * PATIENCE + 600)
async def test_nothing_is_lost_misstated_or_doubled_under_mixed_faults(
    tmp_path: Path, disk: PowerDomain | None
) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    ledger = tmp_path / "ledger"
    ledger.touch()
    clocks = Clocks(tmp_path) if Clocks.can_be_made() else None
    home = (disk.place if disk else tmp_path) / "home"
    with (KEPT / f"history-{SEED}.jsonl").open("w") as history:
        # Trainers write into the ledger, out of their sandboxes.
        settings = {**QUICK, "RUNSPINE_SANDBOX_PATHS": f"{tmp_path}:rw"}
        async with open_site(home, -(-IN_FLIGHT // 2), settings, disk, clocks) as site:
            work = Workload(site, ledger, history, SEED)
            striker = Striker(site, work, SEED)
            reporting = asyncio.create_task(show_progress(work, striker.struck))
            await under_fire(site, work, striker)
            reporting.cancel()
            emit(
                f"{len(work.asked)} runs, {striker.struck.counts.total()} faults: now peace, and the verdict"
            )
            verdict, counts = await checked_2(site, work, striker.struck, ledger)
    received = {**report(site, striker.struck), **counts, **asdict(verdict)}
    (KEPT / f"verdict-{SEED}.json").write_text(json.dumps(received, indent=1))
    print(json.dumps(received, indent=1))
    assert verdict.clean, verdict.examples


def emit(line: str) -> None:
    print(line, flush=True)


async def show_progress(work: Workload, struck: Struck) -> None:
    """How far it is; it takes long."""
    began = time.monotonic()
    while True:
        await asyncio.sleep(REPORT_SECONDS)
        gone = time.monotonic() - began
        emit(f"{gone:5.0f} of {SECONDS:.0f} s: {len(work.asked)} runs, {struck.counts.total()} faults")


async def under_fire(site: Site, work: Workload, striker: Striker) -> None:
    """Work and faults at the same time; faults may overlap."""
    working = asyncio.create_task(work.keep_going(IN_FLIGHT, SECONDS))
    until = time.monotonic() + SECONDS
    async with asyncio.TaskGroup() as striking:
        for fault in schedule(SEED, site.targets(), SECONDS, GAP):
            await asyncio.sleep(fault.after)
            if time.monotonic() >= until or working.done():
                break
            if fault.kind == "power":
                # A machine that starts is given the time for it; what is broken already stays so.
                await striker.strike(fault)
            else:
                striking.create_task(striker.strike(fault))
    await working


async def checked_2(
    site: Site, work: Workload, struck: Struck, ledger: Path
) -> tuple[Verdict, dict[str, object]]:
    verdict = Verdict()
    for run_id in await work.until_all_ended(PATIENCE):
        verdict.blame("lost_runs", f"{run_id} has not ended after {PATIENCE:.0f} s of peace")
    for run_id in await work.until_all_uploaded(PATIENCE):
        verdict.blame("never_stored", f"{run_id} has files in no store after {PATIENCE:.0f} s of peace")
    asked, log = list(work.asked.values()), await work.read_log("RUNS")
    check_acknowledged(verdict, work.asked, work.cancelled, log)
    check_ends(verdict, asked, log)
    workers = who_held(await work.read_log("ATTEMPTS"))

    def excused(run_id: str, attempt: int, at: float) -> bool:
        worker = workers.get((run_id, attempt), "")
        return any(who == worker and start <= at <= end + STOPPING for who, start, end in struck.unheard)

    lines = ledger.read_text().splitlines()
    check_ledger(verdict, lines, excused)
    # A run that was cancelled may have stopped anywhere.
    whole = [run for run in asked if CANCELLED not in run.ends]
    for first in range(0, len(whole), AT_ONCE):
        some = whole[first : first + AT_ONCE]
        found = await asyncio.gather(*(work.steps_of(run.run_id, run.steps) for run in some))
        for run, steps in zip(some, found, strict=True):
            check_steps(verdict, run, steps)
    flipped = {key.rpartition("/")[2] for key in struck.flipped}
    check_artifacts(verdict, await work.found_problems(), flipped, await reads_well(site, struck.flipped))
    begun = Counter(line.split()[0] for line in lines if line.endswith("begin"))
    return verdict, {
        "runs": len(asked),
        "attempts": begun.total(),
        "runs with more than one": sum(count > 1 for count in begun.values()),
        "cancelled": len(work.cancelled),
        "steps": sum(run.steps for run in whole),
        "bits flipped": len(flipped),
    }


def who_held(log: list[tuple[str, Commit]]) -> dict[tuple[str, int], str]:
    """The worker of each attempt, by the name of its part."""
    return {
        (subject.partition(".")[2], fact.attempt_started.attempt): (
            f"worker-{fact.attempt_started.worker_id.rpartition('-')[2]}"
        )
        for subject, commit in log
        for fact in commit.facts
        if fact.HasField("attempt_started")
    }


async def reads_well(site: Site, keys: set[str]) -> set[str]:
    """Digests of those objects that have the bytes they are named by."""
    stack = site.stack
    blobs = FileBlobs(
        ServiceSettings(
            s3_endpoint=stack.addresses["s3"],
            s3_access_key=stack.credentials.s3_access_key,
            s3_secret_key=stack.credentials.s3_secret_key,  # type: ignore[arg-type]
            s3_bucket=BUCKET,
        )
    )
    found = set()
    for key in keys:
        try:
            digest = await blobs.digest(key)
        except BlobsUnavailableError:
            continue
        if digest == key.rpartition("/")[2]:
            found.add(digest)
    return found


def report(site: Site, struck: Struck) -> dict[str, object]:
    counts: Counter[str] = Counter()
    for name, count in struck.counts.items():
        kind = next(kind for kind in sorted(KINDS, key=len, reverse=True) if name.startswith(kind))
        counts[kind] += count
    return {
        "seed": SEED,
        "seconds": SECONDS,
        "in flight": IN_FLIGHT,
        "faults": counts.total(),
        "by kind": dict(sorted(counts.items())),
        "left out here": [kind for kind in KINDS if not site.targets().get(kind)],
        "each": dict(sorted(struck.counts.items())),
    }
