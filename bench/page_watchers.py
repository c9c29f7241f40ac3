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
CLIENTS = "the pages' own clients"
TRAINERS = "trainers"
NICEST = 19


@dataclass(slots=True)
class Window:
    """A stretch of time, what each service and the watchers used in it as a share of a core."""

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
def viewers(scene: Scene, path: str) -> Iterator[int]:
    """Pages that are open somewhere else: their traffic, and no drawing. Gives their process."""
    command = [
        sys.executable, "-m", "bench.page_viewers", "--address", scene.page, "--token", scene.stack.token,
        "--path", path, "--pages", str(PAGES),
    ]  # fmt: skip
    with tempfile.TemporaryFile("w+") as said:
        process = subprocess.Popen(command, stdout=said, cwd=ROOT, start_new_session=True)
        try:
            _until_open(process, said.fileno())
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
        if lines and json.loads(lines[-1])["heard"] >= 3 * PAGES:
            return
        assert process.poll() is None, "no page could be opened"
        assert time.monotonic() < deadline, "the pages do not open"
        time.sleep(0.1)


@contextlib.contextmanager
def _chromium(scene: Scene, path: str, kind: str) -> Iterator[int]:
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


# Who looks: clients that draw nothing; windows of a real browser; its tabs, of which one is seen.
WATCHERS: dict[str, Callable[[Scene, str], contextlib.AbstractContextManager[int]]] = {
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
    windows = [_measured(scene, None, asked.window)]
    for _ in range(asked.rounds):
        with WATCHERS[asked.watchers](scene, path) as watchers:
            time.sleep(SETTLE_SECONDS)
            windows.append(_measured(scene, watchers, asked.window))
        time.sleep(SETTLE_SECONDS)
        windows.append(_measured(scene, None, asked.window))
    courses = [scene.course(run_id) for run_id in runs]
    for run_id in runs:
        scene.client.cancel(run_id)
    speeds = [
        sum(float(np.diff(np.interp([w.begun, w.ended], *course))[0]) for course in courses)
        / (w.ended - w.begun)
        for w in windows
    ]
    _tell(report, asked, windows, speeds)


def _measured(scene: Scene, watchers: int | None, seconds: float) -> Window:
    roots = {name: scene.stack.pid(name) for name in SERVICES}
    roots[TRAINERS] = scene.stack.pid("worker")
    if watchers is not None:
        roots[CLIENTS] = watchers
    begun, before = time.time(), {name: _used(name, pid) for name, pid in roots.items()}
    time.sleep(seconds)
    ended, after = time.time(), {name: _used(name, pid) for name, pid in roots.items()}
    cpu = {name: (after[name] - before[name]) / (ended - begun) for name in roots}
    return Window(watchers is not None, begun, ended, cpu)


def _used(name: str, pid: int) -> float:
    """CPU seconds of a process and all it has started; of the worker, only of what it has started."""
    total, root = 0.0, psutil.Process(pid)
    for process in (*(() if name == TRAINERS else (root,)), *root.children(recursive=True)):
        with contextlib.suppress(psutil.NoSuchProcess):
            times = process.cpu_times()
            total += times.user + times.system
    return total


def _tell(report: Report, asked: argparse.Namespace, windows: list[Window], speeds: list[float]) -> None:
    what = f"{asked.learners} PPO with {WORDS[asked.watchers]} ({asked.view})"
    rounds = f"{asked.rounds} rounds of {asked.window:.0f} s"
    for name, values in (
        ("CPU time that the trainers get", [window.cpu[TRAINERS] for window in windows]),
        ("speed", speeds),
    ):
        ratio, spread = compared(values)
        unit = "cores" if name != "speed" else "steps/s"
        beside = f"{rounds}: {spread}; {median(values[::2]):,.2f} {unit} without"
        report.add(
            f"{name}, {what} ÷ with none", ratio, "", target="≥ 0.98", met=ratio >= 0.98, beside=beside
        )
    for name in (*SERVICES, CLIENTS):
        without, with_pages = (
            median(window.cpu.get(name, 0.0) for window in windows if window.pages is pages)
            for pages in (False, True)
        )
        report.add(f"CPU of {name}", with_pages * 100, "% of a core", beside=f"{without:.1%} without pages")


def compared(values: list[float]) -> tuple[float, str]:
    """With pages ÷ without, and its spread. Every second value is with pages.

    Each stands between two without; so what drifts by itself cancels out.
    """
    ratios = sorted(2 * values[i] / (values[i - 1] + values[i + 1]) for i in range(1, len(values), 2))
    # The same arithmetic where nothing differs tells how much is chance.
    idle = values[::2]
    chance = sorted(2 * idle[i] / (idle[i - 1] + idle[i + 1]) for i in range(1, len(idle) - 1))
    spread = f"{ratios[0]:.3f} to {ratios[-1]:.3f}"
    if chance:
        spread += f"; without pages against without {chance[0]:.3f} to {chance[-1]:.3f}"
    return median(ratios), spread
