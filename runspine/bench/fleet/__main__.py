"""`python -m runspine.bench.fleet`: work of the orchestrator by the size of the fleet, in one process."""

from __future__ import annotations

import sys

from runspine.bench.fleet.answers import bench_answers
from runspine.bench.fleet.ended import bench_ended

WORKERS, RUNS = (10, 100, 1_000, 10_000), (100, 1_000, 10_000, 100_000)
ENDED = (1_000, 10_000, 100_000)


def main() -> None:
    reports = [bench_answers(WORKERS, RUNS, announce), bench_ended(ENDED, announce)]
    for report in reports:
        print(report.as_markdown())
        for curve in report.curves:
            points = "  ".join(f"{size:,.0f}: {cost * 1e6:,.0f} µs" for size, cost in curve.points)
            print(f"{curve.chart} · {curve.name}: {points}")


def announce(line: str) -> None:
    print(line, file=sys.stderr)


if __name__ == "__main__":
    main()
