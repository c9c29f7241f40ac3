"""The Live tab in a real Chromium, against a real stack: envs are drawn only while somebody watches."""

from __future__ import annotations

import io
import json
import re
import subprocess
import tarfile
import urllib.request
from pathlib import Path

import pytest
from selenium.webdriver.common.keys import Keys

from runspine.bench.kit.browser import Browser, browsing
from runspine.video.clip import decode
from tests.kit.forks.command import run_command
from tests.kit.page import IN_CHROMIUM, LOOKER, PageRig
from tests.kit.paths import ROOT
from tests.kit.waiting import until

pytestmark = [*IN_CHROMIUM, pytest.mark.long]
# Seven CartPoles and an env that cannot be drawn, at a pace that leaves room for a browser.
TRAINER = """
import runspine, gymnasium, time
class Blind(gymnasium.Env):
    metadata = {"render_modes": ["ansi"]}
    observation_space = action_space = gymnasium.spaces.Discrete(2)
    def reset(self, **_): return 0, {}
    def step(self, action): return 0, 1.0, False, False, {}
run = runspine.init()
made = [gymnasium.make("CartPole-v1") for _ in range(7)] + [Blind()]
envs = [runspine.wrap(env, slot=slot) for slot, env in enumerate(made)]
for env in envs: env.reset(seed=1)
while True:
    for env in envs:
        if any(env.step(env.action_space.sample())[2:4]): env.reset()
    time.sleep(0.005)
"""


@pytest.fixture(scope="module")
def run_id(rig: PageRig) -> str:
    # A trainer is given no path of the worker's.
    command = ["python3", "-c", TRAINER]
    found = rig.submit(runner="script", command=command, variables={"PYTHONPATH": str(ROOT)})
    rig.until_phase(found, "running")
    return found


def metric(rig: PageRig, name: str) -> float:
    with urllib.request.urlopen(f"http://{rig.stack['metrics']['worker']}/metrics", timeout=30) as answer:
        found = re.search(rf"^{name} (\S+)$", answer.read().decode(), re.M)
    assert found, name
    return float(found[1])


def painted(browser: Browser, slot: int) -> int:
    """How many pictures a slot had, shown or not."""
    (found,) = browser.each(f'.rs-watch-tile[data-slot="{slot}"]', "element.dataset.painted") or [0]
    return int(found)


def state(browser: Browser) -> str:
    return str(browser.find(".rs-watch").get_attribute("data-state"))


def watch(browser: Browser, run_id: str) -> None:
    browser.open(f"/run/{run_id}?tab=live")
    browser.until(lambda: state(browser) == "live", "the pictures")


@pytest.mark.long
def test_eight_slots_move_in_a_grid_with_their_figures(rig: PageRig, browser: Browser, run_id: str) -> None:
    watch(browser, run_id)
    browser.until(lambda: all(painted(browser, slot) > 5 for slot in range(7)), "all of them move")
    tiles = browser.each(".rs-watch-tile", "[element.offsetLeft, element.offsetTop, element.innerText]")
    assert len({(x, y) for x, y, _ in tiles}) == 8
    assert len({y for _, y, _ in tiles}) == 2
    hud = re.search(r"return (\d+) step (\d+) ep\. 3-\d+", " ".join(tiles[3][2].split()))
    assert hud, tiles[3]
    # CartPole pays one for each step.
    assert hud[1] == hud[2]
    browser.until(lambda: "steps/s" in browser.find(".rs-watch-about").text, "the pace of the run")
    # Another picture than the one before, and not an empty one.
    pixels = (
        "const c = document.querySelector('.rs-watch-tile[data-slot=\"0\"] canvas');"
        "return Array.from(c.getContext('2d').getImageData(0, 0, c.width, c.height).data)"
        ".reduce((sum, value, at) => (sum * 31 + value * (at % 7)) % 1000003, 7)"
    )
    first = browser.script(pixels)
    browser.until(lambda: browser.script(pixels) != first, "another picture")


def test_an_env_that_cannot_be_drawn_shows_why_and_offers_its_episodes(browser: Browser, run_id: str) -> None:
    watch(browser, run_id)
    browser.find('.rs-watch-tile[data-slot="7"]', "Blind draws no pictures; it knows ansi")
    # Pictures go on, and the link is still the same one: who presses it does not miss it.
    browser.script("document.querySelector('.rs-watch-words a').dataset.same = 'yes'")
    at = painted(browser, 0)
    browser.until(lambda: painted(browser, 0) > at + 5, "more pictures")
    assert browser.count('.rs-watch-words a[data-same="yes"]') == 1
    browser.press(".rs-watch-words a", "Replay episodes")
    browser.until(lambda: browser.driver.current_url.endswith(f"/run/{run_id}?tab=episodes"), "its episodes")


def test_one_slot_is_chosen_and_left_with_the_keyboard_and_others_are_not_drawn_meanwhile(
    browser: Browser, run_id: str
) -> None:
    watch(browser, run_id)
    browser.until(lambda: painted(browser, 2) > 0, "a picture")
    browser.find('.rs-watch-tile[data-slot="2"]').send_keys(Keys.ENTER)
    browser.until(lambda: len(shown(browser)) == 1, "one of them")
    at = painted(browser, 2)
    browser.until(lambda: painted(browser, 2) > at + 5, "it moves")
    browser.keys(Keys.ARROW_RIGHT)
    browser.until(lambda: shown(browser) == ["3"], "its neighbour")
    at, still = painted(browser, 3), painted(browser, 5)
    browser.until(lambda: painted(browser, 3) > at + 5, "the neighbour moves")
    assert painted(browser, 5) == still
    browser.keys(Keys.ESCAPE)
    browser.until(lambda: len(shown(browser)) == 8, "all of them")


def shown(browser: Browser) -> list[str]:
    return browser.each(".rs-watch-tile:not([hidden])", "element.dataset.slot")


@pytest.mark.long
def test_what_is_shown_is_recorded_to_a_clip(
    rig: PageRig, browser: Browser, run_id: str, tmp_path: Path
) -> None:
    watch(browser, run_id)
    browser.until(lambda: painted(browser, 0) > 3, "a picture")
    browser.press('[aria-label="Record this view"]')
    browser.until(
        lambda: re.search(r"recording ([2-9]|\d\d) of", browser.find(".rs-watch-about").text), "it records"
    )
    browser.press('[aria-label="Stop recording"]')
    link = browser.find(".rs-watch-clip a", "Download the clip").get_attribute("href")
    asked = urllib.request.Request(str(link), headers=browser.headers())
    with urllib.request.urlopen(asked, timeout=30) as answer:
        (tmp_path / "clip.mp4").write_bytes(answer.read())
    frames = list(decode(tmp_path / "clip.mp4"))
    assert len(frames) >= 3
    # Four next to each other are wider than they are high, two rows or not.
    assert frames[0].shape[1] > frames[0].shape[0]
    assert any((frame != frames[0]).any() for frame in frames)


def test_a_reader_may_watch_and_drawing_stops_when_the_last_page_is_gone(
    rig: PageRig, browser: Browser, run_id: str
) -> None:
    browser.open("/")
    until(lambda: metric(rig, "runspine_worker_looked_at") == 0)
    with browsing(rig.address) as reader:
        reader.login(LOOKER)
        watch(reader, run_id)
        reader.until(lambda: painted(reader, 0) > 3, "a reader sees it move")
        until(lambda: metric(rig, "runspine_worker_looked_at") == 1)
        reader.press('[aria-label="Pause (space)"]')
        until(lambda: metric(rig, "runspine_worker_looked_at") == 0)
        reader.press('[aria-label="Resume (space)"]')
        until(lambda: metric(rig, "runspine_worker_looked_at") == 1)
    # Chromium was killed without a word.
    until(lambda: metric(rig, "runspine_worker_looked_at") == 0)

    def still() -> bool:
        frames = metric(rig, "runspine_worker_frames_total")
        browser.open("/")
        browser.sees("running")
        return metric(rig, "runspine_worker_frames_total") == frames

    until(still)


def test_nobody_watches_without_a_token(rig: PageRig, run_id: str) -> None:
    with browsing(rig.address) as stranger:
        stranger.open("/login")
        closed = stranger.driver.execute_async_script(
            "const done = arguments[1];"
            "const socket = new WebSocket(location.origin.replace('http', 'ws') + arguments[0]);"
            "socket.onclose = (event) => done(event.code); socket.onmessage = () => done('seen');",
            f"/api/runs/{run_id}/live",
        )
    assert closed == 4401


def test_a_run_that_has_ended_offers_its_episodes(rig: PageRig, browser: Browser, run_id: str) -> None:
    watch(browser, run_id)
    with rig.shell.client() as client:
        client.cancel(run_id)
    browser.until(lambda: state(browser) == "ended", "the page shows that it has ended", 90)
    browser.sees("There are no live frames after a run has ended")
    browser.press(".rs-watch-note button", "Replay episodes")
    browser.until(lambda: browser.driver.current_url.endswith("tab=episodes"), "its episodes")


def test_the_code_of_a_run_is_shown_with_its_difference_and_downloaded(
    rig: PageRig, browser: Browser, tmp_path: Path
) -> None:
    project = tmp_path / "project"
    project.mkdir()
    (project / "train.py").write_text("print('first')\n")
    identity = ["-c", "user.name=t", "-c", "user.email=t@example.org"]
    for words in (["init", "-q"], ["add", "-A"], [*identity, "commit", "-qm", "begin"]):
        subprocess.run(["git", "-C", project, *words], check=True)
    (project / "train.py").write_text("print('<b>second</b>')\n")
    environment = {**rig.shell.environment, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    del environment["RUNSPINE_CODE"]
    submit = ("submit", "--json", "--", "python", "train.py")
    submitted = run_command(*submit, environment=environment, directory=project)
    assert submitted.returncode == 0, submitted.stderr
    run_id = json.loads(submitted.stdout)["runs"][0]["run"]["id"]
    browser.open(f"/run/{run_id}?tab=code")
    browser.sees("Difference to the commit")
    browser.sees("+print('<b>second</b>')")
    browser.sees("with changes")
    browser.until(lambda: browser.find("a", "Download all"), "the link to the archive")
    fetch = "return fetch(`/api/code/%s/%s`).then(answer => answer.arrayBuffer()).then(found => "
    fetch += "Array.from(new Uint8Array(found)))"
    file = bytes(browser.script(fetch % (run_id, "file/train.py")))
    assert file == (project / "train.py").read_bytes()
    with tarfile.open(fileobj=io.BytesIO(bytes(browser.script(fetch % (run_id, "archive"))))) as archive:
        [member] = archive.getmembers()
        assert member.name.endswith("/train.py")
        inside = archive.extractfile(member)
        assert inside is not None
        assert inside.read() == file
    (project / "train.py").write_text("print('third')\n")
    changed = run_command(*submit, environment=environment, directory=project)
    later = json.loads(changed.stdout)["runs"][0]["run"]["id"]
    browser.open(f"/run/{later}?tab=config")
    browser.find("input[aria-label='Compare with run (id or name)']").send_keys(run_id + Keys.ENTER)
    browser.sees("Code: 1 files differ")
    browser.sees("+print('third')")
    missing = f"return fetch('/api/code/{run_id}/file/../../etc/passwd').then(answer => answer.status)"
    assert browser.script(missing) == 404
