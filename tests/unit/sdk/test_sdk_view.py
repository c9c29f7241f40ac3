"""Frames of a trainer's envs: drawn only while somebody looks, and never at the trainer's expense."""

from __future__ import annotations

import os
import signal
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest

from runspine.sdk.drawing import RenderError, Surface, drawing
from runspine.sdk.view import TrainerView, thinned
from tests.kit.samples.sdk import Listener, of_type
from tests.kit.samples.view import Watcher
from tests.kit.waiting import until


@pytest.fixture
def watcher(tmp_path: Path) -> Iterator[Watcher]:
    watcher = Watcher(tmp_path / "view.sock")
    yield watcher
    watcher.close()


def listener(watcher: Watcher, tmp_path: Path) -> Listener:
    return Listener(tmp_path, view=str(watcher.path))


def step_until(env: Any, probe: Any, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while not probe():
        assert time.monotonic() < deadline, "waited in vain"
        _, _, terminated, truncated, _ = env.step(env.action_space.sample())
        if terminated or truncated:
            env.reset()


def test_nothing_is_drawn_until_somebody_looks_and_again_when_nobody_does(
    watcher: Watcher, tmp_path: Path
) -> None:
    received = listener(watcher, tmp_path)
    env = received.wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    step_until(env, lambda: watcher.connections)
    step_until(env, lambda: received.run.steps > 2000)
    assert received.run.view.drawn == 0
    watcher.look(fps=30)
    step_until(env, lambda: len(watcher.seen) >= 5)
    watcher.emit(look=None)
    step_until(env, lambda: not received.run.view.alert)
    drawn, steps = received.run.view.drawn, received.run.steps
    step_until(env, lambda: received.run.steps > steps + 2000)
    assert received.run.view.drawn == drawn
    received.lines()


def test_a_frame_shows_the_env_with_step_episode_and_return_so_far(watcher: Watcher, tmp_path: Path) -> None:
    received = listener(watcher, tmp_path)
    env = received.wrap(gymnasium.make("CartPole-v1"), slot=3)
    env.reset(seed=1)
    step_until(env, lambda: watcher.connections)
    received.run.view.about["batch"] = 7
    watcher.look()
    step_until(env, lambda: len(watcher.seen) >= 3)
    header, data = watcher.seen[-1]
    assert (header["width"], header["height"], header["slot"], header["slots"]) == (600, 400, 3, 4)
    picture = np.frombuffer(data, np.uint8).reshape(400, 600, 4 if header["bgrx"] else 3)[:, :, :3]
    assert picture.min() < 50
    assert picture.max() == 255
    hud = header["hud"]
    # CartPole pays one for each step.
    assert hud["episode_return"] == hud["episode_step"] > 0
    assert hud["episode_id"].startswith("3-")
    assert hud["step"] <= received.run.steps
    assert hud["batch"] == 7
    received.lines()


class Dot(gymnasium.Env[Any, Any]):
    """Drawn in no time: what is measured with it is the plan, not the drawing."""

    metadata = {"render_modes": ["rgb_array"]}  # noqa: RUF012
    render_mode = None
    observation_space = gymnasium.spaces.Discrete(2)
    action_space = gymnasium.spaces.Discrete(2)

    def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
        return 0, {}

    def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
        return 1, 1.0, False, False, {}

    def render(self) -> Any:
        return np.zeros((2, 2, 3), np.uint8)


def test_frames_come_at_the_rate_that_was_asked_for(watcher: Watcher, tmp_path: Path) -> None:
    received = listener(watcher, tmp_path)
    env = received.wrap(Dot())
    env.reset()
    step_until(env, lambda: watcher.connections)
    watcher.look(fps=10)
    step_until(env, lambda: watcher.seen)
    began, first = time.time(), received.run.view.drawn
    # Tenths of a second in which it came to step at all: on a loaded machine there are few, and one
    # frame is due in each of them.
    tenths = set()
    while time.time() < began + 2.0:
        env.step(0)
        tenths.add(int(time.time() * 10))
    drawn = received.run.view.drawn - first
    assert 0.8 * len(tenths) - 1 <= drawn <= len(tenths) + 1
    received.lines()


def test_only_the_slots_looked_at_are_drawn(watcher: Watcher, tmp_path: Path) -> None:
    received = listener(watcher, tmp_path)
    envs = [received.wrap(gymnasium.make("CartPole-v1"), slot=slot) for slot in range(3)]
    for env in envs:
        env.reset(seed=1)
    step_until(envs[0], lambda: watcher.connections)
    watcher.look(slots=[1])
    until(lambda: received.run.view.alert)
    for _ in range(3):
        for env in envs:
            step_until(env, lambda at=received.run.steps: received.run.steps > at + 500)
    until(lambda: watcher.seen)
    assert {seen.header["slot"] for seen in watcher.seen} == {1}
    received.lines()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3"])
def test_an_env_that_is_looked_at_goes_on_exactly_as_one_that_is_not(
    env_id: str, watcher: Watcher, tmp_path: Path
) -> None:
    def trace(env: Any, steps: int) -> list[Any]:
        emitted = [env.reset(seed=5)[0].tobytes()]
        rng = np.random.default_rng(1)
        for _ in range(steps):
            seen, reward, terminated, truncated, _ = env.step(int(rng.integers(env.action_space.n)))
            emitted.append((seen.tobytes(), reward))
            if terminated or truncated:
                emitted.append(env.reset()[0].tobytes())
        return emitted

    bare = trace(gymnasium.make(env_id), 2000)
    received = listener(watcher, tmp_path)
    env = received.wrap(gymnasium.make(env_id))
    env.reset(seed=5)
    step_until(env, lambda: watcher.connections)
    watcher.look()
    step_until(env, lambda: watcher.seen)
    drawn = received.run.view.drawn

    # A quick machine takes all these steps between two frames.
    def is_drawn_and_exact() -> bool:
        assert trace(env, 2000) == bare
        return received.run.view.drawn > drawn

    until(is_drawn_and_exact)
    assert env.unwrapped.render_mode is None
    received.lines()


def test_an_env_that_cannot_be_drawn_reports_why_and_trains_on(watcher: Watcher, tmp_path: Path) -> None:
    class Blind(gymnasium.Env[Any, Any]):
        metadata = {"render_modes": ["ansi"]}  # noqa: RUF012
        observation_space = gymnasium.spaces.Discrete(2)
        action_space = gymnasium.spaces.Discrete(2)

        def reset(self, **_: Any) -> tuple[int, dict[str, Any]]:
            return 0, {}

        def step(self, action: Any) -> tuple[int, float, bool, bool, dict[str, Any]]:
            return 1, 1.0, False, False, {}

    received = listener(watcher, tmp_path)
    env = received.wrap(Blind())
    env.reset()
    step_until(env, lambda: watcher.connections)
    watcher.look()
    step_until(env, lambda: watcher.seen)
    assert watcher.seen[0].header["trouble"] == "Blind draws no pictures; it knows ansi"
    steps = received.run.steps
    step_until(env, lambda: received.run.steps > steps + 5000)
    assert len(watcher.seen) == 1
    assert sum(line["n"] for line in of_type(received.lines(), "steps")) == received.run.steps


def test_an_env_with_a_window_is_left_alone_and_one_with_frames_keeps_its_mode() -> None:
    shown = gymnasium.make("CartPole-v1", render_mode="rgb_array")
    shown.reset(seed=1)
    assert drawing(shown)().shape == (400, 600, 3)
    assert shown.unwrapped.render_mode == "rgb_array"
    shown.unwrapped.render_mode = "human"
    with pytest.raises(RenderError, match="window of its own"):
        drawing(shown)()


def test_drawing_does_not_keep_an_env_alive_nor_take_sigterm_from_the_trainer(tmp_path: Path) -> None:
    env = gymnasium.make("CartPole-v1")
    draw = drawing(env)
    child = os.fork()
    if child == 0:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        env.reset(seed=1)
        draw()
        (tmp_path / "drawn").touch()
        time.sleep(30)
        os._exit(0)
    until((tmp_path / "drawn").exists)
    os.kill(child, signal.SIGTERM)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGTERM
    del env
    with pytest.raises(RenderError, match="gone"):
        draw()


@pytest.mark.parametrize("env_id", ["CartPole-v1", "LunarLander-v3", "FrozenLake-v1", "BipedalWalker-v3"])
def test_a_surface_is_taken_as_it_is_only_where_it_is_the_picture(env_id: str) -> None:
    env = gymnasium.make(env_id)
    env.reset(seed=1)
    draw = drawing(env)
    first, again = draw(), draw()
    assert again.shape[:2] == first.shape[:2]
    # BipedalWalker's picture is a part of its surface, and its lidar turns from one to the next.
    if env_id == "BipedalWalker-v3":
        assert not isinstance(again, Surface)
    else:
        assert isinstance(again, Surface)
        assert np.array_equal(again[:, :, 2::-1], first)
    for width in (320, 64):
        small = thinned(again, width)
        assert small.shape[2] == again.shape[2]
        stride = -(-again.shape[1] // (2 * width))
        assert np.array_equal(small, np.asarray(again)[::stride, ::stride])
    env.close()


def test_commands_of_viewers_wait_for_the_actor_and_the_newest_are_kept(
    watcher: Watcher, tmp_path: Path
) -> None:
    view = TrainerView(str(watcher.path))
    view.open()
    for number in range(1500):
        watcher.emit(input={"number": number})
    until(view.commands.full)
    watcher.emit(pace={"paused": True})
    found: list[dict[str, Any]] = []
    while not found or "pace" not in found[-1]:
        found.append(view.commands.get(timeout=60))
    numbers = [each["input"]["number"] for each in found[:-1]]
    assert numbers == sorted(numbers)
    assert numbers[-1] == 1499
    assert len(numbers) <= 1500


def test_a_worker_that_stalls_or_vanishes_does_not_hold_up_the_trainer(tmp_path: Path) -> None:
    server = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    server.bind(str(tmp_path / "view.sock"))
    server.listen()
    view = TrainerView(str(tmp_path / "view.sock"))
    view.open()
    connection, _ = server.accept()
    connection.sendall(b'{"look": {"fps": 30, "width": 640, "slots": null}}\n')
    until(lambda: view.request)
    frame = np.zeros((800, 1200, 3), np.uint8)
    began = time.monotonic()
    for number in range(50):
        view.show(number % 4, frame, {})
    # A frame's copy and nothing else, though nobody reads: who waited for a reader would wait for ever.
    assert time.monotonic() - began < 20
    # One of each slot waits, however many were shown.
    assert view._channel is not None
    assert len(view._channel._waiting) <= 4
    connection.close()
    until(lambda: view.request is None)
    view.show(0, frame, {})
    server.close()


def test_a_forked_child_opens_a_view_of_its_own(watcher: Watcher, tmp_path: Path) -> None:
    received = listener(watcher, tmp_path)
    env = received.wrap(gymnasium.make("CartPole-v1"), slot=0)
    env.reset(seed=1)
    step_until(env, lambda: watcher.connections)
    child = os.fork()
    if child == 0:
        received.run.forked()
        other = received.wrap(gymnasium.make("CartPole-v1"), slot=1)
        other.reset(seed=1)
        step_until(other, lambda: received.run.view.drawn > 3)
        time.sleep(0.5)
        os._exit(0)
    until(lambda: len(watcher.connections) == 2)
    watcher.look()
    step_until(env, lambda: {seen.header["slot"] for seen in watcher.seen} == {0, 1})
    assert os.waitpid(child, 0)[1] == 0
    received.lines()


def test_a_large_picture_is_thinned_to_at_most_twice_the_width_wanted() -> None:
    assert thinned(np.zeros((1440, 1440, 3), np.uint8), 320).shape == (480, 480, 3)
    assert thinned(np.zeros((400, 600, 3), np.uint8), 320).shape == (400, 600, 3)
    assert thinned(np.zeros((90_000, 100, 3), np.uint8), 320).shape[0] * 50 <= 4 << 20
