"""The wall around trainers: what is behind it, what is not, and that it does not stand in the way."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil
import pytest

from runspine.services.worker.process.sandbox import (
    BUBBLEWRAP,
    ENGINES,
    Sandbox,
    SandboxError,
    bubblewrapped,
    ensure_sandbox,
    find_sandbox,
    make_scratch,
)
from runspine.services.worker.process.sandbox_plan import SandboxPolicy, plan_sandbox
from runspine.services.worker.process.trainer_process import REAPER_LOCK, TrainerProcess
from runspine.services.worker.runners.named_paths import named_paths
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
    "system": tried(lambda: open("/usr/mine", "w").close()),
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
NETWORK = """
import json, socket
server = socket.create_server(("127.0.0.1", 0))
socket.create_connection(server.getsockname(), 5)
print(json.dumps({"links": [name for _, name in socket.if_nameindex()], "itself": "done"}))
"""
PLAIN = "import time; print('ready', flush=True); time.sleep(600)"


@dataclass
class Walled:
    """A worker's directory with two runs, and the sandbox of the first."""

    worker_dir: Path
    sandbox: Sandbox

    @property
    def run_dir(self) -> Path:
        return self.worker_dir / "runs" / "mine"

    async def start(
        self, script: str, *arguments: str, network: bool = True, variables: Mapping[str, str] | None = None
    ) -> TrainerProcess:
        make_scratch(self.run_dir)
        plan = plan_sandbox(self.sandbox.policy, self.run_dir, self.run_dir, sys.executable, network=network)
        command = self.sandbox.command(plan, [sys.executable, "-c", script, *arguments])
        environment = {"PATH": os.environ["PATH"], "HOME": str(Path.home()), **(variables or {})}
        lock = self.run_dir / REAPER_LOCK
        return await TrainerProcess.start("walled", command, self.run_dir, environment, lock, sandboxed=True)


@pytest.fixture(params=ENGINES)
def walled(request: pytest.FixtureRequest, tmp_path: Path) -> Walled:
    place = tmp_path / "worker"
    (place / "runs" / "mine").mkdir(parents=True)
    (place / "runs" / "other").mkdir()
    (place / "runs" / "other" / "secret").write_text("of another run")
    try:
        return Walled(place, find_sandbox(request.param, SandboxPolicy(place, home=Path.home())))
    except SandboxError as reason:
        pytest.skip(str(reason))


async def test_a_sandboxed_trainer_sees_only_itself_and_its_run(walled: Walled, tmp_path: Path) -> None:
    secret, outside = walled.worker_dir / "runs" / "other" / "secret", tmp_path / "outside"
    trainer = await walled.start(LOOK, str(secret), str(outside), str(os.getpid()))
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
        # In its own /tmp, where that path is another file.
        "outside": "done",
        "system": "Read-only file system",
        "own": "done",
        "temporary": "done",
    }
    assert (walled.run_dir / "mine").exists()
    assert not outside.exists()


async def test_a_sandboxed_trainer_receives_the_signal_to_end(walled: Walled) -> None:
    trainer = await walled.start(POLITE)
    await trainer.stdout.readline()
    trainer.term(30.0)
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert (exited.exit_code, exited.signal) == (7, 0)
    assert (walled.run_dir / "checkpoint").exists()


async def test_a_trainer_without_a_handler_ends_by_the_signal(walled: Walled) -> None:
    trainer = await walled.start(PLAIN)
    await trainer.stdout.readline()
    trainer.term(30.0)
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert (exited.exit_code, exited.signal) == (0, signal.SIGTERM)


async def test_no_process_is_left_in_the_sandbox_when_it_is_killed(walled: Walled) -> None:
    trainer = await walled.start(PLAIN)
    await trainer.stdout.readline()
    inside = psutil.Process(trainer.process.pid).children(recursive=True)
    assert len(inside) >= 3
    trainer.kill()
    exited = await asyncio.wait_for(trainer.wait(), 30)
    trainer.close()
    assert exited.left == ()
    assert not alive(inside)


async def test_variables_of_a_run_do_not_act_on_what_builds_its_sandbox(
    walled: Walled, tmp_path: Path
) -> None:
    outside = tmp_path / "traces"
    outside.mkdir()
    # The dynamic linker writes a file for each program that it starts, as it would load a library.
    variables = {"LD_DEBUG": "libs", "LD_DEBUG_OUTPUT": f"{outside}/trace", "MINE": 'a=b\n"c" é'}
    script = "import os; print(os.environ['MINE'], os.environ['LD_DEBUG'], 'RUNSPINE_HOME' in os.environ)"
    trainer = await walled.start(script, variables=variables)
    # The folder is not there in the sandbox: what programs inside trace is among their output.
    assert 'a=b\n"c" é libs False\n' in (await trainer.stdout.read()).decode()
    await trainer.wait()
    trainer.close()
    assert list(outside.iterdir()) == []


async def test_without_a_network_a_trainer_reaches_itself_alone(walled: Walled) -> None:
    trainer = await walled.start(NETWORK, network=False)
    assert json.loads(await trainer.stdout.read()) == {"links": ["lo"], "itself": "done"}
    await trainer.wait()
    trainer.close()


def test_missing_bubblewrap_and_missing_namespaces_are_different_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sandbox = Sandbox(BUBBLEWRAP, SandboxPolicy(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(SandboxError, match="there is no bwrap: install bubblewrap"):
        ensure_sandbox(sandbox)
    (tmp_path / "bwrap").write_text("#!/bin/sh\necho 'No permissions to create new namespace' >&2; exit 1\n")
    (tmp_path / "bwrap").chmod(0o755)
    with pytest.raises(SandboxError, match=r"No permissions to create new namespace\. User namespaces"):
        ensure_sandbox(sandbox)
    with pytest.raises(SandboxError, match="RUNSPINE_WORKER_SANDBOX is bubblewrap, but"):
        find_sandbox(BUBBLEWRAP, sandbox.policy)


def test_without_any_sandbox_auto_goes_on_and_states_why(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(sandbox: Sandbox) -> None:
        raise SandboxError(f"{sandbox.engine} is not allowed")

    monkeypatch.setattr("runspine.services.worker.process.sandbox.ensure_sandbox", refused)
    found = find_sandbox("auto", SandboxPolicy(tmp_path))
    assert not found
    assert found.missing == "bubblewrap is not allowed; namespaces is not allowed"
    with pytest.raises(SandboxError, match="RUNSPINE_WORKER_SANDBOX is require, but bubblewrap"):
        find_sandbox("require", SandboxPolicy(tmp_path))


def test_what_a_spec_names_is_given_unless_it_is_the_stacks_or_the_systems(tmp_path: Path) -> None:
    home, stack = tmp_path / "home", tmp_path / "home" / "project" / "var"
    worker_dir = stack / "worker"
    run_dir = worker_dir / "runs" / "r" / "attempt-1"
    for folder in (run_dir, home / ".ssh", home / "project" / "code", tmp_path / "data"):
        folder.mkdir(parents=True)
    (home / ".netrc").write_text("password")
    policy = SandboxPolicy(worker_dir, hidden=(str(stack),), home=home)

    def seen(*reads: Path) -> tuple[dict[str, str], str]:
        plan = plan_sandbox(policy, run_dir, home / "project", sys.executable, reads)
        mounts: dict[str, str] = {mount.target: mount.kind for mount in plan.mounts}
        targets = [mount.target for mount in plan.mounts]
        assert targets == sorted(targets, key=lambda path: (len(Path(path).parts), path)), "parents first"
        return mounts, "; ".join(plan.refused)

    mounts, refused = seen(tmp_path / "data")
    assert (mounts[str(home / "project")], mounts[str(tmp_path / "data")]) == ("read", "read")
    # The stack's home lies in the project: it is covered, and only the run's directory is seen in it.
    assert (mounts[str(stack)], mounts[str(run_dir)], refused) == ("empty", "write", "")
    for closed in (stack, worker_dir, home / ".ssh", Path("/etc"), Path("/proc"), Path("/"), tmp_path):
        assert str(closed) in seen(closed)[1]
        assert mounts.get(str(closed)) in (None, "empty")
    mounts, _ = seen(home)
    assert (mounts[str(home)], mounts[str(home / ".ssh")], mounts[str(home / ".netrc")]) == (
        *("read", "empty", "read"),
    )
    words = bubblewrapped(plan_sandbox(policy, run_dir, run_dir, sys.executable, (home,)), ["true"])
    assert words[words.index(str(home / ".netrc")) - 1] == os.devnull


def test_an_interpreter_that_a_command_names_is_given_unless_a_run_made_it(tmp_path: Path) -> None:
    secret, worker_dir = tmp_path / "user" / ".ssh", tmp_path / "worker"
    secret.mkdir(parents=True)
    policy = SandboxPolicy(worker_dir, paths=(f"{tmp_path}/scratch:rw",), home=tmp_path / "user")

    def seen(prefix: Path, *words: str) -> set[str]:
        packages = prefix / "lib/python3.11/site-packages/own-1.dist-info"
        packages.mkdir(parents=True, exist_ok=True)
        (packages / "direct_url.json").write_text(
            json.dumps({"url": f"file://{secret}", "dir_info": {"editable": True}})
        )
        (prefix / "bin").mkdir(exist_ok=True)
        (prefix / "bin/torchrun").touch()
        reads = named_paths(words)
        plan = plan_sandbox(policy, worker_dir / "runs" / "r", worker_dir, "/usr/bin/env", reads)
        return {mount.target for mount in plan.mounts if mount.kind == "read"}

    project = tmp_path / "user" / "project" / ".venv"
    program = f"{project}/bin/torchrun"
    for words in ([program], ["env", f"PATH=/bin:{project}/bin", program], ["sh", "-c", f"'{program}' x"]):
        assert str(project) in seen(project, *words)
    # A package of the virtualenv that is edited in place, wherever that is, and a folder on its path.
    assert str(secret) in seen(project, program)
    (tmp_path / "packages").mkdir()
    (project / "lib/python3.11/site-packages/all.pth").write_text(
        f"import os\n{tmp_path}/packages\n/nowhere\n"
    )
    assert {f"{tmp_path}/packages", "/nowhere"} & seen(project, program) == {f"{tmp_path}/packages"}
    for written in (worker_dir / "runs" / "r" / "work" / "env", tmp_path / "scratch" / "env"):
        assert str(secret) not in seen(written, f"{written}/bin/torchrun")


def test_of_a_named_file_the_folder_is_given_and_the_file_alone_where_that_is_closed(tmp_path: Path) -> None:
    policy = SandboxPolicy(tmp_path / "worker", home=tmp_path / "home" / "me")
    for path in (tmp_path / "home" / "all.yaml", tmp_path / "data" / "one.npz"):
        path.parent.mkdir()
        path.touch()
    named = named_paths([f"--config={tmp_path}/home/all.yaml", f"{tmp_path}/data/one.npz", "/nowhere", "/\0"])
    plan = plan_sandbox(policy, tmp_path / "worker" / "r", tmp_path / "worker" / "r", "/usr/bin/env", named)
    given = {mount.target for mount in plan.mounts}
    assert {f"{tmp_path}/home/all.yaml", f"{tmp_path}/data"} <= given
    assert f"{tmp_path}/home" not in given
    # Data that contains a path, such as JSON, does not name it.
    assert not named_paths([json.dumps({"path": f"{tmp_path}/data/one.npz"}), f"cat {tmp_path}/data/one.npz"])
