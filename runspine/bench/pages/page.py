"""`python -m runspine.bench.pages.page`: cost and first paint of the web page with thousands of runs.

Everything runs on one machine, including the browser.
"""

from __future__ import annotations

import argparse
import asyncio
import os
import re
import tempfile
import time
from pathlib import Path

import psutil

from runspine.bench.kit.browser import Browser, browsing, missing
from runspine.bench.kit.figures import Report
from runspine.bench.pages.scene import PageScene
from runspine.bench.pages.watchers import WATCHERS, measure_watchers
from runspine.bench.telemetry.long_series import NAME, put_series
from runspine.bench.telemetry.store import admin, blobs_of, submit
from runspine.embedded import running_stack
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore

# Counts frames while the table is scrolled.
COUNT = """
const [seconds, done] = arguments, body = document.querySelector(".ag-body-viewport");
let frames = 0, slowest = 0, before = performance.now();
const begun = before;
const tick = (now) => {
  frames++;
  slowest = Math.max(slowest, now - before);
  before = now;
  if (body) body.scrollTop += 12;
  if (now - begun < seconds * 1000) requestAnimationFrame(tick);
  else done([frames * 1000 / (now - begun), slowest]);
};
requestAnimationFrame(tick);
"""
DRAWN = """
const charts = [...document.querySelectorAll(".rs-curve")];
return charts.some((chart) => Number(chart.dataset.points) >= arguments[0]);
"""


def listed(browser: Browser) -> int:
    """Number of runs that the page shows."""
    return int(re.sub(r"\D", "", browser.find("#rs-count").text) or 0)


def measure_table(scene: PageScene, report: Report, args: argparse.Namespace) -> None:
    server = psutil.Process(scene.stack.pid("dashboard"))
    for _ in range(args.trainers):
        scene.trainer(int(args.rate * (args.seconds + 60)), args.rate)
    with browsing(scene.page) as browser:
        browser.login(scene.stack.token)
        browser.until(lambda: listed(browser) >= args.runs, "all runs are listed", 120)
        scene.go()
        browser.until(lambda: browser.text().count("running") >= 1, "the trainers run")
        time.sleep(3)
        before, began = server.cpu_times(), time.perf_counter()
        rate, slowest = browser.driver.execute_async_script(COUNT, args.seconds)
        after, took = server.cpu_times(), time.perf_counter() - began
    cpu = (after.user + after.system - before.user - before.system) / took
    what = f"{args.runs:,} runs listed, {args.trainers} trainers at {args.rate:,.0f} steps/s"
    report.add(
        f"frames a second, {what}",
        rate,
        "/s",
        target="> 30",
        met=rate > 30,
        context=f"slowest {slowest:.0f} ms",
    )
    report.add("CPU of the dashboard meanwhile", cpu * 100, "% of a core", context="one page open")
    report.add(
        "memory of the dashboard", server.memory_info().rss / 2**20, "MiB", context=f"{args.runs:,} runs"
    )


def measure_paint(scene: PageScene, report: Report, run_id: str, points: int) -> None:
    with browsing(scene.page) as browser:
        browser.login(scene.stack.token)
        for what in ("first", "again"):
            began = time.perf_counter()
            browser.open(f"/run/{run_id}")
            browser.until(
                lambda: browser.script(DRAWN, points),
                f"the chart of {NAME}",
                120,
            )
            took = time.perf_counter() - began
            report.add(
                f"{what} paint of a run with {points:,} points", took, "s", target="≤ 2 s", met=took <= 2
            )


async def put_long_run(home: Path, points: int) -> str:
    async with running_stack(home, only={"nats", "s3"}) as stack:
        blobs = blobs_of(stack)
        async with admin(stack) as (_, log):
            run_id: str = await submit(log)
            await put_series(ManifestChain(blobs, 0, 1), SegmentStore(blobs, 1 << 20), run_id, points)
    return run_id


async def bench_page(args: argparse.Namespace) -> Report:
    report = Report("The web page")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        home = Path(scratch) / "home"
        long_run = await put_long_run(home, args.points) if args.only in ("", "paint") else ""
        async with running_stack(home, slots=args.trainers + 1, page=True) as stack:
            while stack.parts["dashboard"].state != "ready":
                await asyncio.sleep(0.1)
            scene = PageScene(stack, Path(scratch))
            if args.only in ("", "paint"):
                await asyncio.to_thread(measure_paint, scene, report, long_run, args.points)
            if args.only in ("", "watchers"):
                await asyncio.to_thread(measure_watchers, scene, report, args)
            if args.only in ("", "table"):
                await asyncio.to_thread(scene.list_runs, args.runs)
                await asyncio.to_thread(measure_table, scene, report, args)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--trainers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=10_000.0, help="steps a second of each")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long frames are counted")
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--watchers", choices=tuple(WATCHERS), default="viewers", help="kind of watcher")
    parser.add_argument("--view", choices=("run", "runs"), default="run", help="page that they watch")
    parser.add_argument("--rounds", type=int, default=6, help="with pages and without, in turn")
    parser.add_argument("--window", type=float, default=12.0, help="seconds that are measured of each")
    parser.add_argument("--learners", type=int, default=os.cpu_count() or 1, help="PPOs that train meanwhile")
    parser.add_argument("--only", choices=("paint", "watchers", "table"), default="", help="one part of it")
    parser.add_argument("--quick", action="store_true", help="smaller in everything but the runs")
    args = parser.parse_args()
    if args.quick:
        args.trainers, args.rate, args.rounds, args.window = 2, 2000.0, 2, 4.0
    if missing():
        raise SystemExit(missing())
    print(asyncio.run(bench_page(args)).as_markdown())


if __name__ == "__main__":
    main()
