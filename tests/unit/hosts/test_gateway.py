"""The gateway: one invitation is good once, a host reaches what it may, and a removed one reaches nothing."""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runspine.embedded.home import Home
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.hosts.authority import GATEWAY, fingerprint
from runspine.hosts.gateway import Gateway
from runspine.hosts.register import ACTIVE, DRAINING, REVOKED, HostError, HostRegister, split_token
from runspine.hosts.wire import (
    CONTROL,
    ENROL,
    NATS,
    RevokedError,
    client_context,
    dialled,
    pinned_context,
)
from runspine.tasks import cancel_and_wait
from tests.kit.servers.nats import free_port
from tests.kit.waiting import eventually


@dataclass
class Site:
    home: Home
    register: HostRegister
    address: str
    folder: Path

    async def enrol(self, token: str) -> dict[str, Any]:
        pin, secret = split_token(token)
        request = {"to": ENROL, "secret": secret.hex()}
        async with dialled(self.address, pinned_context(), request, pin) as (_, _, reply):
            return reply

    async def join(self, name: str) -> ssl.SSLContext:
        bundle = await self.enrol(self.register.invite(name, 60, {}))
        folder = self.folder / name
        folder.mkdir()
        for file, key in (("authority.crt", "authority"), ("host.crt", "certificate"), ("host.key", "key")):
            (folder / file).write_text(bundle[key])
        return client_context(folder)


@pytest.fixture
async def site(tmp_path: Path) -> AsyncIterator[Site]:
    home = Home.at(tmp_path / "home")
    home.prepare()
    register, address = HostRegister(home), f"127.0.0.1:{free_port()}"
    register.prepare(address)

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(1000):
            writer.write(data)
        writer.close()

    # What carries bytes back shows that the gateway carries them.
    target = await asyncio.start_server(echo, "127.0.0.1", 0)
    port = target.sockets[0].getsockname()[1]
    serving = asyncio.create_task(Gateway(register, {NATS: f"127.0.0.1:{port}"}).serve(address))
    await eventually(lambda: _answers(address))
    yield Site(home, register, address, tmp_path)
    await cancel_and_wait(serving)
    target.close()


async def _answers(address: str) -> bool:
    with contextlib.suppress(OSError):
        _, writer = await asyncio.open_connection(*address.split(":"))
        writer.close()
        return True
    return False


async def test_an_invitation_enrols_one_host_once(site: Site) -> None:
    token = site.register.invite("h1", 60, {"RUNSPINE_WORKER_POOLS": "lab"})
    bundle = await site.enrol(token)
    assert (bundle["name"], bundle["variables"]["RUNSPINE_WORKER_POOLS"]) == ("h1", "lab")
    with pytest.raises(HostError, match="was used"):
        await site.enrol(token)
    with pytest.raises(HostError, match="joined already"):
        site.register.invite("h1", 60, {})


async def test_an_invitation_that_expired_is_worth_nothing(site: Site) -> None:
    token = site.register.invite("h1", -1, {})
    with pytest.raises(HostError, match="expired"):
        await site.enrol(token)
    assert site.register.hosts() == []


async def test_the_signing_key_of_a_host_signs_for_its_own_worker_alone(site: Site) -> None:
    variables = (await site.enrol(site.register.invite("h1", 60, {})))["variables"]
    key = SigningKey.parse(variables["RUNSPINE_SIGNING_KEY"])
    assert Keyring.parse(variables["RUNSPINE_LOG_ROOT"]).roots
    assert b"h1" in key.introduction
    assert "RUNSPINE_LOG_ROOT_KEY" not in variables


async def test_another_server_in_between_is_not_given_the_invitation(site: Site, tmp_path: Path) -> None:
    token = site.register.invite("h1", 60, {})
    other = HostRegister(Home.at(tmp_path / "other"))
    other.folder.parent.mkdir()
    other.prepare("127.0.0.1:1")
    received: list[bytes] = []

    async def listen(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        received.append(await reader.read(1000))
        writer.close()

    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(other.folder / "gateway.crt", other.folder / "gateway.key")
    server = await asyncio.start_server(listen, "127.0.0.1", 0, ssl=context)
    pin, secret = split_token(token)
    address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
    with pytest.raises(HostError, match="not the stack that invited"):
        async with dialled(address, pinned_context(), {"to": ENROL, "secret": secret.hex()}, pin):
            pass
    await eventually(lambda: received)
    assert received == [b""]
    server.close()
    assert (await site.enrol(token))["name"] == "h1"


async def test_no_host_can_pass_for_the_gateway(site: Site) -> None:
    context = await site.join("h1")
    folder = site.folder / "h1"
    false = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    false.load_cert_chain(folder / "host.crt", folder / "host.key")

    async def ignore(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.close()

    server = await asyncio.start_server(ignore, "127.0.0.1", 0, ssl=false)
    with pytest.raises(ssl.SSLError):
        async with dialled(f"127.0.0.1:{server.sockets[0].getsockname()[1]}", context, {"to": NATS}):
            pass
    server.close()


async def test_a_stranger_reaches_nothing_and_a_host_what_it_may(site: Site) -> None:
    with pytest.raises(HostError, match="can only enrol"):
        async with dialled(site.address, pinned_context(), {"to": NATS}):
            pass
    context = await site.join("h1")
    async with dialled(site.address, context, {"to": NATS}) as (reader, writer, _):
        writer.write(b"ping")
        assert await reader.readexactly(4) == b"ping"
    with pytest.raises(HostError, match="there is no"):
        async with dialled(site.address, context, {"to": "orchestrator"}):
            pass


async def test_a_removed_host_is_closed_out_at_once_and_stays_out(site: Site) -> None:
    context, other = await site.join("h1"), await site.join("h2")
    async with (
        dialled(site.address, context, {"to": NATS}) as (reader, _, _),
        dialled(site.address, other, {"to": NATS}) as (kept, writer, _),
    ):
        began = time.monotonic()
        site.register.set_state("h1", REVOKED)
        with contextlib.suppress(ConnectionError):
            async with asyncio.timeout(30):
                assert await reader.read(1) == b""
        print(f"closed out after {time.monotonic() - began:.1f} s")
        writer.write(b"still")
        assert await kept.readexactly(5) == b"still"
    with pytest.raises(RevokedError):
        async with dialled(site.address, context, {"to": NATS}):
            pass
    with pytest.raises(HostError, match="invite it again"):
        site.register.set_state("h1", ACTIVE)


async def test_an_agent_learns_that_its_host_is_drained(site: Site) -> None:
    context = await site.join("h1")
    async with dialled(site.address, context, {"to": CONTROL}) as (reader, _, _):
        assert b"active" in await reader.readline()
        site.register.set_state("h1", DRAINING)
        async with asyncio.timeout(30):
            while b"draining" not in await reader.readline():
                pass


def test_only_a_whole_token_is_accepted(tmp_path: Path) -> None:
    for token in ("", "zz", "ab" * 47):
        with pytest.raises(HostError, match="copy the whole line"):
            split_token(token)


def test_a_stack_that_listens_to_nobody_invites_nobody(tmp_path: Path) -> None:
    with pytest.raises(HostError, match="--listen"):
        HostRegister(Home.at(tmp_path)).invite("h1", 60, {})


def test_the_authority_is_made_once(tmp_path: Path) -> None:
    register = HostRegister(Home.at(tmp_path))
    prints = []
    for _ in range(2):
        register.prepare("127.0.0.1:1")
        prints.append(fingerprint((register.folder / GATEWAY).read_text()))
    assert prints[0] == prints[1]
    assert (register.folder / "authority.key").stat().st_mode & 0o077 == 0
