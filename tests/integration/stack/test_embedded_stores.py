"""The stores of the embedded stack: they keep their data over restarts, kills and a full disk."""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest

from runspine.embedded import Stack, part_supervisor, running_stack
from runspine.embedded.home import Home
from runspine.embedded.part import get_health
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import inbox_of
from runspine.eventlog.port import Version
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.settings import ServiceSettings
from runspine.storage.blobs import S3Blobs
from runspine.wire.v1.facts_pb2 import Fact
from tests.kit.stack import STORES


def account(stack: Stack, user: str) -> NatsAccount:
    return NatsAccount(
        f"nats://{stack.addresses['nats']}", user, stack.credentials.nats[user], inbox_of(user)
    )


def blobs_of(stack: Stack) -> S3Blobs:
    return S3Blobs(
        ServiceSettings.model_validate(
            {
                "s3_endpoint": stack.addresses["s3"],
                "s3_access_key": stack.credentials.s3_access_key,
                "s3_secret_key": stack.credentials.s3_secret_key,
            }
        )
    )


async def test_the_stores_serve_and_keep_their_data_over_a_restart(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only=STORES) as stack:
        await blobs_of(stack).put("a/b", b"kept")
        async with (
            NatsConnection(account(stack, "orchestrator"), "test") as link,
            Publisher(link) as publisher,
        ):
            await ensure_streams(link)
            log = JetStreamLog(link, publisher)
            await log.append("runs.one", [Fact()], expected=Version())
        first = dict(stack.addresses)
    async with running_stack(tmp_path / "home", only=STORES) as stack:
        assert stack.addresses == first, "ports are remembered"
        assert await blobs_of(stack).get("a/b") == b"kept"
        async with NatsConnection(account(stack, "dashboard"), "test") as link, Publisher(link) as publisher:
            history, _ = await JetStreamLog(link, publisher).read("runs.one")
    assert len(history) == 1


async def test_s3_keeps_its_objects_when_its_ports_have_to_change(tmp_path: Path) -> None:
    home = Home.at(tmp_path / "home")
    async with running_stack(home.path, only={"s3"}) as stack:
        await blobs_of(stack).put("x", b"kept")
        first = dict(stack.addresses)
    home.ports_file.unlink()
    async with running_stack(home.path, only={"s3"}) as stack:
        assert stack.addresses != first
        assert await blobs_of(stack).get("x") == b"kept"


async def test_a_killed_nats_comes_back_with_everything_acknowledged(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only={"nats"}) as stack:
        async with (
            NatsConnection(account(stack, "orchestrator"), "test") as link,
            Publisher(link) as publisher,
        ):
            await ensure_streams(link)
            log = JetStreamLog(link, publisher)
            for number in range(20):
                await log.append(f"runs.r{number}", [Fact()], expected=Version())
            killed = stack.kill("nats")
            pid = await stack.until_restarted("nats", killed)
            assert (await log.extent("RUNS")).last == 20
        assert pid != killed
        assert stack.parts["nats"].restarts == 1
        assert json.loads(stack.home.stack_file.read_text())["pids"]["nats"] == pid


@pytest.mark.long
async def test_a_nats_that_stays_unhealthy_is_restarted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_supervisor, "HEALTH_SECONDS", 0.1)
    async with running_stack(tmp_path / "home", only={"nats"}) as stack:
        # Frozen, it answers its /healthz no more than a server with a frozen stream answers it well.
        stopped = stack.kill("nats", signal.SIGSTOP)
        await stack.until_restarted("nats", stopped)
        assert not psutil.pid_exists(stopped)
    journal = (tmp_path / "home/logs/supervisor.log").read_text()
    assert "part.unhealthy" in journal


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 24 MB in the place of the server's store."""
    home = Home.at(tmp_path / "home")
    home.prepare()
    store = home.nats / "store"
    store.mkdir()
    mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", store], capture_output=True)
    if mounted.returncode != 0:
        pytest.skip("a small file system can be mounted by root alone")
    yield store
    subprocess.run(["umount", store], check=True)


async def publish_until_no_answer(publisher: Publisher) -> int:
    """How many facts were acknowledged before the server fell silent."""
    for number in range(200):
        try:
            fact = publisher.publish(f"runs.r{number}", bytes(100_000), {"Nats-Msg-Id": f"{number}"})
            await asyncio.wait_for(fact, 5)
        except TimeoutError:
            return number
    raise AssertionError("the disk did not fill")


async def test_a_log_that_met_a_full_disk_takes_facts_again_when_there_is_room(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_supervisor, "HEALTH_SECONDS", 0.2)
    async with running_stack(tmp_path / "home", only={"nats"}) as stack:
        async with (
            NatsConnection(account(stack, "orchestrator"), "test") as link,
            Publisher(link) as publisher,
        ):
            await ensure_streams(link)
            (small_disk / "filler").write_bytes(bytes(20 << 20))
            acknowledged = await publish_until_no_answer(publisher)
            (small_disk / "filler").unlink()
            # The stream is frozen although there is room; only a new server takes more.
            await asyncio.wait_for(publisher.publish("runs.after", b"", {}), 60)
            stored = (await JetStreamLog(link, publisher).extent("RUNS")).commits
        assert stored >= acknowledged + 1
        assert stack.parts["nats"].restarts >= 1


async def test_a_log_that_starts_on_a_full_disk_takes_facts_again_when_there_is_room(
    tmp_path: Path, small_disk: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_supervisor, "HEALTH_SECONDS", 0.5)
    async with running_stack(tmp_path / "home", only={"nats"}) as stack:
        async with (
            NatsConnection(account(stack, "orchestrator"), "test") as link,
            Publisher(link) as publisher,
        ):
            await ensure_streams(link)
            await publisher.publish("runs.before", b"", {})
            (small_disk / "filler").write_bytes(bytes(20 << 20))
            with contextlib.suppress(OSError), (small_disk / "rest").open("wb", buffering=0) as rest:
                while True:
                    rest.write(bytes(4096))
            killed = stack.kill("nats")
            after = publisher.publish("runs.after", bytes(10_000), {"Nats-Msg-Id": "after"})
            waiting = asyncio.create_task(after)
            health = f"http://{stack.metrics['nats']}/healthz"
            await until_reported(lambda: stack.pid("nats") != killed and get_health(health), "write error")
            for name in ("filler", "rest"):
                (small_disk / name).unlink()
            await asyncio.wait_for(waiting, 60)
            stored = (await JetStreamLog(link, publisher).extent("RUNS")).commits
        assert stored == 2


async def until_reported(ask: Callable[[], str | bool], words: str, seconds: float = 60.0) -> None:
    deadline = time.monotonic() + seconds
    while words not in str(reported := await asyncio.to_thread(ask)):
        assert time.monotonic() < deadline, reported
        await asyncio.sleep(0.05)


async def test_the_s3_server_refuses_strangers(tmp_path: Path) -> None:
    async with running_stack(tmp_path / "home", only={"s3"}) as stack:
        await blobs_of(stack).put("secret", b"!")
        ports = json.loads(stack.home.ports_file.read_text())
        statuses = {
            name: await asyncio.to_thread(get_status, ports[name], path)
            for name, path in {"s3": "/runspine/secret", "s3-filer": "/buckets/runspine/secret"}.items()
        }
    assert statuses["s3"] == 403
    assert statuses["s3-filer"] in (401, 403, 404)


def get_status(port: int, path: str) -> int:
    with socket.create_connection(("127.0.0.1", port), timeout=60) as client:
        client.sendall(f"GET {path} HTTP/1.0\r\nHost: 127.0.0.1:{port}\r\n\r\n".encode())
        return int(client.recv(100).split()[1])
