"""Cost of ten open pages for trainers: speed and CPU with and without them, in turn.

One trainer per core learns all the time, so that the pages compete with trainers for the cores.
The trainers' speed comes from their telemetry, read at the end.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import numpy as np
import psutil

from runspine.bench.kit.browser import Browser, browsing
from runspine.bench.kit.figures import Report
from runspine.bench.pages.scene import ROOT, PageScene

PAGES = 10
WARM_SECONDS, SETTLE_SECONDS = 15.0, 4.0
SERVICES = ("dashboard", "telemetry", "orchestrator", "nats")
CLIENTS = "the pages' own clients"
TRAINERS = "trainers"
NICEST = 19


@dataclass(slots=True)
class MeasuredWindow:
    """An interval, and the CPU of each service and of the watchers in it, as shares of a core."""

    pages: bool
    begun: float
    ended: float
    cpu: dict[str, float]


def quiet(pid: int) -> None:
    """Lower the priority of a process tree that stands for other machines."""
    for process in (root := psutil.Process(pid), *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.nice(NICEST)
            _make_session_nice(process.pid)


def _make_session_nice(pid: int) -> None:
    """Lower the priority of the session too: with autogroups, nice applies only within a session."""
    for _ in range(20):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(NICEST))
            return
        except BlockingIOError:
            time.sleep(0.1)  # the kernel accepts ten such writes a second
        except OSError:
            return


@contextlib.contextmanager
def viewers(scene: PageScene, path: str) -> Iterator[int]:
    """Simulated pages of other machines; yields the id of their process."""
    command = [
        sys.executable, "-m", "runspine.bench.pages.viewers", "--address", scene.page,
        "--path", path, "--pages", str(PAGES),
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as output:
        environment = {**os.environ, "RUNSPINE_TOKEN": scene.stack.token}
        process = subprocess.Popen(command, stdout=output, cwd=ROOT, env=environment, start_new_session=True)
        try:
            _until_open(process, output.fileno())
            quiet(process.pid)
            yield process.pid
            assert process.poll() is None, "the pages were closed"
        finally:
            process.terminate()
            process.wait()


def _until_open(process: subprocess.Popen[bytes], descriptor: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        lines = Path(f"/proc/self/fd/{descriptor}").read_text().splitlines()
        if lines and json.loads(lines[-1])["received"] >= 3 * PAGES:
            return
        assert process.poll() is None, "no page could be opened"
        assert time.monotonic() < deadline, "the pages do not open"
        time.sleep(0.1)


@contextlib.contextmanager
def _chromium(scene: PageScene, path: str, kind: str) -> Iterator[int]:
    with browsing(scene.page) as browser:
        browser.login(scene.stack.token, to=path)
        _quiet_browser(browser)
        for _ in range(PAGES - 1):
            browser.driver.switch_to.new_window(kind)
            browser.open(path)
            _quiet_browser(browser)
        yield _quiet_browser(browser)


def _quiet_browser(browser: Browser) -> int:
    service = browser.driver.service.process
    assert service is not None
    quiet(service.pid)
    return service.pid


# Kinds of watchers: clients that draw nothing; windows of a browser; its tabs, of which one is visible.
WATCHERS: dict[str, Callable[[PageScene, str], contextlib.AbstractContextManager[int]]] = {
    "viewers": viewers,
    "windows": lambda scene, path: _chromium(scene, path, "window"),
    "tabs": lambda scene, path: _chromium(scene, path, "tab"),
}
DESCRIPTIONS = {
    "viewers": "ten open pages elsewhere",
    "windows": "ten windows of Chromium on the same cores",
    "tabs": "ten tabs of Chromium on the same cores",
}


def measure_watchers(scene: PageScene, report: Report, args: argparse.Namespace) -> None:
    runs = [scene.learner(seed) for seed in range(args.learners)]
    path = f"/run/{runs[0]}" if args.view == "run" else "/"
    time.sleep(WARM_SECONDS)
    windows = [_measured(scene, None, args.window)]
    for _ in range(args.rounds):
        with WATCHERS[args.watchers](scene, path) as watchers:
            time.sleep(SETTLE_SECONDS)
            windows.append(_measured(scene, watchers, args.window))
        time.sleep(SETTLE_SECONDS)
        windows.append(_measured(scene, None, args.window))
    courses = [scene.course(run_id) for run_id in runs]
    for run_id in runs:
        scene.client.cancel(run_id)
    speeds = [
        sum(float(np.diff(np.interp([w.begun, w.ended], *course))[0]) for course in courses)
        / (w.ended - w.begun)
        for w in windows
    ]
    _report(report, args, windows, speeds)


def _measured(scene: PageScene, watchers: int | None, seconds: float) -> MeasuredWindow:
    roots = {name: scene.stack.pid(name) for name in SERVICES}
    roots[TRAINERS] = scene.stack.pid("worker")
    if watchers is not None:
        roots[CLIENTS] = watchers
    begun, before = time.time(), {name: _used(name, pid) for name, pid in roots.items()}
    time.sleep(seconds)
    ended, after = time.time(), {name: _used(name, pid) for name, pid in roots.items()}
    cpu = {name: (after[name] - before[name]) / (ended - begun) for name in roots}
    return MeasuredWindow(watchers is not None, begun, ended, cpu)


def _used(name: str, pid: int) -> float:
    """CPU seconds of a process and its children; of the worker, only of its children."""
    total, root = 0.0, psutil.Process(pid)
    for process in (*(() if name == TRAINERS else (root,)), *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _report(
    report: Report, args: argparse.Namespace, windows: list[MeasuredWindow], speeds: list[float]
) -> None:
    what = f"{args.learners} PPO with {DESCRIPTIONS[args.watchers]} ({args.view})"
    rounds = f"{args.rounds} rounds of {args.window:.0f} s"
    for name, values in (
        ("CPU time that the trainers get", [window.cpu[TRAINERS] for window in windows]),
        ("speed", speeds),
    ):
        ratio, spread = compared(values)
        unit = "cores" if name != "speed" else "steps/s"
        context = f"{rounds}: {spread}; {median(values[::2]):,.2f} {unit} without"
        report.add(
            f"{name}, {what} ÷ with none", ratio, "", target="≥ 0.98", met=ratio >= 0.98, context=context
        )
    for name in (*SERVICES, CLIENTS):
        without, with_pages = (
            median(window.cpu.get(name, 0.0) for window in windows if window.pages is pages)
            for pages in (False, True)
        )
        report.add(f"CPU of {name}", with_pages * 100, "% of a core", context=f"{without:.1%} without pages")


def compared(values: list[float]) -> tuple[float, str]:
    """Ratio of the values with pages to those without, and its spread. Every second value is with pages.

    Each is between two values without, so that drift cancels out.
    """
    ratios = sorted(2 * values[i] / (values[i - 1] + values[i + 1]) for i in range(1, len(values), 2))
    # The same ratio between values without pages shows the noise.
    idle = values[::2]
    chance = sorted(2 * idle[i] / (idle[i - 1] + idle[i + 1]) for i in range(1, len(idle) - 1))
    spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
    if chance:
        spread += f"; without pages against without {chance[0]:.3f} to {chance[-1]:.3f}"
    return median(ratios), spread
