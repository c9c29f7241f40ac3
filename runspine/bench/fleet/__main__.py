"""`python -m runspine.bench.fleet`: work of the orchestrator by the size of the fleet, in one process."""

from __future__ import annotations

import sys

from runspine.bench.fleet.answers import bench_answers

WORKERS, RUNS = (10, 100, 1_000, 10_000), (100, 1_000, 10_000, 100_000)


def main() -> None:
    report = bench_answers(WORKERS, RUNS, lambda line: print(line, file=sys.stderr))
    print(report.as_markdown())
    for curve in report.curves:
        points = "  ".join(f"{size:,.0f}: {cost * 1e6:,.0f} µs" for size, cost in curve.points)
        print(f"{curve.chart} · {curve.name}: {points}")


if __name__ == "__main__":
    main()
