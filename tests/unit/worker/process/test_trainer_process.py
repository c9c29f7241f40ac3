"""The reaper: no process outlives the trainer, and the trainer does not outlive its worker."""

from __future__ import annotations

import asyncio
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from runspine.services.worker.process.cgroup import own_cgroup
from runspine.services.worker.process.survivors import end_survivors, is_locked
from runspine.services.worker.process.trainer_process import (
    REAPER_LOCK,
    NotStartedError,
    TrainerExit,
    TrainerProcess,
)
from tests.kit.paths import ROOT
from tests.kit.waiting import eventually, until

# Every process that a test starts writes its pid into a folder, so that each can be looked for.
NOTE = "import os,sys,time,signal; note=lambda: open(f'{os.environ[\"PIDS\"]}/{os.getpid()}','w').close();\n"
SLEEP = NOTE + "note(); time.sleep(600)"
DEAF = NOTE + "signal.signal(signal.SIGTERM, signal.SIG_IGN); note(); time.sleep(600)"
DAEMON = (
    NOTE
    + """
note()
if os.fork() == 0:
    os.setsid()
    signal.signal(signal.SIGHUP, signal.SIG_IGN)
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    if os.fork() == 0:
        note()
        time.sleep(600)
    os._exit(0)
os.wait()
"""
)
CROWD = (
    NOTE
    + """
note()
for _ in range(50):
    if os.fork() == 0:
        os.setsid() if os.getpid() % 2 else None
        note()
        os.fork()
        note()
        time.sleep(600)
"""
)
PARENT = """
import asyncio, json, sys
from pathlib import Path
from runspine.services.worker.process.trainer_process import TrainerProcess, adopt_orphans
async def main():
    adopt_orphans()
    folder = Path(sys.argv[1])
    command, environment = json.loads(sys.argv[2]), {"PIDS": sys.argv[3], "RUNSPINE_RUN_DIR": sys.argv[1]}
    trainer = await TrainerProcess.start("parent", command, folder, environment, folder / "lock")
    print(trainer.process.pid, flush=True)
    print(await trainer.wait(), flush=True)
asyncio.run(main())
"""


@pytest.fixture
def pids(tmp_path: Path) -> Path:
    folder = tmp_path / "pids"
    folder.mkdir()
    return folder


def alive(pids: Path) -> list[int]:
    return [int(path.name) for path in pids.iterdir() if is_alive(int(path.name))]


def is_alive(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_bytes().rpartition(b")")[2].split()[0]
    except OSError:
        return False
    return state not in (b"Z", b"X")


@asynccontextmanager
async def trainer(script: str, tmp_path: Path, pids: Path) -> AsyncIterator[TrainerProcess]:
    command = [sys.executable, "-c", script]
    environment = {"PIDS": str(pids), "PATH": os.environ["PATH"]}
    started = await TrainerProcess.start(
        tmp_path.name, command, tmp_path, environment, tmp_path / REAPER_LOCK
    )
    try:
        yield started
    finally:
        started.kill()
        await started.wait()
        started.close()


async def test_the_exit_code_is_reported(tmp_path: Path, pids: Path) -> None:
    async with trainer("raise SystemExit(3)", tmp_path, pids) as running:
        assert await running.wait() == TrainerExit(exit_code=3)


async def test_the_signal_that_ended_it_is_reported(tmp_path: Path, pids: Path) -> None:
    async with trainer("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", tmp_path, pids) as running:
        assert await running.wait() == TrainerExit(signal=signal.SIGSEGV)


async def test_a_program_that_is_not_there_is_named(tmp_path: Path, pids: Path) -> None:
    with pytest.raises(NotStartedError, match="No such file"):
        await TrainerProcess.start("absent", ["/no/such/program"], tmp_path, {}, tmp_path / "lock")


async def test_a_folder_that_is_not_there_is_named(tmp_path: Path, pids: Path) -> None:
    with pytest.raises(NotStartedError, match="/no/such/folder"):
        await TrainerProcess.start("absent", ["/bin/true"], Path("/no/such/folder"), {}, tmp_path / "lock")


async def test_arguments_reach_the_program_untouched_by_any_shell(tmp_path: Path, pids: Path) -> None:
    script = "import sys; print(sys.argv[1:])"
    odd = ["$HOME; echo no", "a b", "*", ""]
    started = await TrainerProcess.start(
        "argv", [sys.executable, "-c", script, *odd], tmp_path, {}, tmp_path / "lock"
    )
    emitted = await started.stdout.read()
    await started.wait()
    started.close()
    assert emitted.decode().strip() == str(odd)


async def test_the_environment_holds_only_what_was_given(tmp_path: Path, pids: Path) -> None:
    started = await TrainerProcess.start(
        "env", ["/usr/bin/env"], tmp_path, {"ONLY": "this"}, tmp_path / "lock"
    )
    emitted = await started.stdout.read()
    await started.wait()
    started.close()
    assert re.fullmatch(rb"ONLY=this\nRUNSPINE_TELEMETRY_FD=\d+\nRUNSPINE_TELEMETRY_PIPE=\d+:\d+\n", emitted)


async def test_the_trainer_inherits_no_descriptor_of_the_worker(tmp_path: Path, pids: Path) -> None:
    script = (
        "import os; mine = [0, 1, 2, int(os.environ['RUNSPINE_TELEMETRY_FD'])];"
        "print([int(n) for n in os.listdir('/proc/self/fd') if int(n) not in mine][:-1])"
    )
    async with trainer(script, tmp_path, pids) as running:
        assert (await running.stdout.read()).strip() == b"[]"


async def test_a_daemon_that_forked_twice_ends_with_its_trainer(tmp_path: Path, pids: Path) -> None:
    async with trainer(
        DAEMON + "while len(os.listdir(os.environ['PIDS'])) < 2: time.sleep(0.01)", tmp_path, pids
    ) as running:
        assert await running.wait() == TrainerExit()
        assert len(os.listdir(pids)) == 2
        assert alive(pids) == []


@pytest.mark.alone
async def test_a_trainer_that_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, pids: Path) -> None:
    async with trainer(DEAF, tmp_path, pids) as running:
        await eventually(lambda: len(alive(pids)) == 1)
        began = time.monotonic()
        running.term(0.5)
        assert await running.wait() == TrainerExit(signal=signal.SIGKILL)
        assert 0.5 <= time.monotonic() - began < 3
        assert alive(pids) == []


async def test_a_trainer_that_heeds_sigterm_may_finish_its_work(tmp_path: Path, pids: Path) -> None:
    # Short naps: Python heeds a signal that comes just before a sleep only after it.
    script = NOTE + "signal.signal(signal.SIGTERM, lambda *_: sys.exit(7)); note()\nwhile 1: time.sleep(0.05)"
    async with trainer(script, tmp_path, pids) as running:
        await eventually(lambda: len(alive(pids)) == 1)
        running.term(10)
        assert await running.wait() == TrainerExit(exit_code=7)


async def test_a_stopped_trainer_can_be_ended(tmp_path: Path, pids: Path) -> None:
    async with trainer(SLEEP, tmp_path, pids) as running:
        await eventually(lambda: len(alive(pids)) == 1)
        os.kill(alive(pids)[0], signal.SIGSTOP)
        running.term(5)
        assert await running.wait() == TrainerExit(signal=signal.SIGTERM)
        assert alive(pids) == []


async def test_a_crowd_of_children_is_gone_when_the_trainer_is(tmp_path: Path, pids: Path) -> None:
    async with trainer(CROWD, tmp_path, pids) as running:
        await running.wait()
        await eventually(lambda: not alive(pids), 30)


async def test_output_ends_when_the_last_process_does(tmp_path: Path, pids: Path) -> None:
    async with trainer("print('last words')" + "\n" + DAEMON, tmp_path, pids) as running:
        emitted = await asyncio.wait_for(running.stdout.read(), 60)
        assert emitted == b"last words\n"


@pytest.mark.parametrize("script", [SLEEP, DEAF, DAEMON + "time.sleep(600)", CROWD + "time.sleep(600)"])
def test_no_process_outlives_a_killed_worker(script: str, tmp_path: Path, pids: Path) -> None:
    expected = {SLEEP: 1, DEAF: 1}.get(script, 2 if script.startswith(DAEMON) else 51)
    parent = start_parent(script, tmp_path, pids)
    try:
        until(lambda: len(alive(pids)) >= expected)
        assert is_locked(tmp_path / "lock")
    finally:
        end(parent)
    until(lambda: not alive(pids), 30)
    until(lambda: not is_locked(tmp_path / "lock"), 30)


@pytest.mark.parametrize("script", [SLEEP, DAEMON + "time.sleep(600)"])
def test_no_process_outlives_a_killed_reaper(script: str, tmp_path: Path, pids: Path) -> None:
    parent = start_parent(script, tmp_path, pids)
    try:
        assert parent.stdout
        reaper = int(parent.stdout.readline())
        until(lambda: len(alive(pids)) == (1 if script == SLEEP else 2))
        os.kill(reaper, signal.SIGKILL)
        until(lambda: not alive(pids), 30)
        assert b"unknown=True" in parent.stdout.readline()
    finally:
        end(parent)


@pytest.mark.parametrize("last", [signal.SIGSTOP, signal.SIGKILL])
def test_a_restart_ends_what_a_killed_worker_and_a_stopped_or_killed_reaper_left(
    last: signal.Signals, tmp_path: Path, pids: Path
) -> None:
    parent = start_parent(DAEMON + "time.sleep(600)", tmp_path, pids)
    assert parent.stdout
    reaper = int(parent.stdout.readline())
    until(lambda: len(alive(pids)) == 2)
    os.kill(reaper, signal.SIGSTOP)
    end(parent)
    os.kill(reaper, last)
    assert len(alive(pids)) >= 1, "the daemon was to be left"
    assert end_survivors(tmp_path / "lock", 30)
    assert alive(pids) == []
    assert not is_alive(reaper)


def test_a_process_that_only_reads_the_lock_file_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "lock").write_text("")
    with (tmp_path / "lock").open() as file:
        reader = subprocess.Popen(["/bin/sleep", "600"], stdin=file)
    try:
        assert end_survivors(tmp_path / "lock", 30)
        assert reader.poll() is None
    finally:
        reader.kill()
        reader.wait()


def end(parent: subprocess.Popen[bytes]) -> None:
    assert parent.stdout
    parent.kill()
    parent.wait()
    parent.stdout.close()


def start_parent(script: str, tmp_path: Path, pids: Path) -> subprocess.Popen[bytes]:
    command = json.dumps([sys.executable, "-c", script])
    return subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path), command, str(pids)], stdout=subprocess.PIPE, cwd=ROOT
    )


def test_the_own_cgroup_is_found_in_either_layout() -> None:
    pure = "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n"
    hybrid = "cgroup /sys/fs/cgroup/cpu cgroup rw 0 0\ncgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0\n"
    assert own_cgroup(pure, "0::/user.slice/a\n") == Path("/sys/fs/cgroup/user.slice/a")
    assert own_cgroup(hybrid, "1:cpu:/\n0::/\n") == Path("/sys/fs/cgroup/unified")
    assert own_cgroup("", "0::/\n") is None
    assert own_cgroup(pure, "1:cpu:/\n") is None
