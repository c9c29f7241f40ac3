"""Measures frames per second of eight envs of one run, shown as a grid in Chromium.

`python -m runspine.bench.pages.grid`. Trainer, worker, NATS, dashboard and browser share this machine.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import tempfile
import time
from pathlib import Path

import psutil

from runspine.bench.kit.browser import Browser, browsing, missing
from runspine.bench.kit.figures import Report
from runspine.bench.kit.screen import Announce
from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.spec_pb2 import RunSpec, Value

ROOT = Path(__file__).parents[3]
ENVS = ("CartPole-v1", "LunarLander-v3")
SLOTS, WANTED, TARGET = 8, 20, 15.0
SIZE = (1280, 800)
# Frames painted so far in each slot, and the clock at that moment.
PAINTED = """
const tiles = [...document.querySelectorAll(".rs-watch-tile")];
return [performance.now() / 1000, ...tiles.map((tile) => Number(tile.dataset.painted))];
"""
# Repaints per second of this browser meanwhile.
REPAINTS = """
const [seconds, done] = arguments, begun = performance.now();
let frames = 0;
const tick = (now) => {
  frames++;
  if (now - begun < seconds * 1000) requestAnimationFrame(tick);
  else done(frames * 1000 / (now - begun));
};
requestAnimationFrame(tick);
"""


def learner(env: str, slots: int = SLOTS) -> RunSpec:
    """A PPO in several envs that learns until it is cancelled."""
    spec = RunSpec(runner="builtin", algo="ppo", env=env, seed=1, total_steps=50_000_000)
    spec.params["num_envs"].CopyFrom(Value(integer=slots))
    # The code of this checkout, also where another one is installed.
    spec.variables["PYTHONPATH"] = str(ROOT)
    return spec


def watch(browser: Browser, run_id: str, fps: int = WANTED) -> None:
    """Open the Live tab at this rate and wait until all slots move."""
    browser.script("localStorage.setItem('runspine-live-fps', arguments[0])", str(fps))
    browser.open(f"/run/{run_id}?tab=live")
    browser.until(
        lambda: len(now := browser.script(PAINTED)[1:]) == SLOTS and min(now) > fps, "all slots move", 120
    )


def painted(browser: Browser, seconds: float) -> tuple[list[float], float]:
    """Frames per second of each slot, and repaints per second of the browser."""
    before = browser.script(PAINTED)
    repaints = float(browser.driver.execute_async_script(REPAINTS, seconds))
    after = browser.script(PAINTED)
    took = after[0] - before[0]
    return [(now - then) / took for then, now in zip(before[1:], after[1:], strict=True)], repaints


class Shares:
    """CPU of the processes of this machine since construction, as shares of a core."""

    def __init__(self) -> None:
        self._at, self._spent = time.monotonic(), self._read()

    @staticmethod
    def _read() -> dict[str, float]:
        found: dict[str, float] = {}
        for process in psutil.process_iter():
            with contextlib.suppress(psutil.Error):
                name, times = _kind(process), process.cpu_times()
                found[name] = found.get(name, 0.0) + times.user + times.system
        return found

    def since(self) -> dict[str, float]:
        took, now = time.monotonic() - self._at, self._read()
        found = {name: (spent - self._spent.get(name, 0.0)) / took for name, spent in now.items()}
        return dict(sorted(found.items(), key=lambda item: -item[1]))


def _kind(process: psutil.Process) -> str:
    words = " ".join(process.cmdline())
    for kind in (
        "chromium",
        "trainers.builtin",
        "runspine.services.worker",
        "runspine.services.dashboard",
        "services.",
        "nats-server",
    ):
        if kind in words:
            return {"trainers.builtin": "trainer", "services.": "other services"}.get(
                kind, kind.rpartition(".")[2]
            )
    return "others"


def measure(report: Report, stack: Stack, client: Client, env: str, args: argparse.Namespace) -> None:
    run_id = client.submit(learner(env)).run.id
    try:
        with browsing(f"http://{stack.addresses['dashboard']}", SIZE) as browser:
            browser.login(stack.token)
            watch(browser, run_id, args.fps)
            shares = Shares()
            rates, repaints = painted(browser, args.seconds)
            spent = shares.since()
            about = browser.find(".rs-watch-about").text
    finally:
        client.cancel(run_id)
    cores = ", ".join(f"{name} {share:.2f}" for name, share in list(spent.items())[:6] if share > 0.01)
    report.add(
        f"{SLOTS} × {env} of one PPO, {args.fps} fps args for: painted, slowest slot",
        min(rates), "frames/s", target=f"≥ {TARGET:.0f}", met=min(rates) >= TARGET,
        context=f"fastest {max(rates):.1f}; repaints {repaints:.0f}/s; page: {about}; cores: {cores}",
    )  # fmt: skip


async def bench_grid(args: argparse.Namespace, announce: Announce) -> Report:
    report = Report("Eight envs as a grid in Chromium")
    with tempfile.TemporaryDirectory(prefix="runspine-grid-") as scratch:
        async with running_stack(Path(scratch) / "home", slots=1, page=True) as stack:
            while stack.parts["dashboard"].state != "ready":
                await asyncio.sleep(0.1)
            there = stack.addresses
            endpoint = Endpoint(there["orchestrator"], there["telemetry"], there["artifacts"], stack.token)
            with Client(endpoint) as client:
                for env in ENVS:
                    announce(f"{SLOTS} × {env}: {args.seconds:.0f} s")
                    await asyncio.to_thread(measure, report, stack, client, env, args)
    return report


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--fps", type=int, default=WANTED, help="frames a second that the page asks for")
    parser.add_argument("--seconds", type=float, default=10.0, help="how long frames are counted")
    args = parser.parse_args()
    if missing():
        raise SystemExit(missing())
    print(asyncio.run(bench_grid(args, print)).as_markdown())


if __name__ == "__main__":
    main()
