"""The SDK between processes: forks, a shared pipe, signals and a reader that stalls."""

from __future__ import annotations

import json
import os
import select
import signal
import threading
import time
from binascii import a2b_base64
from pathlib import Path

import gymnasium as gym

from runspine.sdk.wrapping import wrapped
from tests.kit.samples.sdk import Listener, in_a_run, of_type, run_with, whole
from tests.kit.waiting import until


def test_a_forked_child_writes_nothing_of_its_parents(tmp_path: Path) -> None:
    script = """
import os, gymnasium as gym, runspine
run = runspine.init()
env = runspine.wrap(gym.make("MountainCar-v0"))
env.reset(seed=1)
for _ in range(10): env.step(0)
child = os.fork()
for _ in range(10): env.step(0)
if not child:
    runspine.wrap(gym.make("CartPole-v1")).reset()
    env.reset(); env.step(1)
    runspine.finish(); os._exit(0)
os.waitpid(child, 0)
"""
    lines = in_a_run(tmp_path, script)
    assert whole(lines, "0-0", "action").tolist() == [0] * 20
    ids = [emitted["episode_id"] for emitted in of_type(lines, "reset")]
    assert len(ids) == len(set(ids)) == 3
    assert [emitted["episode_id"].count("-") for emitted in of_type(lines, "reset")].count(2) == 2
    assert len(of_type(lines, "config")) == 1


def test_many_processes_share_the_pipe_without_mixing_their_lines(tmp_path: Path) -> None:
    script = """
import gymnasium as gym, numpy as np, runspine
run = runspine.init()
make = lambda slot: lambda: runspine.wrap(gym.make("CartPole-v1"), slot=slot)
envs = gym.vector.AsyncVectorEnv([make(slot) for slot in range(3)], context="fork")
envs.reset(seed=1)
for step in range(700):
    envs.step(np.full(3, step % 2))
    run.log({f"name/{i}": i for i in range(100)}, step=step)
envs.close()
"""
    lines = in_a_run(tmp_path, script)
    resets = of_type(lines, "reset")
    # In NEXT_STEP mode a step that resets is no step of an episode; the first resets are calls.
    counted = sum(block["n"] for block in of_type(lines, "steps")) + len(resets) - 3
    assert counted == 2100
    assert len(of_type(lines, "metrics")) == 700
    assert all("rng" in emitted for emitted in resets)


def test_a_child_without_the_pipe_writes_to_nothing_else(tmp_path: Path) -> None:
    script = """
import os, subprocess, sys, runspine
fd = int(os.environ["RUNSPINE_TELEMETRY_FD"])
runspine.init()
read, write = os.pipe()
child = "import runspine; runspine.init({'a': 1}).log({'b': 1})"
# Another pipe under the same number, as a spawned process may have.
def swap():
    os.dup2(write, fd)
subprocess.run([sys.executable, "-c", child], pass_fds=[fd], preexec_fn=swap, check=True)
os.close(write)
assert os.read(read, 100) == b""
"""
    assert [line["type"] for line in in_a_run(tmp_path, script)] == ["config"]


def test_a_signal_handler_may_save_a_checkpoint_at_any_moment(tmp_path: Path) -> None:
    script = """
import os, signal, sys, threading, time, gymnasium as gym, runspine
run = runspine.init()
env = runspine.wrap(gym.make("MountainCar-v0", max_episode_steps=10**9))
env.reset(seed=1)
def save(*_):
    run.checkpoint("model.pt")
signal.signal(signal.SIGALRM, save)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
for step in range(60_000): env.step(step % 3)
signal.setitimer(signal.ITIMER_REAL, 0)
"""
    lines = in_a_run(tmp_path, script)
    assert whole(lines, "0-0", "action").tolist() == [step % 3 for step in range(60_000)]
    assert len(of_type(lines, "artifact")) > 10


def test_a_reader_that_stalls_delays_the_trainer_and_loses_nothing(tmp_path: Path) -> None:
    read, write = os.pipe()
    run = run_with(write, tmp_path)
    data: list[bytes] = []

    def late() -> None:
        time.sleep(0.5)
        while chunk := os.read(read, 1 << 16):
            data.append(chunk)

    reader = threading.Thread(target=late)
    reader.start()
    for step in range(20_000):
        run.log({f"metric/{name}": step for name in range(5)}, step=step)
    run.finish()
    os.close(write)
    reader.join()
    os.close(read)
    assert [json.loads(line)["step"] for line in b"".join(data).splitlines()] == list(range(20_000))


def test_the_handlers_of_signals_are_left_alone(tmp_path: Path) -> None:
    before = [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)]
    listener = Listener(tmp_path)
    listener.wrap(gym.make("CartPole-v1")).reset()
    assert [signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT, signal.SIGPIPE)] == before
    listener.lines()


def test_rows_are_written_while_the_trainer_is_at_something_else(tmp_path: Path) -> None:
    """A compilation of minutes must not keep the steps before it from the worker."""
    read, write = os.pipe()
    run = run_with(write, tmp_path)
    env = wrapped(run, gym.make("CartPole-v1"), None)
    env.reset(seed=1)
    for _ in range(5):
        env.step(0)
    data = b""

    def arrived() -> bool:
        nonlocal data
        if select.select([read], [], [], 0)[0]:
            data += os.read(read, 1 << 20)
        return sum(block["n"] for block in of_type(list(map(json.loads, data.splitlines())), "steps")) == 5

    until(arrived)
    env.step(0)
    run.finish()
    os.close(write)
    with os.fdopen(read, "rb") as pipe:
        data += pipe.read()
    assert len(whole(list(map(json.loads, data.splitlines())), "0-0", "action")) == 6


def test_the_flush_of_another_thread_loses_and_doubles_no_step(tmp_path: Path) -> None:
    listener = Listener(tmp_path)
    env = listener.wrap(gym.make("CartPole-v1"))
    done = threading.Event()

    def flush() -> None:
        while not done.is_set():
            listener.run.flush()

    thread = threading.Thread(target=flush)
    thread.start()
    env.reset(seed=1)
    lengths, length = [], 0
    for _ in range(3000):
        *_, terminated, truncated, _ = env.step(1)
        length += 1
        if terminated or truncated:
            lengths.append(length)
            length = 0
            env.reset()
    done.set()
    thread.join()
    lines = listener.lines()
    ended = of_type(lines, "episode")
    assert [emitted["steps"] for emitted in ended] == lengths
    for emitted in ended:
        flags = b"".join(
            a2b_base64(block["flags"])
            for block in of_type(lines, "steps")
            if block["episode_id"] == emitted["episode_id"]
        )
        assert len(flags) == emitted["steps"]
        assert flags.rstrip(b"\0")
        assert flags.index(flags[-1:]) == len(flags) - 1
