"""Signal handlers that raise while something is said: nothing comes twice, and nothing is lost."""

from __future__ import annotations

import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from runspine.launcher import program
from runspine.launcher.record import record
from tests.unit.sdk_rig import Listener, of_type

SECONDS = 1.5
# Odd, so that it falls on ever other places.
EVERY = 0.00037


def patiently() -> None:
    """In short naps: a signal that comes just before a long one would have to wait for its end."""
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline:
        time.sleep(0.01)


class Interrupted(BaseException):
    """What a handler raises."""


def test_a_write_that_is_interrupted_is_not_written_again(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    pipe, told, broken_off, armed = listener.run.pipe, 0, 0, False

    def once(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupted

    old = signal.signal(signal.SIGALRM, once)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        told += 1
        line = f'{{"type":"log","n":{told},"pad":"{"x" * 5000}"}}'
        try:
            armed = True
            pipe.say(line)
            pipe.flush()
            armed = False
        except Interrupted:
            broken_off += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)
    seen = Counter(said["n"] for said in listener.lines())
    assert broken_off > 100
    assert len(seen) > 100
    assert set(seen.values()) == {1}


@pytest.fixture
def told_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run under the launcher, in this process."""
    listener = Listener(tmp_path)
    monkeypatch.setattr(type(record), "run", listener.run)
    monkeypatch.setattr(record, "script", "train.py")
    old = signal.signal(signal.SIGTERM, program.stop)
    yield listener
    signal.signal(signal.SIGTERM, old)


def test_the_launcher_ends_a_script_after_the_line_that_it_is_writing(told_to_stop: Listener) -> None:
    def line() -> str:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.1)  # long enough for the signal to come again, more than once
        return '{"type":"log","text":"whole"}'

    def write() -> None:
        told_to_stop.run.pipe.later(10, line)
        told_to_stop.run.pipe.flush()
        patiently()

    with pytest.raises(SystemExit) as ended:
        write()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [said["text"] for said in told_to_stop.lines()] == ["whole"]


def test_the_launcher_ends_a_script_after_the_episode_that_ends(
    told_to_stop: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = told_to_stop.wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    take = type(told_to_stop.run.pipe).later

    def later(self: Any, *what: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.01)
        take(self, *what)

    monkeypatch.setattr(type(told_to_stop.run.pipe), "later", later)

    def train() -> None:
        while not any(env.step(0)[2:4]):
            pass
        patiently()

    with pytest.raises(SystemExit):
        train()
    said = told_to_stop.lines()
    (episode,) = of_type(said, "episode")
    assert sum(line["n"] for line in of_type(said, "steps")) == episode["steps"] == told_to_stop.run.steps
