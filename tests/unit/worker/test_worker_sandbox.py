"""The wall around trainers: what is behind it, what is not, and that it does not stand in the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest

from runspine.services.worker.process.sandbox import (
    SandboxError,
    ensure_sandbox,
    sandboxed,
    scratch_variables,
)
from runspine.services.worker.process.trainer_process import REAPER_LOCK, TrainerProcess
from tests.kit.processes import alive

LOOK = """
import json, os, sys, tempfile
def tried(what):
    try:
        what()
    except OSError as error:
        return error.strerror
    return "done"
other, outside, worker = sys.argv[1:4]
found = {
    "processes": len([name for name in os.listdir("/proc") if name.isdigit()]),
    "environment": tried(lambda: open(f"/proc/{worker}/environ").read()),
    "neighbour": tried(lambda: open(other).read()),
    "outside": tried(lambda: open(outside, "w").close()),
    "own": tried(lambda: open("mine", "w").close()),
    "temporary": tried(lambda: tempfile.NamedTemporaryFile().close()),
}
os.write(int(os.environ["RUNSPINE_TELEMETRY_FD"]), b"received")
print(json.dumps(found))
"""
POLITE = """
import signal, sys, time
signal.signal(signal.SIGTERM, lambda *_: (open("checkpoint", "w").close(), sys.exit(7)))
print("ready", flush=True)
while True:
    time.sleep(0.05)  # a signal just before a long sleep is heeded after it
"""
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"


@pytest.fixture
def worker_dir(tmp_path: Path) -> Path:
    place = tmp_path / "worker"
    (place / "runs" / "mine").mkdir(parents=True)
    (place / "runs" / "other").mkdir()
    (place / "runs" / "other" / "secret").write_text("of another run")
    try:
        ensure_sandbox(place)
    except SandboxError as reason:
        pytest.skip(str(reason))
    return place


async def started(worker_dir: Path, script: str, *arguments: str) -> TrainerProcess:
    run_dir = worker_dir / "runs" / "mine"
    command = sandboxed([sys.executable, "-c", script, *arguments], run_dir, run_dir, worker_dir)
    environment = {"PATH": os.environ["PATH"], **scratch_variables(run_dir)}
    return await TrainerProcess.start(
        "walled", command, run_dir, environment, run_dir / REAPER_LOCK, sandboxed=True
    )


async def test_a_sandboxed_trainer_sees_only_itself_and_its_run(worker_dir: Path, tmp_path: Path) -> None:
    secret, outside = worker_dir / "runs" / "other" / "secret", tmp_path / "outside"
    trainer = await started(worker_dir, LOOK, str(secret), str(outside), str(os.getpid()))
    emitted: dict[str, Any] = json.loads(await trainer.stdout.read())
    assert await trainer.telemetry.read() == b"received"
    exited = await trainer.wait()
    trainer.close()
    assert (exited.exit_code, exited.signal) == (0, 0)
    # Its own, and the ones that bwrap runs inside the sandbox.
    assert emitted.pop("processes") <= 3
    assert emitted.pop("environment") in ("No such file or directory", "Permission denied")
    assert emitted == {
        "neighbour": "No such file or directory",
        "outside": "Read-only file system",
        "own": "done",
        "temporary": "done",
    }
    assert (worker_dir / "runs" / "mine" / "mine").exists()
    assert not outside.exists()


async def test_a_sandboxed_trainer_receives_the_signal_to_end(worker_dir: Path) -> None:
    trainer = await started(worker_dir, POLITE)
    await trainer.stdout.readline()
    trainer.term(30.0)
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert (exited.exit_code, exited.signal) == (7, 0)
    assert (worker_dir / "runs" / "mine" / "checkpoint").exists()


async def test_a_trainer_without_a_handler_ends_by_the_signal(worker_dir: Path) -> None:
    trainer = await started(worker_dir, PLAIN)
    await trainer.stdout.readline()
    trainer.term(30.0)
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert (exited.exit_code, exited.signal) == (0, signal.SIGTERM)


async def test_no_process_is_left_in_the_sandbox_when_it_is_killed(worker_dir: Path) -> None:
    trainer = await started(worker_dir, PLAIN)
    await trainer.stdout.readline()
    inside = psutil.Process(trainer.process.pid).children(recursive=True)
    assert len(inside) >= 3
    trainer.kill()
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert exited.left == ()
    assert not alive(inside)


def test_missing_bubblewrap_and_missing_namespaces_are_different_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="there is no bwrap: install bubblewrap"):
        ensure_sandbox(tmp_path)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace\. User namespaces"):
        ensure_sandbox(tmp_path)
