"""The web page in a real Chromium, against a real stack."""

from __future__ import annotations

import re
import signal
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from runspine.bench.kit.browser import Browser, browsing
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED
from tests.kit.page import IN_CHROMIUM, LOOKER, WRITES_A_FILE, PageRig
from tests.kit.samples import checkpoint_files as files
from tests.kit.samples.page_scripts import BUSY_AFTER_CLICK, RANGES
from tests.kit.waiting import until

pytestmark = IN_CHROMIUM
EVIL = "<img src=x onerror=window.stolen=1>"


@pytest.fixture(scope="module")
def trained(rig: PageRig, browser: Browser) -> str:
    """A run that was asked for in the form, with the keyboard alone."""
    browser.open("/new")
    browser.sees("Pool default has")
    # Help on the parameters that are switches, and on the algorithm.
    browser.sees("bring the learning rate down to zero over the run")
    browser.find('[data-testid="about"] .q-item').click()
    browser.until(lambda: "MuJoCo" in browser.find('[data-testid="about"] table').text, "settings by env")
    browser.find('input[aria-label="total steps"]').send_keys("3000")
    browser.sees("total_steps: 3000")
    browser.until(lambda: browser.find("button", "Launch").is_enabled(), "the launch button is open")
    browser.find("button", "Launch").send_keys(Keys.ENTER)
    browser.until(lambda: "/run/" in browser.driver.current_url, "the run's page")
    return browser.driver.current_url.rpartition("/run/")[2].partition("?")[0]


def points(browser: Browser, title: str) -> float:
    """How far a chart reaches on its axis."""
    charts = browser.each(".rs-curve", "[element.innerText, Number(element.dataset.last || 0)]")
    return next((float(last) for text, last in charts if title in text), 0.0)


def test_a_stranger_gets_the_login_page_and_nothing_else(rig: PageRig) -> None:
    for path in ("/", "/fleet", "/api/runs/x/series", "/api/artifacts/x/y"):
        with urllib.request.urlopen(f"{rig.address}{path}", timeout=30) as answer:
            assert answer.geturl().startswith(f"{rig.address}/login")
            assert "Access token" in answer.read().decode()
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(f"{rig.address}/login", data=b"token=wrong", timeout=30)
    assert refused.value.code == 403


def test_the_form_shows_the_command_of_a_launch_that_a_worker_has_tried(
    rig: PageRig, browser: Browser
) -> None:
    browser.open("/new")
    browser.sees("has tried the launch and would start it", 120)
    browser.press(".q-expansion-item__container > .q-item", "Trainer's command")
    browser.sees("-m runspine.trainers.builtin", 60)


def test_the_curve_of_a_run_grows_while_it_trains(rig: PageRig, browser: Browser) -> None:
    run_id = rig.script(600, name="grows")
    browser.open(f"/run/{run_id}")
    first = browser.until(lambda: points(browser, "episodic_return"), "a chart")
    browser.until(lambda: points(browser, "episodic_return") > first + 20, "the chart has grown")
    assert browser.find(".rs-badge").text == "running"
    rig.cancel(run_id)


def axes(browser: Browser, title: str) -> str:
    """The axes of a chart, as a screen reader reads them."""
    emitted = browser.each(".rs-curve-plot", "element.getAttribute('aria-label')")
    return next((text.partition(": ")[2] for text in emitted if text.startswith(f"Chart of {title}: ")), "")


def test_ticks_of_a_narrow_range_far_from_zero_are_distinguishable(rig: PageRig, browser: Browser) -> None:
    run_id = rig.submit(runner="script", name="ticks", command=["python3", "-c", RANGES])
    browser.open(f"/run/{run_id}")
    for name, emitted in {
        "wide": "step 0 to 20k, values 0 to 2",
        "narrow": "step 15,000 to 15,020, values 15,000 to 15,010",
        "huge": "step 0 to 40M, values 0 to 8G",
    }.items():
        browser.until(lambda n=name, emitted=emitted: axes(browser, n) == emitted, f"{name} shows {emitted}")  # type: ignore[misc]

    # Equal values are a flat line in the middle, whatever rounding makes of their smoothed mean.
    drawn = browser.until(lambda: value_axis(browser, "constant"), "the chart of the constant")
    assert drawn == pytest.approx([0.09, 0.11])


def value_axis(browser: Browser, title: str) -> list[float] | None:
    charts = browser.each(".rs-curve", "[element.innerText, element.dataset.values]")
    return next(([float(end) for end in values.split()] for text, values in charts if title in text), None)


def test_the_smoothing_that_somebody_chose_is_there_the_next_time(
    rig: PageRig, browser: Browser, trained: str
) -> None:
    slider = '[aria-label="Smoothing"]'
    browser.open(f"/run/{trained}")
    before = browser.find(slider).get_attribute("aria-valuenow")
    browser.find(f"{slider} [tabindex]").focus()
    # One key: of several, the page sends the first at once and the last a moment later.
    browser.keys(Keys.ARROW_LEFT)
    changed = browser.until(lambda: differs(browser, slider, before), "the slider has moved")
    browser.open("/fleet")
    browser.open(f"/run/{trained}")
    browser.until(lambda: browser.find(slider).get_attribute("aria-valuenow") == changed, "as it was left")


def differs(browser: Browser, css: str, before: str | None) -> str | None:
    now = browser.find(css).get_attribute("aria-valuenow")
    return now if now != before else None


def test_ten_open_pages_ask_telemetry_as_one_does(rig: PageRig) -> None:
    run_id = rig.script(60, name="watched by ten")
    rig.until_phase(run_id, "running")
    with rig.viewers(f"/run/{run_id}") as received:
        until(lambda: received()["requests"] >= 10, 60)
        asked, questions = received()["requests"], rig.calls("telemetry", "QueryMetrics")
        until(lambda: received()["requests"] >= asked + 40, 60)
        asked, questions = received()["requests"] - asked, rig.calls("telemetry", "QueryMetrics") - questions
    # Charts of ten pages were drawn several times; another page may be open at the same time.
    assert 0 < questions <= asked / 3
    rig.cancel(run_id)


def test_a_tab_that_nobody_sees_asks_for_nothing_and_catches_up_when_it_is_seen(
    rig: PageRig, browser: Browser
) -> None:
    run_id = rig.script(90, name="left alone")
    browser.open(f"/run/{run_id}")
    first = browser.until(lambda: points(browser, "episodic_return"), "a chart")
    page = browser.driver.current_window_handle
    browser.driver.switch_to.new_window("tab")
    try:
        # The tab reports that it is hidden, and requests under way are answered.
        before = until(lambda: rig.settled("telemetry", "QueryMetrics", 3.0), 60)
        step = rig.progress(run_id).step
        until(lambda: rig.progress(run_id).step > step + 50, 60)
        assert rig.calls("telemetry", "QueryMetrics") == before
    finally:
        browser.driver.close()
        browser.driver.switch_to.window(page)
    browser.until(lambda: points(browser, "episodic_return") > max(first, step), "the chart has caught up")
    rig.cancel(run_id)


def test_what_can_be_pressed_stays_the_same_while_its_words_change(rig: PageRig, browser: Browser) -> None:
    run_id = rig.script(60, name="in a group", project="steady")
    rig.until_phase(run_id, "running")
    browser.open("/fleet")
    browser.sees("Bucket")
    link = browser.find(".rs-tile a", run_id)
    link.mark()
    emitted = browser.find("main").text
    browser.until(lambda: browser.find("main").text != emitted, "the log has grown")
    assert link.marked()
    browser.open("/?by=project")
    card = browser.find(".rs-group", "steady")
    card.mark()
    rig.cancel(run_id)
    browser.until(lambda: "active" not in card.text, "the card shows that it has ended")
    assert card.marked()


def test_a_run_is_cancelled_with_the_keyboard_alone(rig: PageRig, browser: Browser) -> None:
    run_id = rig.script(600, name="to be cancelled")
    browser.open(f"/run/{run_id}")
    browser.until(lambda: browser.find(".rs-badge").text == "running", "it runs")
    browser.find("button", "Cancel").send_keys(Keys.ENTER)
    browser.find(".q-dialog", "Cancel this run?")
    browser.until(lambda: "Reason" in browser.focused(), "the dialog has the focus")
    browser.keys("enough", Keys.TAB, Keys.TAB, Keys.ENTER)
    browser.until(lambda: browser.find(".rs-badge").text == "cancelled", "it is cancelled")
    found = rig.run(run_id)
    assert found.phase == CANCELLED
    assert "enough" in found.reason


def test_an_episode_is_scrubbed_step_by_step_with_its_frames(
    rig: PageRig, browser: Browser, trained: str
) -> None:
    rig.until_phase(trained, "completed")
    browser.open(f"/run/{trained}?tab=episodes")
    browser.sees("exact: all")
    for step in (1, 2, 3):
        browser.find(".rs-scrub").send_keys(Keys.ARROW_RIGHT)
        browser.until(lambda step=step: _shown(browser) == step, f"frame {step}")  # type: ignore[misc]
    facts = browser.find(".rs-facts").text.replace("\n", " ")
    assert re.search(r"step 2 action [01] reward 1 return so far 3 end no observation \[-?\d", facts), facts
    assert browser.script("return document.querySelector('.rs-frame').naturalWidth") == 600


def _shown(browser: Browser) -> int:
    return int(browser.find(".rs-scrubber").get_attribute("data-shown") or -1)


def test_a_checkpoint_is_evaluated_from_its_card(rig: PageRig, browser: Browser, trained: str) -> None:
    rig.until_phase(trained, "completed")
    browser.open(f"/checkpoints?run={trained}")
    browser.until(lambda: browser.find(".rs-tile", "good"), "a whole checkpoint")
    browser.press(".rs-tile button", "Evaluate")
    browser.find(".q-dialog", "Evaluate this checkpoint")
    browser.fill("Environment", "MountainCar-v0")
    browser.press(".q-dialog button", "Evaluate")
    browser.sees("was trained in CartPole-v1")
    browser.fill("Environment", "CartPole-v1")
    browser.fill("Episodes", "3")
    browser.press(".q-dialog button", "Evaluate")
    browser.until(lambda: "tab=evaluations" in browser.driver.current_url, "the evaluation's page", 120)
    browser.sees("95 % INTERVAL", 120)
    run_id = browser.driver.current_url.rpartition("/run/")[2].partition("?")[0]
    rig.until_phase(run_id, "completed")
    assert rig.run(run_id).counts.episodes == 3


def test_the_batches_of_an_evaluation_are_seen_live_and_charted(
    rig: PageRig, browser: Browser, trained: str
) -> None:
    rig.until_phase(trained, "completed")
    words = ("eval", trained, "--episodes", "2", "--repeat", "--detach")
    run_id = rig.shell.json(*words)["run"]["id"]
    browser.open(f"/run/{run_id}?tab=live")
    batch = re.compile(r"eval batch \d+ \| episodes=2 avg=[\d.]+ min=[\d.]+ max=[\d.]+")
    browser.until(lambda: batch.search(browser.text()), "the newest whole batch", 120)
    browser.open(f"/run/{run_id}?tab=evaluations")
    browser.until(lambda: points(browser, "Returns of each batch") > 1, "a chart of the batches", 120)
    rig.shell("cancel", run_id)


def test_files_appear_on_an_open_page_and_what_is_pruned_is_marked_there(
    rig: PageRig, browser: Browser, tmp_path: Path
) -> None:
    write, end = tmp_path / "write", tmp_path / "end"
    # Trainers are sandboxed: they see the folders that their command names.
    command = [sys.executable, "-c", WRITES_A_FILE, str(write), str(end), str(tmp_path)]
    run_id = rig.submit(runner="script", command=command)
    browser.open(f"/run/{run_id}?tab=files")
    browser.sees("No files yet")
    browser.script("window.sameDocument = true")
    write.touch()
    browser.until(lambda: browser.find(".rs-file", "weights.bin"), "the file")
    [artifact] = rig.shell.json("artifacts", "list", run_id)["artifacts"]
    rig.shell("prune", artifact["digest"], "--yes")
    browser.until(lambda: browser.find(".rs-file .rs-badge", "pruned"), "that it is pruned")
    assert browser.script("return window.sameDocument === true"), "the page was not loaded again"
    end.touch()
    rig.until_phase(run_id, "completed")


def test_a_checkpoint_from_elsewhere_is_imported_and_a_hostile_one_refused(
    browser: Browser, tmp_path: Path
) -> None:
    mark = tmp_path / "mark"
    browser.open("/checkpoints")
    browser.press("button", "Import")
    browser.find(".q-dialog", "Import a checkpoint")
    bomb = files.torch_bomb(tmp_path / "bomb.pt", mark)
    browser.upload(".q-dialog input[type=file]", bomb)
    browser.until(lambda: browser.find(".q-dialog .rs-bad").text, "the refusal")
    assert not mark.exists()
    good = files.saved(tmp_path / "dqn.cleanrl_model", files.QNetwork().state_dict())
    browser.fill("Environment (if the file does not name it)", "CartPole-v1")
    browser.upload(".q-dialog input[type=file]", good)
    browser.sees("imported: dqn.cleanrl_model")


def test_a_rule_prunes_and_the_page_shows_what_is_left(rig: PageRig, browser: Browser, trained: str) -> None:
    rig.until_phase(trained, "completed")
    rig.shell("retention", "set", "--run", trained, "--max-checkpoints", "1", "--grace", "0s", "--manual")
    browser.open(f"/run/{trained}?tab=files")
    browser.until(lambda: browser.find(".rs-retained").text, "the status")
    browser.press("button", "Prune now")
    browser.press(".q-dialog button", "Prune")
    browser.until(lambda: browser.find(".rs-file .rs-badge", "pruned"), "a pruned file")
    kept, total = map(int, re.findall(r"(\d+)/(\d+) checkpoints retained", browser.text())[0])
    assert 1 <= kept < total


def test_two_runs_are_compared_and_replayed_in_lock_step(
    rig: PageRig, browser: Browser, trained: str
) -> None:
    other = rig.submit(runner="builtin", algo="ppo", env="CartPole-v1", seed=2, total_steps=1024)
    rig.until_phase(other, "completed")
    browser.open(f"/compare?run={trained}&run={other}")
    browser.sees("Final (IQM")
    browser.until(lambda: points(browser, "return") > 0, "the curves")
    browser.until(lambda: "seed" in browser.find(".rs-main").text, "what differs")
    browser.press("button", "Play both")
    browser.until(lambda: browser.text().count("exact: all") == 2, "two exact replays")
    browser.press('.rs-control[aria-label="One step forward"]')
    browser.until(lambda: browser.text().count("return so far") == 2, "two panes")
    steps = browser.until(
        lambda: browser.script(
            "return [...document.querySelectorAll('.rs-facts dd:nth-of-type(1)')].map(e => e.textContent)"
        ),
        "their steps",
    )
    assert steps == ["0", "0"]


def test_names_labels_metrics_and_log_lines_are_shown_as_text(rig: PageRig, browser: Browser) -> None:
    program = f"print('```'); print({EVIL!r}); import sys; sys.stderr.write('```\\n' + {EVIL!r}); sys.exit(3)"
    metric = rig.script(0.3, name=f"n {EVIL}", metric=EVIL, labels={"l": EVIL}, notes=EVIL, project="p")
    failed = rig.submit(
        runner="script", name=f"f {EVIL}", command=["python3", "-c", program],
        variables={"X": EVIL}, labels={"l": EVIL},
    )  # fmt: skip
    rig.until_phase(metric, "completed")
    rig.until_phase(failed, "failed")
    pages = ["/?q=onerror", f"/run/{metric}", f"/run/{failed}?tab=logs", f"/run/{failed}?tab=history"]
    pages += [f"/run/{failed}?tab=config", f"/compare?run={metric}&metric={EVIL}", "/fleet"]
    for page in pages:
        browser.open(page)
        if page != "/fleet":
            browser.sees(EVIL)
        assert browser.script("return window.stolen") is None, page
        assert not browser.count("main img[src=x]"), page


@pytest.mark.parametrize(
    ("path", "words"), [("/run/nothing", "no run 'nothing'"), ("/typo", "There is no page at /typo")]
)
def test_an_address_that_leads_nowhere_shows_an_explanation_and_a_way_out(
    browser: Browser, path: str, words: str
) -> None:
    browser.open(path)
    browser.sees(words)
    browser.press("main a", "All runs")
    browser.until(lambda: browser.find("#rs-count").text, "the runs")


def test_many_runs_are_tagged_and_found_again_by_address(rig: PageRig, browser: Browser) -> None:
    for number in range(3):
        rig.script(0.1, name=f"batch-{number}", project="many")
    browser.open("/?q=batch-")
    browser.until(lambda: browser.find("#rs-count").text == "3 runs", "three runs")
    browser.press(".ag-header-select-all .ag-checkbox-input-wrapper")
    browser.script(BUSY_AFTER_CLICK)
    browser.press("button", "Tag")
    browser.fill("Label", "team")
    browser.fill("Value (empty removes it)", "blue")
    browser.press(".q-dialog button", "Tag")
    browser.until(lambda: browser.text().count("team=blue") == 3, "three labels")
    browser.open("/?q=team%3Dblue&by=project")
    browser.until(lambda: browser.find("#rs-count").text == "3 runs", "found by label")
    browser.press(".rs-group", "many")
    browser.until(lambda: "in=many" in browser.driver.current_url, "the group in the address")


def test_a_token_that_may_only_look_sees_everything_and_changes_nothing(rig: PageRig) -> None:
    run_id = rig.script(0.2, name="looked at")
    with browsing(rig.address) as looker:
        looker.login(LOOKER, to=f"/run/{run_id}")
        looker.sees("looked at")
        assert not any("Cancel" in text for text in looker.each("main button", "element.innerText"))
        looker.open("/new")
        looker.sees("This token is read-only")
        assert rig.token not in looker.driver.page_source
        assert "runspine_" not in looker.script("return document.cookie")


def test_pages_come_back_by_themselves_when_the_dashboard_was_killed(rig: PageRig, browser: Browser) -> None:
    run_id = rig.script(600, name="outlives the page")
    browser.open("/?q=outlives")
    browser.until(lambda: "running" in browser.find(".rs-grid").text, "the run")
    started = rig.run(run_id).started_at
    pid = rig.signal("dashboard", signal.SIGKILL)
    rig.until_replaced("dashboard", pid)
    rig.cancel(run_id)
    browser.until(lambda: "cancelled" in browser.find(".rs-grid").text, "news without a reload", 120)
    found = rig.run(run_id)
    assert (found.attempt, found.started_at) == (1, started)


def test_the_page_shows_that_the_log_is_away_and_when_it_is_back(rig: PageRig, browser: Browser) -> None:
    browser.open("/fleet")
    browser.sees("live")
    rig.signal("nats", signal.SIGSTOP)
    try:
        browser.sees("The data shown may be out of date", 120)
        assert browser.find(".rs-live").text.endswith("not live")
    finally:
        rig.signal("nats", signal.SIGCONT)
    browser.until(lambda: not browser.find(".rs-live").text.endswith("not live"), "live again", 120)
    run_id = rig.script(0.2)
    rig.until_phase(run_id, "completed")
    assert rig.run(run_id).phase == COMPLETED
