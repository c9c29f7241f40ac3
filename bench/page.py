"""`python -m bench.page`: frames a second with thousands of runs, the server's cost, first paint, ten pages.

Everything is on one machine, the browser too, which gets what is left over.
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

from bench.browser import Browser, browsing, missing
from bench.figures import Report
from bench.long_series import NAME, put_series
from bench.page_scene import Scene
from bench.page_watchers import WATCHERS, measure_watchers
from bench.telemetry_store import admin, blobs_of, submit
from runspine.embedded import running_stack
from services.telemetry.edges.chain import Chain
from services.telemetry.edges.segment_store import SegmentStore

# Frames are counted while the table is scrolled, as a person would.
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
    """How many runs the page says there are."""
    return int(re.sub(r"\D", "", browser.find("#rs-count").text) or 0)


def measure_table(scene: Scene, report: Report, asked: argparse.Namespace) -> None:
    server = psutil.Process(scene.stack.pid("dashboard"))
    for _ in range(asked.trainers):
        scene.trainer(int(asked.rate * (asked.seconds + 60)), asked.rate)
    with browsing(scene.page) as browser:
        browser.login(scene.stack.token)
        browser.until(lambda: listed(browser) >= asked.runs, "all runs are listed", 120)
        scene.go()
        browser.until(lambda: browser.text().count("running") >= 1, "the trainers run")
        time.sleep(3)
        before, began = server.cpu_times(), time.perf_counter()
        rate, slowest = browser.driver.execute_async_script(COUNT, asked.seconds)
        after, took = server.cpu_times(), time.perf_counter() - began
    cpu = (after.user + after.system - before.user - before.system) / took
    what = f"{asked.runs:,} runs listed, {asked.trainers} trainers at {asked.rate:,.0f} steps/s"
    report.add(
        f"frames a second, {what}",
        rate,
        "/s",
        target="> 30",
        met=rate > 30,
        beside=f"slowest {slowest:.0f} ms",
    )
    report.add("CPU of the dashboard meanwhile", cpu * 100, "% of a core", beside="one page open")
    report.add(
        "memory of the dashboard", server.memory_info().rss / 2**20, "MiB", beside=f"{asked.runs:,} runs"
    )


def measure_paint(scene: Scene, report: Report, run_id: str, points: int) -> None:
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
            await put_series(Chain(blobs, 0, 1), SegmentStore(blobs, 1 << 20), run_id, points)
    return run_id


async def bench_page(asked: argparse.Namespace) -> Report:
    report = Report("The web page")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        home = Path(scratch) / "home"
        long_run = await put_long_run(home, asked.points) if asked.only in ("", "paint") else ""
        async with running_stack(home, slots=asked.trainers + 1, page=True) as stack:
            while stack.parts["dashboard"].state != "ready":
                await asyncio.sleep(0.1)
            scene = Scene(stack, Path(scratch))
            if asked.only in ("", "paint"):
                await asyncio.to_thread(measure_paint, scene, report, long_run, asked.points)
            if asked.only in ("", "watchers"):
                await asyncio.to_thread(measure_watchers, scene, report, asked)
            if asked.only in ("", "table"):
                await asyncio.to_thread(scene.list_runs, asked.runs)
                await asyncio.to_thread(measure_table, scene, report, asked)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--runs", type=int, default=2000)
    parser.add_argument("--trainers", type=int, default=8)
    parser.add_argument("--rate", type=float, default=10_000.0, help="steps a second of each")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long frames are counted")
    parser.add_argument("--points", type=int, default=10_000_000)
    parser.add_argument("--watchers", choices=tuple(WATCHERS), default="viewers", help="who looks")
    parser.add_argument("--view", choices=("run", "runs"), default="run", help="what they look at")
    parser.add_argument("--rounds", type=int, default=6, help="with pages and without, in turn")
    parser.add_argument("--window", type=float, default=12.0, help="seconds that are measured of each")
    parser.add_argument("--learners", type=int, default=os.cpu_count() or 1, help="PPOs that train meanwhile")
    parser.add_argument("--only", choices=("paint", "watchers", "table"), default="", help="one part of it")
    parser.add_argument("--quick", action="store_true", help="smaller in everything but the runs")
    asked = parser.parse_args()
    if asked.quick:
        asked.trainers, asked.rate, asked.rounds, asked.window = 2, 2000.0, 2, 4.0
    if missing():
        raise SystemExit(missing())
    print(asyncio.run(bench_page(asked)).as_markdown())


if __name__ == "__main__":
    main()
