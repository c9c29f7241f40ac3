"""Many schedules, one seed after the other, and what came of them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path

from runspine.eventlog.server_errors import TABLE, Verdict
from tests.simulation.control import run_control_schedule
from tests.simulation.launcher.schedule import run_launcher_schedule
from tests.simulation.log_writers import run_log_schedule
from tests.simulation.plan import Plan, parse_plan, shrink
from tests.simulation.reinjected import INJECTIONS
from tests.simulation.storage import run_artifacts_schedule, run_telemetry_schedule
from tests.simulation.world import World, discard_garbage, quiet

KINDS: dict[str, Callable[[Plan, bool], World]] = {
    "artifacts": run_artifacts_schedule,
    "control": run_control_schedule,
    "launcher": run_launcher_schedule,
    "log": run_log_schedule,
    "telemetry": run_telemetry_schedule,
}
# Schedules that are run to shrink one.
SHRINK_TRIES = 120
KEPT_SEEDS = Path(__file__).with_name("kept_seeds.txt")
# Below this many schedules of a kind, a branch that was not reached is no news.
ENOUGH = 1000
# What each kind of schedule must reach; a long campaign that misses one has not searched.
EXPECTED_BRANCHES: dict[str, tuple[str, ...]] = {
    "artifacts": (
        "artifacts.kept",
        "artifacts.pruned",
        "attempt.declared_lost",
        "checkpoint.after_its_steps",
        "s3.500",
        "s3.503",
        "s3.not_found_yet",
        "s3.process_killed_at_a_request",
        "s3.reply_lost",
        "snapshot.behind",
        "upload.resumed",
    ),
    "telemetry": (
        "attempt.declared_lost",
        "checkpoint.after_its_steps",
        "ingest.commit_lost",
        "s3.process_killed_at_a_request",
        "s3.reply_lost",
        "spool.dropped",
        "telemetry.batch_stored_late",
        "telemetry.run_complete",
        "telemetry.run_resumed",
    ),
    "control": (
        "attempt.declared_lost",
        "attempt.fenced",
        "attempt.late_exit_fenced",
        "attempt.stopped",
        "beats.held_up",
        "board.behind",
        "call.answered_from_the_past",
        "call.cancel.ok",
        "call.cancel.refused",
        "call.priority.refused",
        "call.submit.unknown",
        "lease.GiveUp",
        "log.conflict",
        "nats.10043",
        "nats.10158",
        "nats.10164",
        "nats.consumer_moved",
        "nats.redelivery",
        "run.CANCELLED",
        "run.COMPLETED",
        "run.FAILED",
        "run.more_than_one_attempt",
        "worker.survivor_ended",
    ),
    "launcher": (
        "attempt.fenced",
        "engine.away",
        "engine.cancelled",
        "engine.exists_already",
        "engine.launched",
        "engine.launched_again",
        "lease.GiveUp",
        "run.COMPLETED",
        "run.FAILED",
        "run.more_than_one_attempt",
    ),
    "log": (
        "command.ConflictError",
        "command.NatsUnreachableError",
        "key.NatsUnreachableError",
        "log.own_found",
        "log.conflict",
        "nats.10008",
        "nats.10009",
        "nats.10023",
        "nats.10037",
        "nats.10047",
        "nats.10059",
        "nats.10071",
        "nats.10077",
        "nats.10158",
        "nats.10164",
        "nats.503",
        "nats.direct_get_behind",
        "nats.duplicate",
        "nats.election",
        "nats.proposal_lost_with_its_leader",
        "nats.proposal_survived_its_leader",
        "nats.read_from_deposed_leader",
        "publisher.resend",
        "publisher.answer_behind",
        "start.again",
        "writer.follower_frozen",
        *(f"nats.{code}" for code, row in TABLE.items() if row.verdict is Verdict.RETRY),
    ),
}


@dataclass
class Report:
    """What a campaign did and found."""

    schedules: Counter[str] = field(default_factory=Counter)
    callbacks: int = 0
    virtual_seconds: float = 0.0
    # By kind of schedule and branch.
    reached: Counter[tuple[str, str]] = field(default_factory=Counter)
    failed: list[tuple[Plan, list[str]]] = field(default_factory=list)
    seconds: float = 0.0
    # Of processors: what a machine that is busy with other work does not change.
    cpu_seconds: float = 0.0

    def add(self, world: World) -> None:
        self.schedules[world.plan.kind] += 1
        self.callbacks += world.loop.callbacks
        self.virtual_seconds += world.loop.now
        self.reached.update({(world.plan.kind, branch): times for branch, times in world.reached.items()})
        if world.problems:
            self.failed.append((world.plan, world.problems))

    def merge(self, other: Report) -> None:
        self.schedules.update(other.schedules)
        self.callbacks += other.callbacks
        self.virtual_seconds += other.virtual_seconds
        self.reached.update(other.reached)
        self.failed += other.failed
        self.cpu_seconds += other.cpu_seconds

    def missed(self) -> dict[str, list[str]]:
        """Branches that no schedule has reached, by the kind that should have."""
        missed = {
            kind: sorted(branch for branch in EXPECTED_BRANCHES[kind] if not self.reached[kind, branch])
            for kind in self.schedules
        }
        return {kind: branches for kind, branches in missed.items() if branches}


def injection(name: str) -> AbstractContextManager[None]:
    return INJECTIONS[name][0]() if name else nullcontext()


def run_schedule(plan: Plan, inject: str = "", trace: bool = False) -> World:
    """One schedule. Call within `quiet`."""
    with injection(inject):
        return KINDS[plan.kind](plan, trace)


def shrunk(plan: Plan, inject: str = "", tries: int = SHRINK_TRIES) -> Plan:
    """The smallest part of a failing schedule that was found to fail in the same way."""
    with quiet():
        whole = run_schedule(plan, inject)
        sort = problem_sort(whole.problems[0])

        def fails(candidate: Plan) -> bool:
            world = run_schedule(candidate, inject)
            discard_garbage()
            return any(problem_sort(found) == sort for found in world.problems)

        return shrink(plan, list(whole.parts), fails, tries)


def problem_sort(problem: str) -> str:
    """What kind of problem it is, without ids, numbers and times."""
    return re.sub(r"[0-9A-Z]{26}|[0-9a-f]{8,}|[0-9.]+", "#", problem.partition("\n")[0])[:60]


def run_seeds(
    kind: str, seeds: Iterable[int], seconds: float, inject: str = "", stop: bool = False
) -> Report:
    """Seeds in turn until the time is over; with `stop`, until one fails or CPU seconds are used up."""
    report, began, cpu = Report(), time.monotonic(), time.process_time()
    clock = time.process_time if stop else time.monotonic
    until = clock() + seconds
    with quiet():
        for seed in seeds:
            report.add(run_schedule(Plan(kind, seed), inject))
            discard_garbage()
            if clock() >= until or (stop and report.failed):
                break
    report.seconds, report.cpu_seconds = time.monotonic() - began, time.process_time() - cpu
    return report


def run_campaign(kinds: list[str], first: int, seconds: float, jobs: int) -> Report:
    """Every kind for its share of the time, on so many processes."""
    whole, began = Report(), time.monotonic()
    with ProcessPoolExecutor(jobs) as pool:
        share = seconds / len(kinds)
        for kind in kinds:
            parts = [
                pool.submit(run_seeds, kind, range(first + job, first + 10**9, jobs), share)
                for job in range(jobs)
            ]
            for part in parts:
                whole.merge(part.result())
    whole.seconds = time.monotonic() - began
    return whole


def search_again(name: str, search: int, seconds: float) -> Report:
    """Schedules with a fault that was switched back on, until it is found."""
    first = 1 + search * 1_000_000
    return run_seeds(INJECTIONS[name][1], range(first, first + 10**6), seconds, name, stop=True)


def searches(names: list[str], count: int, seconds: float, jobs: int) -> Iterator[tuple[str, list[Report]]]:
    """So many searches for each fault, on so many processes."""
    with ProcessPoolExecutor(jobs) as pool:
        of = {
            name: [pool.submit(search_again, name, number, seconds) for number in range(count)]
            for name in names
        }
        for name, begun in of.items():
            yield name, [one.result() for one in begun]


def kept_seeds() -> Iterator[tuple[Plan, str]]:
    """Schedules that once failed, and what they had found."""
    for line in KEPT_SEEDS.read_text().splitlines():
        if line and not line.startswith("#"):
            schedule, _, why = line.partition(": ")
            yield parse_plan(schedule), why
