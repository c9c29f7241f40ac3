"""The embedded stack with its real servers: it starts, restarts its parts and leaves nothing."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from runspine.embedded import running_stack
from runspine.embedded.background import stop_running
from runspine.embedded.home import Home
from runspine.embedded.inspection import inspect
from runspine.embedded.plan import is_installed
from runspine.embedded.ports import DEFAULTS, GRPC_OFFSET
from runspine.embedded.processes import identity_of
from tests.kit.paths import ROOT
from tests.kit.processes import alive
from tests.kit.stack import STORES
from tests.kit.waiting import until


def runspine(home: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-c", "from runspine.cli import main; main()", *arguments],
        env={**os.environ, "RUNSPINE_HOME": str(home), "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=280,
    )


class Supervisor:
    """A supervisor in a process of its own, with only the stores, on free ports."""

    def __init__(self, home: Path) -> None:
        self.home = Home.at(home)
        command = [sys.executable, "-m", "runspine.embedded", str(home), "--only=nats,s3", "--free-ports"]
        self.process = subprocess.Popen(
            command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.PIPE, text=True
        )
        until(lambda: self.record().get("pid") == self.process.pid and self.record()["ready"])
        self.parts = [psutil.Process(pid) for pid in self.record()["pids"].values()]

    def record(self) -> dict[str, Any]:
        try:
            record: dict[str, Any] = json.loads(self.home.stack_file.read_text())
        except FileNotFoundError:
            return {}
        return record

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.terminate()
        self.process.communicate(timeout=60)
        stop_running(self.home)

    def sockets(self) -> list[Path]:
        """What weed has put into /tmp."""
        return [Path(path) for path in self.record()["parts"]["s3"]["litter"] if Path(path).exists()]


@pytest.fixture
def supervisor(tmp_path: Path) -> Iterator[Supervisor]:
    started = Supervisor(tmp_path / "home")
    yield started
    started.close()


def listening(home: Home) -> list[int]:
    """The ports of this home that something listens on."""
    ports = json.loads(home.ports_file.read_text())
    wanted = [*ports.values(), *(p + GRPC_OFFSET for name, p in ports.items() if name.startswith("s3"))]
    return [port for port in wanted if answers(port)]


def answers(port: int) -> bool:
    with socket.socket() as client:
        client.settimeout(1)
        return client.connect_ex(("127.0.0.1", port)) == 0


def test_a_terminated_supervisor_leaves_no_process_no_port_and_no_record(supervisor: Supervisor) -> None:
    until(lambda: len(listening(supervisor.home)) == 12)
    sockets = supervisor.sockets()
    supervisor.process.terminate()
    assert supervisor.process.wait(60) == 0
    assert not alive(supervisor.parts)
    assert listening(supervisor.home) == []
    assert not supervisor.home.stack_file.exists()
    assert len(sockets) == 7
    assert not any(path.exists() for path in sockets)


def test_a_killed_supervisor_takes_everything_with_it(supervisor: Supervisor) -> None:
    supervisor.process.kill()
    supervisor.process.wait(60)
    until(lambda: not alive(supervisor.parts), 60)
    # A process whose first thread has ended may have others that still close its sockets.
    until(lambda: not listening(supervisor.home), 60)
    sockets = supervisor.sockets()
    assert "No stack is running" in runspine(supervisor.home.path, "down").stdout
    assert not any(path.exists() for path in sockets), "and what it left in /tmp goes with the next command"


def test_after_a_killed_supervisor_the_next_one_starts_as_if_nothing_had_been(
    supervisor: Supervisor, tmp_path: Path
) -> None:
    before = supervisor.record()
    supervisor.process.kill()
    supervisor.process.wait(60)
    assert runspine(supervisor.home.path, "status").returncode == 3
    again = Supervisor(tmp_path / "home")
    try:
        assert again.record()["addresses"] == before["addresses"]
        assert again.record()["pid"] != before["pid"]
    finally:
        again.close()


def test_a_record_whose_pid_belongs_to_another_program_is_stale(supervisor: Supervisor) -> None:
    supervisor.process.kill()
    supervisor.process.wait(60)
    until(lambda: not alive(supervisor.parts), 60)
    record = supervisor.record()
    # This very test stands where the supervisor was, and must survive.
    record["pid"] = os.getpid()
    supervisor.home.stack_file.write_text(json.dumps(record))
    assert runspine(supervisor.home.path, "status").returncode == 3
    down = runspine(supervisor.home.path, "down")
    assert "No stack is running" in down.stdout
    assert not supervisor.home.stack_file.exists()


def test_a_second_up_prints_what_is_running_and_starts_nothing(supervisor: Supervisor) -> None:
    before = supervisor.record()
    second = runspine(supervisor.home.path, "up")
    assert second.returncode == 0
    assert "Already running" in second.stdout
    assert str(before["pid"]) in second.stdout
    assert supervisor.record()["pids"] == before["pids"]
    printed = json.loads(runspine(supervisor.home.path, "up", "--json").stdout)
    assert printed["addresses"] == before["addresses"]


def test_two_supervisors_cannot_share_a_home(supervisor: Supervisor) -> None:
    # Even when the record is lost, the lock is not.
    record = supervisor.home.stack_file.read_text()
    supervisor.home.stack_file.unlink()
    second = subprocess.run(
        [sys.executable, "-m", "runspine.embedded", str(supervisor.home.path), "--only=nats"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=120,
    )
    supervisor.home.stack_file.write_text(record)
    assert second.returncode == 1
    assert "another supervisor" in second.stderr


def test_status_shows_healthy_unhealthy_and_not_running(supervisor: Supervisor) -> None:
    healthy = runspine(supervisor.home.path, "status", "--json")
    assert healthy.returncode == 0, healthy.stdout + healthy.stderr
    parts = {part["name"]: part for part in json.loads(healthy.stdout)["parts"]}
    assert set(parts) == STORES
    assert parts["nats"]["pid"] == supervisor.record()["pids"]["nats"]
    assert all(part["healthy"] and part["state"] == "ready" for part in parts.values())
    # s3 is not restarted when it hangs, so the status is asked while it does.
    s3 = psutil.Process(parts["s3"]["pid"])
    s3.suspend()
    try:
        unhealthy = runspine(supervisor.home.path, "status", "--json")
    finally:
        s3.resume()
    assert unhealthy.returncode == 1
    assert not json.loads(unhealthy.stdout)["healthy"]
    down = runspine(supervisor.home.path, "down")
    assert down.returncode == 0
    assert "Stopped s3, nats" in down.stdout
    assert runspine(supervisor.home.path, "status").returncode == 3


def test_down_in_an_empty_home_reports_that_nothing_runs(tmp_path: Path) -> None:
    down = runspine(tmp_path / "none", "down")
    assert down.returncode == 0
    assert "No stack is running" in down.stdout
    assert not (tmp_path / "none").exists()


async def test_a_taken_default_port_is_replaced_and_the_choice_remembered(tmp_path: Path) -> None:
    from runspine.embedded.plan import StackOptions
    from runspine.embedded.stack import supervised

    home = Home.at(tmp_path / "home")
    options = StackOptions(only={"nats"})
    with socket.socket() as squatter:
        try:
            squatter.bind(("127.0.0.1", DEFAULTS["nats"]))
            squatter.listen(1)
        except OSError:
            pass  # somebody else has it, which serves as well
        async with supervised(home, options, lambda _: None) as stack:
            await stack.start()
            chosen = stack.addresses["nats"]
    assert chosen != f"127.0.0.1:{DEFAULTS['nats']}"
    async with supervised(home, options, lambda _: None) as stack:
        assert stack.addresses["nats"] == chosen, "although the usual one is free now"


async def test_a_part_that_cannot_start_is_named_with_its_last_words(tmp_path: Path) -> None:
    from runspine.embedded.supervisor import StartFailedError

    home = Home.at(tmp_path / "home")
    home.prepare()
    (home.nats / "store").write_text("in the way of the store's directory")
    with pytest.raises(StartFailedError, match=r"(?s)nats: exit code 1.*storage directory is not.*nats\.log"):
        async with running_stack(home.path, only={"nats"}):
            pytest.fail("it must not start")
    assert not home.stack_file.exists()


async def test_secrets_are_for_the_owner_alone(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only=STORES) as stack:
        secrets = [stack.token, stack.credentials.s3_secret_key, *stack.credentials.nats.values()]
        holders = []
        for path in stack.home.path.rglob("*"):
            if path.is_dir() or not path.is_file():
                continue
            text = path.read_bytes()
            if any(secret.encode() in text for secret in secrets):
                holders.append(path)
                assert path.stat().st_mode & 0o077 == 0, path
        for part in stack.parts.values():
            arguments = " ".join(psutil.Process(part.pid).cmdline())
            assert not any(secret in arguments for secret in secrets)
    assert {path.name for path in holders} >= {"credentials.json", "nats.conf"}
    assert stack.home.path.stat().st_mode & 0o777 == 0o700


def test_detached_it_runs_on_its_own_and_goes_down_on_request(tmp_path: Path) -> None:
    from runspine.embedded.background import start_detached
    from runspine.embedded.plan import StackOptions

    home = Home.at(tmp_path / "home")
    ready: list[str] = []
    options = StackOptions(only={"nats"}, use_default_ports=False)
    record = start_detached(home, options, lambda event: ready.append(event.part))
    try:
        assert os.getsid(record.pid) == record.watchdog
        assert identity_of(record.parts["nats"].pid)
        assert ready == ["nats"]
    finally:
        stopped = stop_running(home)
    assert stopped is not None
    assert not identity_of(record.pid)
    assert not identity_of(record.parts["nats"].pid)


def test_a_supervisor_stopped_while_it_starts_leaves_nothing(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    process = subprocess.Popen(
        [sys.executable, "-m", "runspine.embedded", str(home.path), "--only=nats,s3", "--free-ports"],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    until(lambda: home.stack_file.exists() and json.loads(home.stack_file.read_text())["pids"])
    children = psutil.Process(process.pid).children()
    process.send_signal(signal.SIGINT)
    assert process.wait(60) == 0
    assert children
    assert not alive(children)
    assert listening(home) == []
    assert not home.stack_file.exists()


@pytest.mark.skipif(not is_installed("orchestrator"), reason="the services are not installed")
async def test_services_come_up_healthy_and_again_after_a_kill(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_SECRET", "not for services")
    async with running_stack(tmp_path / "home", slots=1) as stack:
        services = [name for name in stack.parts if name not in STORES]
        for name in services:
            environment = psutil.Process(stack.pid(name)).environ()
            assert "MY_SECRET" not in environment
            await stack.until_restarted(name, stack.kill(name))
        statuses = await asyncio.to_thread(inspect, stack.record)
        assert {status.name: status.health for status in statuses} == dict.fromkeys(stack.parts, "ok")
        assert [stack.parts[name].restarts for name in services] == [1] * len(services)
        pids = [part.pid for part in stack.parts.values()]
    assert not any(identity_of(pid) for pid in pids)
