"""Views of the page at /app in Chromium: bytes and CPU time. `python -m runspine.bench.pages.client`."""

from __future__ import annotations

import argparse
import os
import time
from typing import Any

from runspine.bench.kit.browser import Browser, browsing

SETTLED_SECONDS = 1.0
BYTES = "return performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
# A scroll through the whole list: times between frames.
SCROLL = """
const done = arguments[0], table = document.querySelector(".table");
const gaps = [], far = table.scrollHeight - table.clientHeight;
let last = performance.now(), frame = 0;
function step() {
  const now = performance.now();
  gaps.push(now - last);
  last = now;
  table.scrollTop = far * ++frame / 120;
  if (frame < 120) requestAnimationFrame(step);
  else { gaps.sort((a, b) => a - b); done([gaps[60], gaps[114], gaps[119]]); }
}
requestAnimationFrame(step);
"""


def metrics(browser: Browser) -> dict[str, float]:
    found = browser.driver.execute_cdp_cmd("Performance.getMetrics", {})["metrics"]
    return {one["name"]: one["value"] for one in found}


def settle(browser: Browser) -> None:
    """Wait until the view shows something and no request was under way for a second."""
    quiet, deadline = time.monotonic(), time.monotonic() + 60
    while time.monotonic() - quiet < SETTLED_SECONDS and time.monotonic() < deadline:
        if browser.script(
            "return document.documentElement.dataset.busy !== '0' || !document.querySelector('h1')"
        ):
            quiet = time.monotonic()
        time.sleep(0.05)


def measure(browser: Browser, name: str, path: str, *, cold: bool) -> None:
    if cold:
        browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    browser.open("/login")
    before = metrics(browser)
    browser.open(path)
    settle(browser)
    after = metrics(browser)

    def spent(what: str) -> float:
        # A navigation may begin a new count.
        return after[what] - before[what] if after[what] >= before[what] else after[what]

    size, heap = browser.script(BYTES), after["JSHeapUsedSize"] / 1e6
    cpu, scripts = spent("TaskDuration"), spent("ScriptDuration")
    print(
        f"{name:16} {'cold' if cold else 'warm'} {size / 1000:7.1f} kB, renderer {cpu:.2f} s of CPU "
        f"(scripts {scripts:.2f} s), heap {heap:.1f} MB, {after['Nodes']:.0f} nodes"
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--address", required=True, help="of the page, such as http://127.0.0.1:8090")
    parser.add_argument(
        "--view", action="append", default=[], metavar="NAME=PATH", help="more views to measure"
    )
    given: Any = parser.parse_args()
    views = [("list", "/app"), *(tuple(one.split("=", 1)) for one in given.view)]
    with browsing(given.address) as browser:
        browser.driver.execute_cdp_cmd("Performance.enable", {"timeDomain": "threadTicks"})
        browser.login(os.environ.get("RUNSPINE_TOKEN", ""), "/app")
        for name, path in views:
            for cold in (True, False):
                measure(browser, name, path, cold=cold)
        browser.open("/app")
        settle(browser)
        middle, high, most = browser.driver.execute_async_script(SCROLL)
        print(f"a frame of a scroll: median {middle:.0f} ms, p95 {high:.0f}, at most {most:.0f}")


if __name__ == "__main__":
    main()
