"""What ten open pages cost whoever trains: speed and CPU with and without them, in turn.

Trainers learn all the while, one for each core, so that every second the pages take is one less for them.
Their speed comes from their own telemetry, read when all is over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
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

from bench.browser import Browser, browsing
from bench.figures import Report
from bench.page_scene import ROOT, Scene

PAGES = 10
WARM_SECONDS, SETTLE_SECONDS = 15.0, 4.0
SERVICES = ("dashboard", "telemetry", "orchestrator", "nats")
NICEST = 19


@dataclass(slots=True)
class Window:
    """A stretch of time, what each service used in it as a share of a core."""

    pages: bool
    begun: float
    ended: float
    cpu: dict[str, float]


def quiet(pid: int) -> None:
    """What stands for other machines must not take the trainers' cores."""
    for process in (root := psutil.Process(pid), *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            process.nice(NICEST)
            _make_session_nice(process.pid)


def _make_session_nice(pid: int) -> None:
    """Where the kernel shares cores out by session, a process is only nice to its own."""
    for _ in range(20):
        try:
            Path(f"/proc/{pid}/autogroup").write_text(str(NICEST))
            return
        except BlockingIOError:
            time.sleep(0.1)  # it takes ten such words a second
        except OSError:
            return


@contextlib.contextmanager
def viewers(scene: Scene, path: str) -> Iterator[None]:
    """Pages that are open somewhere else: their traffic, and no drawing."""
    command = [
        sys.executable, "-m", "bench.page_viewers", "--address", scene.page, "--token", scene.stack.token,
        "--path", path, "--pages", str(PAGES),
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, cwd=ROOT, start_new_session=True)
        try:
            _until_open(process, said.fileno())
            quiet(process.pid)
            yield
            assert process.poll() is None, "the pages were closed"
        finally:
            process.terminate()
            process.wait()


def _until_open(process: subprocess.Popen[bytes], descriptor: int) -> None:
    deadline = time.monotonic() + 120
    while True:
        lines = Path(f"/proc/self/fd/{descriptor}").read_text().splitlines()
        if lines and json.loads(lines[-1])["heard"] >= 3 * PAGES:
            return
        assert process.poll() is None, "no page could be opened"
        assert time.monotonic() < deadline, "the pages do not open"
        time.sleep(0.1)


@contextlib.contextmanager
def _chromium(scene: Scene, path: str, kind: str) -> Iterator[None]:
    with browsing(scene.page) as browser:
        browser.login(scene.stack.token, to=path)
        _quiet_browser(browser)
        for _ in range(PAGES - 1):
            browser.driver.switch_to.new_window(kind)
            browser.open(path)
            _quiet_browser(browser)
        yield


def _quiet_browser(browser: Browser) -> None:
    service = browser.driver.service.process
    assert service is not None
    quiet(service.pid)


# Who looks: clients that draw nothing; windows of a real browser; its tabs, of which one is seen.
WATCHERS: dict[str, Callable[[Scene, str], contextlib.AbstractContextManager[None]]] = {
    "viewers": viewers,
    "windows": lambda scene, path: _chromium(scene, path, "window"),
    "tabs": lambda scene, path: _chromium(scene, path, "tab"),
}
WORDS = {
    "viewers": "ten open pages elsewhere",
    "windows": "ten windows of Chromium on the same cores",
    "tabs": "ten tabs of Chromium on the same cores",
}


def measure_watchers(scene: Scene, report: Report, asked: argparse.Namespace) -> None:
    runs = [scene.learner(seed) for seed in range(asked.learners)]
    path = f"/run/{runs[0]}" if asked.view == "run" else "/"
    time.sleep(WARM_SECONDS)
    windows = [_measured(scene, False, asked.window)]
    for _ in range(asked.rounds):
        with WATCHERS[asked.watchers](scene, path):
            time.sleep(SETTLE_SECONDS)
            windows.append(_measured(scene, True, asked.window))
        time.sleep(SETTLE_SECONDS)
        windows.append(_measured(scene, False, asked.window))
    courses = [scene.course(run_id) for run_id in runs]
    for run_id in runs:
        scene.client.cancel(run_id)
    speeds = [
        sum(float(np.diff(np.interp([w.begun, w.ended], *course))[0]) for course in courses)
        / (w.ended - w.begun)
        for w in windows
    ]
    _tell(report, asked, windows, speeds)


def _measured(scene: Scene, pages: bool, seconds: float) -> Window:
    processes = {name: psutil.Process(scene.stack.pid(name)) for name in SERVICES}
    begun, before = time.time(), {name: _used(process) for name, process in processes.items()}
    time.sleep(seconds)
    ended, after = time.time(), {name: _used(process) for name, process in processes.items()}
    cpu = {name: (after[name] - before[name]) / (ended - begun) for name in SERVICES}
    return Window(pages, begun, ended, cpu)


def _used(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def _tell(report: Report, asked: argparse.Namespace, windows: list[Window], speeds: list[float]) -> None:
    """Each window with pages stands between two without; so what drifts by itself cancels out."""
    at = range(1, len(windows), 2)
    ratios = sorted(2 * speeds[i] / (speeds[i - 1] + speeds[i + 1]) for i in at)
    # The same arithmetic where nothing differs tells how much is chance.
    idle = speeds[::2]
    chance = sorted(2 * idle[i] / (idle[i - 1] + idle[i + 1]) for i in range(1, len(idle) - 1))
    spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
    beside = f"{asked.rounds} rounds of {asked.window:.0f} s: {spread}; {median(idle):,.0f} steps/s without"
    if chance:
        beside += f"; without pages against without {chance[0]:.3f} to {chance[-1]:.3f}"
    ratio, what = median(ratios), f"{asked.learners} PPO with {WORDS[asked.watchers]} ({asked.view})"
    report.add(f"speed of {what} ÷ with none", ratio, "", target="≥ 0.98", met=ratio >= 0.98, beside=beside)
    for name in SERVICES:
        without, with_pages = (
            median(window.cpu[name] for window in windows if window.pages is pages) for pages in (False, True)
        )
        report.add(f"CPU of {name}", with_pages * 100, "% of a core", beside=f"{without:.1%} without pages")
