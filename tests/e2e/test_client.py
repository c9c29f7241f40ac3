"""The page's client in a real Chromium, against a real stack."""

from __future__ import annotations

import signal
import time
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from runspine.bench.kit.browser import Browser, browsing
from tests.kit.page import IN_CHROMIUM, LOOKER, PageRig
from tests.kit.paths import ROOT

pytestmark = IN_CHROMIUM
EVIL = "<img src=x onerror=window.stolen=1>"
AXE = ROOT / "services/dashboard/client/node_modules/axe-core/axe.min.js"
PRINTS = """
import json, sys
for n in range(30_000):
    print(f"\\x1b[31mline\\x1b[0m {n}")
for step in range(100):
    print(json.dumps({"type": "metric", "name": "losses/value", "value": 1 / (step + 1), "step": step}))
    print(json.dumps({"type": "metric", "name": "charts/episodic_return", "value": step, "step": step}))
"""


@pytest.fixture(scope="module")
def printed(rig: PageRig) -> str:
    """A run with a long log and two metrics."""
    run_id = rig.submit(runner="script", name=f"printed {EVIL}", command=["python3", "-c", PRINTS])
    rig.until_phase(run_id, "completed")
    return run_id


@pytest.fixture(scope="module")
def failed(rig: PageRig) -> str:
    run_id = rig.submit(runner="script", name="fails", command=["python3", "-c", "print(1 / 0)"])
    rig.until_phase(run_id, "failed")
    return run_id


def test_runs_are_filtered_by_value_and_opened_with_the_keyboard(
    rig: PageRig, browser: Browser, printed: str, failed: str
) -> None:
    browser.open("/app")
    browser.sees("printed <img")
    browser.find("input.filter").send_keys("state:failed")
    browser.until(lambda: "1 of" in browser.find(".count").text, "the list is filtered")
    assert "q=state" in browser.driver.current_url
    browser.driver.refresh()
    browser.until(lambda: "1 of" in browser.find(".count").text, "the filter is in the address")
    browser.find(".table").focus()
    browser.keys("j", Keys.ENTER)
    browser.until(lambda: failed in browser.driver.current_url, "the run is open")
    # Why it failed is there without a search.
    browser.sees("ZeroDivisionError")
    browser.open("/app?q=retrun%3E3")
    browser.sees("Did you mean 'return'?")
    assert browser.script("return window.stolen") is None


TRANSFERRED = (
    "return performance.getEntriesByType('resource').reduce((sum, one) => sum + one.transferSize, 0)"
)


def test_the_list_takes_few_bytes_and_a_second_visit_fewer(browser: Browser, printed: str) -> None:
    browser.driver.execute_cdp_cmd("Network.clearBrowserCache", {})
    for most in (300_000, 50_000):
        browser.open("/app")
        browser.sees("printed <img")
        assert 0 < int(browser.script(TRANSFERRED)) < most


def test_a_log_is_read_where_it_is_looked_at(browser: Browser, printed: str) -> None:
    browser.open(f"/app/run/{printed}?tab=log&line=15000")
    browser.until(lambda: "line 14999" in browser.find(".line-target").text, "the line of the address")
    assert int(browser.script("return document.querySelectorAll('.line').length")) < 200
    assert browser.script("return document.querySelector('.line-target .c1').textContent") == "line"
    browser.find('[aria-label="Search all lines"]').send_keys("29876", Keys.ENTER)
    browser.press(".hits li button", "29876")
    browser.until(lambda: "line 29876" in browser.find(".line-target").text, "the line that was found")


def test_charts_are_filtered_zoomed_and_grow(rig: PageRig, browser: Browser, printed: str) -> None:
    browser.open(f"/app/run/{printed}")
    browser.until(lambda: points(browser, "losses/value") == 100, "all points are drawn")
    browser.find('[aria-label^="Metrics"]').send_keys("loss|nothing")
    browser.until(lambda: "1 of" in browser.find(".bar .count").text, "charts are filtered")
    growing = rig.script(600, name="grows")
    browser.open(f"/app/run/{growing}")
    first = browser.until(lambda: points(browser, "charts/episodic_return"), "a chart")
    browser.until(lambda: points(browser, "charts/episodic_return") > first + 20, "the chart has grown")
    rig.cancel(growing)


def points(browser: Browser, metric: str) -> int:
    charts = dict(browser.each(".chart[data-metric]", "[element.dataset.metric, element.dataset.points]"))
    return int(charts.get(metric, 0))


def test_an_action_states_how_many_runs_it_takes_and_what_was_refused(
    rig: PageRig, browser: Browser, printed: str
) -> None:
    running = [rig.script(600, name=f"many {number}") for number in range(2)]
    browser.open("/app?q=name:many*,printed*")
    browser.until(lambda: "3 of" in browser.find(".count").text, "three runs")
    for number in range(3):
        browser.script("document.querySelectorAll('.row input')[arguments[0]].click()", number)
    browser.press(".actions button", "Cancel")
    browser.sees("Cancel 3 runs")
    browser.press("dialog button[type=submit]", "Cancel 3 runs")
    # One has ended: it stays as it is, and the others are cancelled.
    for run_id in running:
        rig.until_phase(run_id, "cancelled")


def test_seeds_are_compared_and_replays_stay_in_lock_step(
    rig: PageRig, browser: Browser, printed: str, failed: str
) -> None:
    other = rig.submit(runner="script", name="other", command=["python3", "-c", PRINTS])
    rig.until_phase(other, "completed")
    browser.open(f"/app/compare?run={printed}&run={other}&metric=losses/value&axis=time&each=true")
    browser.until(lambda: len(browser.each(".legend li", "element.textContent")) == 2, "two curves")
    reach = float(browser.find("figure.chart").get_attribute("data-last") or 1e9)
    assert reach < 600, "seconds from the start of each run"
    # The page and the command line compute the same, on every axis.
    for axis in ("step", "time", "episode"):
        metric = "charts/episodic_return"
        query = f"run={printed}&run={other}&metric={metric}&axis={axis}&each=true"
        seen = browser.driver.execute_async_script(
            "fetch('/api/v1/compare?' + arguments[0]).then((one) => one.json()).then(arguments[1])", query
        )
        printed_by_cli = rig.shell.json(
            "compare", printed, other, "--metric", metric, "--x", axis, "--by", "name"
        )
        assert seen["threshold"] == pytest.approx(printed_by_cli["threshold"])
        for one, same in zip(
            sorted(seen["groups"], key=lambda group: group["label"]),
            sorted(printed_by_cli["groups"], key=lambda group: group["label"]),
            strict=True,
        ):
            assert one["final"] == pytest.approx(same["final_iqm"]["value"])
            assert one["area"] == pytest.approx(same["area"]["value"])
            assert one["reached_count"] == same["reached_count"]
            assert not one["reached_count"] or one["reached"] == pytest.approx(same["reached"])


def test_a_page_outlives_its_service_and_keeps_what_was_typed(
    rig: PageRig, browser: Browser, printed: str
) -> None:
    browser.open("/app")
    browser.until(lambda: browser.find(".live").text == "live", "live")
    browser.find("input.filter").send_keys("printed")
    pid = rig.signal("dashboard", signal.SIGKILL)
    browser.until(lambda: browser.find(".live").text == "away", "the badge is honest")
    browser.find("input.filter").send_keys(" -fails")
    rig.until_replaced("dashboard", pid)
    browser.until(lambda: browser.find(".live").text == "live", "live again", 120)
    assert browser.find("input.filter").get_attribute("value") == "printed -fails"
    browser.until(lambda: "1 of" in browser.find(".count").text, "and the list is filtered by it", 60)


def test_who_may_only_look_has_no_buttons_that_change_anything(rig: PageRig, failed: str) -> None:
    with browsing(rig.address) as looker:
        looker.login(LOOKER, "/app")
        looker.open(f"/app/run/{failed}")
        looker.sees("ZeroDivisionError")
        looker.until(lambda: "read-only" in looker.find(".person").text, "it is known who looks")
        offered = {
            str(text) for text in looker.each("main a.button, main button.button", "element.innerText")
        }
        assert "Compare" in offered
        assert not offered & {"Cancel", "Label", "Fork", "New run"}


@pytest.mark.skipif(not AXE.exists(), reason="axe-core is not installed: npm ci in services/dashboard/client")
@pytest.mark.long
@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [1400, 400])
def test_no_view_violates_wcag(rig: PageRig, browser: Browser, printed: str, theme: str, width: int) -> None:
    browser.open("/app")
    browser.script("localStorage.setItem('runspine.theme', JSON.stringify(arguments[0]))", theme)
    browser.driver.set_window_size(width, 900)
    found: list[str] = []
    tabs = ("charts", "log", "config", "episodes", "files", "attempts")
    paths = ["/app", f"/app/compare?run={printed}", *(f"/app/run/{printed}?tab={tab}" for tab in tabs)]
    for path in paths:
        browser.open(path)
        browser.until(lambda: settled(browser), "everything is fetched")
        found += [f"{path}: {one}" for one in violations(browser)]
    browser.driver.set_window_size(1400, 900)
    assert not found


def settled(browser: Browser) -> bool:
    """Whether the page has fetched what it shows: no request was under way for a second."""
    state = (
        "return document.documentElement.dataset.busy === '0' && !document.body.innerText.includes('ading…')"
    )
    deadline = time.monotonic() + 1
    while browser.script(state):
        if time.monotonic() > deadline:
            return True
        time.sleep(0.1)
    return False


def violations(browser: Browser) -> list[str]:
    browser.script(Path(AXE).read_text())
    return [
        str(one)
        for one in browser.driver.execute_async_script(
            "const done = arguments[0];"
            "const rules = ['wcag2a', 'wcag2aa', 'wcag21a', 'wcag21aa', 'wcag22aa', 'best-practice'];"
            "axe.run(document, {runOnly: rules})"
            ".then((found) => done(found.violations.map((one) => one.id + ': ' + one.nodes.slice(0, 3)"
            ".map((node) => node.html.slice(0, 160) + ' ' + node.any.map((each) => each.message)[0])"
            ".join(' | '))))"
        )
    ]
