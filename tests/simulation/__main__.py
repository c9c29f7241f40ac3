"""`python -m tests.simulation`: search schedules, replay one, or show in how many a known fault is found.

python -m tests.simulation --seconds 60                    search, and report what was reached
python -m tests.simulation --kind log --seed 276 --trace   one schedule, with its messages
python -m tests.simulation --kind log --seed 276 --shrink  the smallest part of it that fails, to be kept
python -m tests.simulation --seconds 28800 --night        fail when a rare branch was never reached
python -m tests.simulation --kept                          the schedules that once failed
python -m tests.simulation --table                         each fault of reinjected.py until it is found
"""

from __future__ import annotations

import argparse
import ctypes
import os
import statistics
import sys
from collections.abc import Sequence

from tests.simulation.campaign import (
    ENOUGH,
    KINDS,
    Report,
    kept_seeds,
    run_campaign,
    run_schedule,
    run_seeds,
    searches,
    shrunk,
)
from tests.simulation.plan import Plan, parse_plan
from tests.simulation.reinjected import INJECTIONS
from tests.simulation.world import quiet, silence

# Of personality(2).
ADDR_NO_RANDOMIZE = 0x0040000
# Failed schedules of a search that are shrunk.
SHRUNK = 1
SEARCHES = 3


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--kind", choices=sorted(KINDS), help="of schedule; all by default")
    parser.add_argument("--seed", type=int, help="replay this schedule")
    parser.add_argument("--seeds", type=int, nargs="*", default=[], help="replay these schedules")
    parser.add_argument("--first", type=int, default=1, help="seed of a search")
    parser.add_argument(
        "--seconds", type=float, default=60.0, help="of a search, at most; of a table, CPU seconds of each"
    )
    parser.add_argument("--jobs", type=int, default=os.cpu_count(), help="processes of a search")
    parser.add_argument("--inject", default="", choices=["", *INJECTIONS], help="a fault to switch back on")
    parser.add_argument("--until-found", action="store_true", help="end a search with the first violation")
    parser.add_argument("--plan", default="", help="replay a shrunk schedule, as --shrink writes it")
    parser.add_argument("--shrink", action="store_true", help="leave out what a failure does not need")
    parser.add_argument("--kept", action="store_true", help="replay kept_seeds.txt")
    parser.add_argument("--trace", action="store_true", help="print the messages of a replay")
    parser.add_argument("--night", action="store_true", help="a branch that no schedule reached is a failure")
    parser.add_argument("--table", action="store_true", help="search for each fault of reinjected.py")
    parser.add_argument("--only", default="", help="faults of a table, separated by commas")
    options = parser.parse_args()
    # Coroutines of a schedule are collected at some time after it, and have no loop to run on.
    silence()
    if options.table:
        return table(
            options.only.split(",") if options.only else list(INJECTIONS), options.seconds, options.jobs
        )
    kinds = [options.kind] if options.kind else sorted(KINDS)
    seeds = options.seeds if options.seed is None else [options.seed]
    if options.plan:
        return replay(parse_plan(options.plan), options.inject, options.trace)
    if options.kept:
        return max(replay(plan, options.inject, options.trace) for plan, _ in kept_seeds())
    if seeds:
        plans = [Plan(kind, seed) for kind in kinds for seed in seeds]
        return max(replay(plan, options.inject, options.trace, options.shrink) for plan in plans)
    if options.inject:
        seeds = range(options.first, 10**9)
        report = run_seeds(kinds[0], seeds, options.seconds, options.inject, options.until_found)
    else:
        report = run_campaign(kinds, options.first, options.seconds, options.jobs)
    return show(report, options.inject, options.night)


def replay(plan: Plan, inject: str, trace: bool, smaller: bool = False) -> int:
    with quiet():
        world = run_schedule(plan, inject, trace)
    for line in world.loop.lines or ():
        print(line)
    print(f"{plan}: {world.loop.now:.3f} virtual s, {world.loop.callbacks} callbacks, {world.digest()}")
    for problem in world.problems:
        print(f"  {problem}")
    if smaller and world.problems:
        show_shrunk(plan, inject)
    return 1 if world.problems else 0


def show_shrunk(plan: Plan, inject: str) -> None:
    """The line for kept_seeds.txt, and what is left of the schedule."""
    small = shrunk(plan, inject)
    with quiet():
        world = run_schedule(small, inject)
    left = [part for part, taken in world.parts.items() if taken]
    print(f"shrunk from {len(world.parts)} faults and calls to {len(left)}: {', '.join(left)}")
    print(f"kept_seeds.txt: {small}: {world.problems[0]}")


def show(report: Report, inject: str = "", night: bool = False) -> int:
    count = report.schedules.total()
    rate, alone = count / report.seconds, count / max(report.cpu_seconds, 1e-9)
    shares = ", ".join(f"{number} {kind}" for kind, number in report.schedules.items())
    print(f"{count} schedules ({shares}) in {report.seconds:.1f} s, {rate:.1f} a second")
    print(f"{alone:.1f} a second and core, by the time that the processors took;")
    print(f"{report.virtual_seconds:.0f} virtual seconds, {report.callbacks} callbacks")
    for (kind, branch), times in sorted(report.reached.items()):
        print(f"  {kind:9} {branch:45} {times}")
    missed = report.missed()
    for kind, branches in missed.items():
        print(f"never reached by {kind}: {', '.join(branches)}")
    few = [kind for kind, number in report.schedules.items() if number < ENOUGH]
    if few and not inject and not night:
        print(f"fewer than {ENOUGH} schedules, what they did not reach is no news: {', '.join(few)}")
    also = f" --inject {inject}" if inject else ""
    for plan, problems in report.failed:
        print(f"FAILED: python -m tests.simulation --kind {plan.kind} --seed {plan.seed}{also}")
        for problem in problems:
            print(f"  {problem}")
    for plan, _ in report.failed[:SHRUNK]:
        show_shrunk(plan, inject)
    print(f"{len(report.failed)} violations")
    unsearched = [kind for kind in missed if night or kind not in few]
    return 1 if report.failed or (unsearched and not inject) else 0


def table(names: list[str], most_seconds: float, jobs: int) -> int:
    """For each fault: in how many searches it was found, after how many schedules and seconds."""
    print(f"{'fault':22} {'kind':9} found schedules  CPU s   most      s  first problem")
    missing = 0
    for name, reports in searches(names, SEARCHES, most_seconds, jobs):
        found = [report for report in reports if report.failed]
        missing += len(found) < SEARCHES
        print(
            f"{name:22} {INJECTIONS[name][1]:9} {len(found)}/{SEARCHES} "
            f"{median([report.schedules.total() for report in found]):>10.0f} "
            f"{median([report.cpu_seconds for report in found]):>6.1f} "
            f"{max((report.cpu_seconds for report in reports), default=0.0):>6.1f} "
            f"{median([report.seconds for report in found]):>6.1f}  "
            f"{first_problem(found)}",
            flush=True,
        )
    return 1 if missing else 0


def first_problem(found: list[Report]) -> str:
    """The schedule that found it, to be replayed with --inject, and what it found."""
    plan, problems = found[0].failed[0] if found else ("-", [""])
    return f"{plan}: {problems[0][:60]}"


def median(values: Sequence[float]) -> float:
    return statistics.median(values) if values else 0.0


if __name__ == "__main__":
    if os.environ.get("RUNSPINE_SIMULATION") != "1":
        # The order of sets of text is part of a schedule, and so is that of maps in messages of protobuf,
        # which follows from addresses in memory.
        os.environ |= {"PYTHONHASHSEED": "0", "RUNSPINE_SIMULATION": "1"}
        ctypes.CDLL(None).personality(ADDR_NO_RANDOMIZE)
        os.execv(sys.executable, [sys.executable, "-m", "tests.simulation", *sys.argv[1:]])
    sys.exit(main())
