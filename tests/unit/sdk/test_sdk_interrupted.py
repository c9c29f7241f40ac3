"""Signal handlers that raise during a write: no line is written twice, and none is lost."""

from __future__ import annotations

import _thread
import signal
import time
from collections import Counter
from pathlib import Path
from typing import Any

import gymnasium
import pytest

from runspine.instrument import program
from runspine.instrument.record import record
from tests.kit.samples.sdk import Listener, of_type
from tests.kit.waiting import until

_thread_start = _thread.start_new_thread
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
    pipe, received, broken_off, armed = listener.run.pipe, 0, 0, False

    def once(number: int, frame: Any) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise Interrupted

    old = signal.signal(signal.SIGALRM, once)
    signal.setitimer(signal.ITIMER_REAL, EVERY, EVERY)
    deadline = time.monotonic() + SECONDS
    while time.monotonic() < deadline:
        received += 1
        line = f'{{"type":"log","n":{received},"pad":"{"x" * 5000}"}}'
        try:
            armed = True
            pipe.write(line)
            pipe.flush()
            armed = False
        except Interrupted:
            broken_off += 1
    signal.setitimer(signal.ITIMER_REAL, 0)
    signal.signal(signal.SIGALRM, old)
    seen = Counter(emitted["n"] for emitted in listener.lines())
    assert broken_off > 100
    assert len(seen) > 100
    assert set(seen.values()) == {1}


@pytest.fixture
def received_to_stop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A run under the launcher, in this process."""
    listener = Listener(tmp_path)
    monkeypatch.setattr(type(record), "run", listener.run)
    monkeypatch.setattr(record, "script", "train.py")
    started: list[Any] = []
    ended: list[Any] = []

    def resend(function: Any, arguments: Any) -> None:
        try:
            function(*arguments)
        finally:
            ended.append(arguments)

    def start(function: Any, arguments: Any) -> None:
        started.append(arguments)
        _thread_start(resend, (function, arguments))

    monkeypatch.setattr(_thread, "start_new_thread", start)
    old = signal.signal(signal.SIGTERM, program.stop)
    yield listener
    # A signal that is still to be sent again must not reach pytest's own handler.
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    until(lambda: len(ended) == len(started), what="every repeated signal has come")
    signal.signal(signal.SIGTERM, old)


def test_the_launcher_ends_a_script_after_the_line_that_it_is_writing(received_to_stop: Listener) -> None:
    def line() -> str:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.1)  # long enough for the signal to come again, more than once
        return '{"type":"log","text":"whole"}'

    def write() -> None:
        received_to_stop.run.pipe.write_later(10, line)
        received_to_stop.run.pipe.flush()
        patiently()

    with pytest.raises(SystemExit) as ended:
        write()
    assert ended.value.code == 128 + signal.SIGTERM
    assert [emitted["text"] for emitted in received_to_stop.lines()] == ["whole"]


def test_the_launcher_ends_a_script_after_the_episode_that_ends(
    received_to_stop: Listener, monkeypatch: pytest.MonkeyPatch
) -> None:
    env = received_to_stop.wrap(gymnasium.make("CartPole-v1"))
    env.reset(seed=1)
    take = type(received_to_stop.run.pipe).write_later

    def later(self: Any, *what: Any) -> None:
        signal.raise_signal(signal.SIGTERM)
        time.sleep(0.01)
        take(self, *what)

    monkeypatch.setattr(type(received_to_stop.run.pipe), "write_later", later)

    def train() -> None:
        while not any(env.step(0)[2:4]):
            pass
        patiently()

    with pytest.raises(SystemExit):
        train()
    emitted = received_to_stop.lines()
    (episode,) = of_type(emitted, "episode")
    assert (
        sum(line["n"] for line in of_type(emitted, "steps")) == episode["steps"] == received_to_stop.run.steps
    )
