"""Fifty runs in flight, every process killed and frozen at random: nothing lost, misstated or doubled.

`make chaos SECONDS=1800 SEED=7` takes as long as it is told. The history of the client and of the faults
is kept in build/chaos, with the verdict.
"""

from __future__ import annotations

import asyncio
import json
import os
import random
import time
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.wire.v1.run_pb2 import CANCELLED
from tests.chaos.mixed.faults import schedule, strike
from tests.chaos.mixed.verdict import Verdict, check_ends, check_ledger, check_steps
from tests.chaos.mixed.workload import Workload

SECONDS = float(os.environ.get("RUNSPINE_CHAOS_SECONDS", "60"))
SEED = int(os.environ.get("RUNSPINE_CHAOS_SEED") or random.randrange(1 << 31))
IN_FLIGHT = int(os.environ.get("RUNSPINE_CHAOS_RUNS", "50"))
# Seconds between faults, in the mean: a service needs a second or two to be back.
GAP = 4.0
PATIENCE = 600.0
WORKERS, SLOTS = 2, 4
PARTS = ("nats", "s3", "orchestrator", "telemetry", "artifacts", "worker-1", "worker-2")
QUICK = {"RUNSPINE_STALE_AFTER": "3", "RUNSPINE_LOST_AFTER": "8"}
KEPT = Path("build/chaos")


@pytest.mark.chaos
@pytest.mark.long
@pytest.mark.timeout(SECONDS + 2 * PATIENCE + 300)
async def test_nothing_is_lost_misstated_or_doubled_under_mixed_faults(tmp_path: Path) -> None:
    KEPT.mkdir(parents=True, exist_ok=True)
    ledger = tmp_path / "ledger"
    ledger.touch()
    with (KEPT / f"history-{SEED}.jsonl").open("w") as history:
        async with running_stack(tmp_path / "home", workers=WORKERS, slots=SLOTS, settings=QUICK) as stack:
            work = Workload(stack, ledger, history, SEED)
            struck = await under_fire(stack, work)
            verdict, counts = await judged(work, ledger)
    report = {"seed": SEED, "seconds": SECONDS, "faults": dict(sorted(struck.items())), **counts}
    (KEPT / f"verdict-{SEED}.json").write_text(json.dumps({**report, **asdict(verdict)}, indent=1))
    print(json.dumps({**report, **asdict(verdict)}, indent=1))
    assert verdict.clean, verdict.examples


async def under_fire(stack: Stack, work: Workload) -> Counter[str]:
    """Work and faults at the same time; how often each fault struck."""
    struck: Counter[str] = Counter()
    working = asyncio.create_task(work.keep_going(IN_FLIGHT, SECONDS))
    until = time.monotonic() + SECONDS
    for fault in schedule(SEED, PARTS, SECONDS, GAP):
        if time.monotonic() >= until or working.done():
            break
        struck[fault.name] += await strike(stack, fault)
    await working
    return struck


async def judged(work: Workload, ledger: Path) -> tuple[Verdict, dict[str, int]]:
    verdict = Verdict()
    for run_id in await work.until_all_ended(PATIENCE):
        verdict.blame("lost_runs", f"{run_id} has not ended after {PATIENCE:.0f} s of peace")
    asked = list(work.asked.values())
    check_ends(verdict, asked, await work.read_log("RUNS"))
    check_ledger(verdict, ledger.read_text().splitlines())
    # A run that was cancelled may have stopped anywhere.
    whole = [run for run in asked if CANCELLED not in run.ends]
    for run in whole:
        check_steps(verdict, run, await work.steps_of(run.run_id, run.steps))
    for flaw in await work.flaws():
        verdict.blame("unreadable", flaw)
    attempts = len(ledger.read_text().splitlines())
    counts = {"runs": len(asked), "steps": sum(run.steps for run in whole), "lines in the ledger": attempts}
    return verdict, counts
