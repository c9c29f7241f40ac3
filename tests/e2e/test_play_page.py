"""Play in a real Chromium: a person at the keyboard, a policy with them, and what the log has of it."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path
from typing import Any

import pytest
from selenium.webdriver.common.keys import Keys

from runspine.bench.kit.browser import Browser, browsing
from runspine.replay.episode_lookup import find_episode
from runspine.wire.v1.run_pb2 import Phase
from tests.kit.page import IN_CHROMIUM, LOOKER, PageRig
from tests.kit.player import actors_in, balancer
from tests.kit.stack import damaged
from tests.kit.waiting import until

pytestmark = [*IN_CHROMIUM, pytest.mark.long]
ARROWS = {"L": Keys.ARROW_LEFT, "D": Keys.ARROW_DOWN, "R": Keys.ARROW_RIGHT, "U": Keys.ARROW_UP}
LAKE = ("FrozenLake-v1", "--set", "env_kwargs.is_slippery=false")


@pytest.fixture(scope="module")
def checkpoint(rig: PageRig, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = balancer(tmp_path_factory.mktemp("made") / "dqn.cleanrl_model")
    (card,) = rig.shell.json("import", path, "--env", "CartPole-v1")["imported"]
    return str(card["artifact"]["digest"])


class Session:
    """A session's panel in the page."""

    def __init__(self, browser: Browser, run_id: str) -> None:
        self.browser, self.run_id = browser, run_id
        browser.open(f"/run/{run_id}?tab=play")
        self.until("state", "live")
        self.stage = browser.find(".rs-play-stage")
        self.stage.focus()

    def received(self) -> dict[str, str]:
        (found,) = self.browser.each(".rs-play", "({...element.dataset})")
        return dict(found)

    def until(self, name: str, value: str) -> None:
        def so() -> bool:
            script = "return document.querySelector('.rs-play')?.dataset[arguments[0]]"
            return bool(self.browser.script(script, name) == value)

        self.browser.until(so, f"{name} is {value}")

    def press(self, keys: str) -> None:
        """Key by key, each when the one before it is seen."""
        for key in keys:
            before = int(self.received()["step"])
            self.stage.send_keys(ARROWS[key])
            self.until("step", str(before + 1))

    def choose_unoffered(self, actor: str) -> None:
        """Somebody who is not in the menu, at once: the page may make its menu again."""
        added = "element.append(new Option('bad', arguments[1])); element.value = arguments[1];"
        script = f"const element = document.querySelector(arguments[0]); {added}"
        self.browser.script(f"{script} element.dispatchEvent(new Event('change'))", ".rs-play-actors", actor)

    def choose(self, actor: str) -> None:
        self.set("Actor to hand over to", actor)

    def set(self, menu: str, value: str) -> None:
        self.browser.find(f'select[aria-label="{menu}"]').set(value)

    def swap(self) -> None:
        self.browser.press(".rs-play-swap")

    @property
    def waits(self) -> list[float]:
        return list(json.loads(self.received().get("waits", "[]")))


def play(rig: PageRig, *arguments: object) -> str:
    return str(rig.shell.json("play", *arguments, "--detach")["runs"][0]["id"])


def listed(rig: PageRig, run_id: str) -> list[Any]:
    return list(until(lambda: rig.shell.json("episodes", run_id)["episodes"]))


def who(rig: PageRig, run_id: str) -> list[str]:
    with rig.shell.client() as client:
        return [actor for actor, _ in actors_in(find_episode(client, run_id, "0").response)]


@pytest.mark.long
def test_a_person_plays_frozen_lake_with_keys_and_buttons_and_it_becomes_a_dataset(
    rig: PageRig, browser: Browser, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run_id = play(rig, *LAKE)
    session = Session(browser, run_id)
    assert browser.find(".rs-play-who").text == "your turn"
    assert "↓" in browser.find(".rs-key", "down").text
    session.press("DDR")
    # By the buttons on the screen, and by such a button with the keyboard alone.
    browser.press(".rs-key", "right")
    session.until("step", "4")
    browser.find(".rs-key", "down").send_keys(Keys.ENTER)
    session.until("step", "5")
    assert len(session.waits) == 5, "from each key to its picture"
    session.stage.send_keys(Keys.ARROW_RIGHT)
    browser.sees("episode 0: return 1 in 6 steps")
    assert listed(rig, run_id)[0]["episode"]["return"] == 1.0
    rig.shell("replay", run_id, "0", code=0)
    browser.open(f"/run/{run_id}?tab=episodes")
    browser.sees("exact: all 6 steps")
    browser.find(".rs-scrub").send_keys(Keys.ARROW_RIGHT)
    browser.sees("1, by human")
    rig.cancel(run_id)
    rig.until_phase(run_id, "cancelled")
    rig.shell("export", run_id, "--to", "minari", "--out", tmp_path, "--dataset-id", "ada/lake-v0")
    import minari

    monkeypatch.setenv("MINARI_DATASETS_PATH", str(tmp_path))
    (episode,) = minari.load_dataset("ada/lake-v0").iterate_episodes()
    assert episode.actions.tolist() == [1, 1, 2, 2, 1, 2]


def test_cart_pole_is_handed_to_a_policy_in_mid_episode_and_taken_back(
    rig: PageRig, browser: Browser, checkpoint: str
) -> None:
    bad = asyncio.run(damaged(rig.shell))
    # Slowly: a pole that leans too far is beyond any policy, and after 500 steps CartPole is over.
    run_id = play(rig, "CartPole-v1", "--fps", "2")
    session = Session(browser, run_id)
    session.choose(f"policy:{checkpoint}")
    session.stage.send_keys(Keys.ARROW_LEFT)
    session.swap()
    session.until("actor", f"policy:{checkpoint}")
    session.set("Steps per second", "5")
    at = int(session.received()["step"])
    browser.until(lambda: int(session.received()["step"]) > at + 15, "the policy goes on")
    session.choose_unoffered(f"policy:{bad}")
    browser.sees(f"policy {checkpoint[:12]} goes on: its checkpoint cannot be used")
    browser.sees("SHA-256 differs")
    at = int(session.received()["step"])
    browser.until(lambda: int(session.received()["step"]) > at + 5, "the old policy plays on")
    session.swap()
    session.until("actor", "human")
    session.until("waiting", "true")
    assert session.received()["episode"] == "0-0", "the very same episode"
    session.stage.send_keys(Keys.ARROW_RIGHT)
    assert listed(rig, run_id)
    assert who(rig, run_id) == ["human", f"policy:{checkpoint}", "human"]
    rig.shell("replay", run_id, "0", code=0)
    rig.cancel(run_id)


def test_the_page_offers_only_who_fits_and_shows_two_side_by_side(
    rig: PageRig, browser: Browser, checkpoint: str
) -> None:
    for env, fits in (("CartPole-v1", True), ("FrozenLake-v1", False)):
        found = {actor["name"] for actor in rig.shell.json("actors", "--env", env)["actors"]}
        assert found >= {"human", "random"}
        assert (f"policy:{checkpoint}" in found) == fits
    browser.open("/play?env=FrozenLake-v1")
    browser.press(".q-select", "Actor")
    browser.sees("random actions")
    assert checkpoint[:8] not in browser.text()
    browser.open("/play?env=CartPole-v1")
    browser.press(".q-select", "Actor")
    browser.press(".q-item", checkpoint[:8])
    browser.press(".q-select", "Second actor")
    browser.press(".q-item", "random actions")
    browser.press("button", "Play")
    browser.until(lambda: "/play?runs=" in browser.driver.current_url, "both sessions")
    browser.until(lambda: browser.each(".rs-play", "element.dataset.state") == ["live"] * 2, "both are seen")
    runs = browser.driver.current_url.partition("runs=")[2].split(",")
    assert len({rig.run(run_id).spec.seed for run_id in runs}) == 1
    rig.cancel(*runs)


def test_an_episode_is_played_on_from_the_step_that_the_scrubber_shows(
    rig: PageRig, browser: Browser
) -> None:
    parent = play(rig, "CartPole-v1", "--actor", "random", "--episodes", 1, "--fps", 500)
    listed(rig, parent)
    browser.open(f"/run/{parent}?tab=episodes")
    browser.sees("exact: all")
    for step in (1, 2, 3, 4):
        browser.find(".rs-scrub").send_keys(Keys.ARROW_RIGHT)
        browser.find(f'.rs-scrubber[data-shown="{step}"]')
    browser.press("button", "Fork from here")
    browser.sees("The steps before it are replayed exactly")
    browser.press(".q-dialog button", "Start")
    browser.until(lambda: parent not in browser.driver.current_url, "the new session")
    child = browser.driver.current_url.rpartition("/run/")[2].partition("?")[0]
    session = Session(browser, child)
    assert session.received()["step"] == "4"
    assert rig.run(child).spec.play.fork.step == 4
    rig.cancel(child)


@pytest.mark.long
def test_a_training_goes_on_from_the_step_that_the_scrubber_shows(rig: PageRig, browser: Browser) -> None:
    parent = play(rig, *LAKE, "--actor", "random", "--episodes", 1, "--fps", 500)
    steps = listed(rig, parent)[0]["episode"]["steps"]
    browser.open(f"/run/{parent}?tab=episodes")
    browser.sees("exact: all")
    browser.find(".rs-scrub").send_keys(Keys.ARROW_RIGHT)
    browser.press("button", "Fork from here")
    browser.press(".q-dialog .q-btn-toggle button", "Train")
    browser.sees("Start every episode there")
    assert "qlearning" in browser.find(".q-dialog .q-select", "Algorithm").text
    browser.fill("Steps to train", "400")
    browser.press(".q-dialog button", "Start")
    browser.until(lambda: parent not in browser.driver.current_url, "the new run")
    child = browser.driver.current_url.rpartition("/run/")[2].partition("?")[0]
    rig.until_phase(child, "completed")
    spec = rig.run(child).spec
    assert (spec.fork.run_id, spec.fork.step, spec.total_steps) == (parent, min(1, steps - 1), 400)
    rig.shell("replay", child, "id:0-0", code=0)


def test_who_may_only_look_sees_everything_and_steers_nothing(rig: PageRig) -> None:
    run_id = play(rig, *LAKE)
    with browsing(rig.address) as looker:
        looker.login(LOOKER)
        session = Session(looker, run_id)
        looker.sees("Watching only")
        assert not looker.find(".rs-key", "down").is_enabled()
        session.stage.send_keys(Keys.ARROW_DOWN)
        # Past the page: the server refuses, too.
        looker.script(SNEAK, run_id)
        looker.until(lambda: "read-only" in (looker.script("return window.answer") or ""), "a refusal")
        assert session.received()["step"] == "0"
    rig.cancel(run_id)
    until(lambda: rig.run(run_id).phase == Phase.CANCELLED)


SNEAK = """
const socket = new WebSocket(`ws://${location.host}/api/runs/${arguments[0]}/live`);
socket.onmessage = (event) => { if (typeof event.data === "string") window.answer = event.data; };
const input = {key: "ArrowDown", number: 1, down: true};
socket.onopen = () => socket.send(JSON.stringify({steer: {input}}));
"""


@pytest.mark.long  # Alone: a promise in milliseconds.
def test_a_key_becomes_a_step_that_is_seen_at_once(rig: PageRig, browser: Browser) -> None:
    session = Session(browser, play(rig, *LAKE))
    # Against the wall: each is a step, and the episode goes on.
    session.press("LU" * 20)
    waits = sorted(session.waits)
    p50, p95 = waits[len(waits) // 2], waits[int(len(waits) * 0.95) - 1]
    print(f"\nkey → step seen in the page, {len(waits)} keys: p50 {p50:.0f} ms, p95 {p95:.0f} ms")
    assert p50 < 250
    rig.cancel(session.run_id)
