"""The gateway: the one listener of a stack that other machines reach.

`python -m runspine.hosts.gateway HOME ADDRESS`. It knows each host by its certificate, carries connections
to NATS and S3 on loopback, and closes them when the host is removed.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import ssl
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import structlog

from runspine.embedded.home import Home, write_json
from runspine.hosts.authority import AUTHORITY, GATEWAY, GATEWAY_KEY, fingerprint_of_bytes
from runspine.hosts.register import REVOKED, Host, HostError, HostRegister
from runspine.hosts.wire import (
    CONTROL,
    ENROL,
    MAX_LINE,
    NATS,
    OPEN_SECONDS,
    REVOKED_ERROR,
    S3,
    bridge,
    keep_alive,
)
from runspine.service.process import Health, run_service
from runspine.settings import ServiceSettings, split_address
from runspine.tasks import cancel_and_wait

log = structlog.get_logger()

WATCH_SECONDS = 1.0
# A host uses a handful of connections and one for each upload.
MAX_CONNECTIONS = 2048
MAX_OF_A_HOST = 256
# Of strangers, who have nothing but an invitation.
MAX_STRANGERS = 32

Streams = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(slots=True)
class Link:
    """What is known of a host while the gateway runs."""

    peer: str = ""
    last_seen: float = 0.0
    tasks: set[asyncio.Task[Any]] = field(default_factory=set)


class Gateway:
    """Accepts connections, and closes those of hosts that were removed."""

    def __init__(self, register: HostRegister, targets: dict[str, str]) -> None:
        self._register = register
        self._targets = targets
        self._hosts: dict[str, Host] = {}
        self._read_at = -1
        self._links: dict[str, Link] = {}
        self._open = 0
        self._strangers = 0

    def context(self) -> ssl.SSLContext:
        folder = self._register.folder
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_3
        context.load_cert_chain(folder / GATEWAY, folder / GATEWAY_KEY)
        context.load_verify_locations(folder / AUTHORITY)
        # Without a certificate a peer can enrol, and nothing else.
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    async def serve(self, address: str) -> None:
        host, port = split_address(address)
        self._reread()
        server = await asyncio.start_server(
            self._accept, host, port, ssl=self.context(), ssl_handshake_timeout=OPEN_SECONDS, limit=MAX_LINE
        )
        async with server:
            log.info("gateway.listens", address=address)
            await self._watch()

    async def _watch(self) -> None:
        """Follow changes of the register, and write which hosts are connected."""
        written: dict[str, Any] = {}
        while True:
            self._reread()
            links = {
                name: {"peer": link.peer, "last_seen": int(link.last_seen), "connected": bool(link.tasks)}
                for name, link in self._links.items()
            }
            if links != written:
                await asyncio.to_thread(write_json, self._register.links_file, links)
                written = links
            await asyncio.sleep(WATCH_SECONDS)

    def _reread(self) -> None:
        changed = self._register.changed_at()
        if changed == self._read_at:
            return
        self._hosts = {host.fingerprint: host for host in self._register.hosts()}
        self._read_at = changed
        known = {host.name for host in self._hosts.values() if host.state != REVOKED}
        for name, link in self._links.items():
            for task in link.tasks if name not in known else ():
                task.cancel()

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._open += 1
        try:
            if self._open <= MAX_CONNECTIONS:
                keep_alive(writer)
                await self._answer((reader, writer))
        except (OSError, ssl.SSLError, TimeoutError, ValueError):
            log.debug("gateway.closed")
        finally:
            self._open -= 1
            writer.close()

    async def _answer(self, peer: Streams) -> None:
        reader, writer = peer
        shown = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if not shown:
            self._strangers += 1
            try:
                if self._strangers <= MAX_STRANGERS:
                    await self._enrol(peer, await _first_line(reader))
            finally:
                self._strangers -= 1
            return
        wanted = str((await _first_line(reader)).get("to", ""))
        host = self._hosts.get(fingerprint_of_bytes(shown))
        if host is None or host.state == REVOKED:
            await _reply(writer, {"error": REVOKED_ERROR})
            return
        link = self._links.setdefault(host.name, Link())
        task = asyncio.current_task()
        assert task is not None
        if len(link.tasks) >= MAX_OF_A_HOST:
            await _reply(writer, {"error": "too many connections of this host"})
            return
        link.peer, link.last_seen = str(writer.get_extra_info("peername")[0]), time.time()
        link.tasks.add(task)
        try:
            await self._carry(host, wanted, peer)
        finally:
            link.tasks.discard(task)
            link.last_seen = time.time()

    async def _carry(self, host: Host, wanted: str, peer: Streams) -> None:
        if wanted == CONTROL:
            await self._control(host, peer)
        elif wanted in self._targets:
            target = await asyncio.open_connection(*split_address(self._targets[wanted]))
            await _reply(peer[1], {"ok": True})
            await bridge(peer, target)
        else:
            await _reply(peer[1], {"error": f"there is no {wanted[:20]!r} here"})

    async def _control(self, host: Host, peer: Streams) -> None:
        """Send the state of the host once a second, until its agent leaves."""
        await _reply(peer[1], {"ok": True})
        closed = asyncio.ensure_future(peer[0].read(1))
        try:
            while not closed.done():
                state = self._hosts[host.fingerprint].state
                await _reply(peer[1], {"state": state})
                self._links[host.name].last_seen = time.time()
                await asyncio.wait({closed}, timeout=WATCH_SECONDS)
        finally:
            await cancel_and_wait(closed)

    async def _enrol(self, peer: Streams, request: dict[str, Any]) -> None:
        reply: dict[str, Any]
        if request.get("to") != ENROL:
            reply = {"error": "a host without a certificate can only enrol"}
        else:
            try:
                secret = bytes.fromhex(str(request.get("secret", "")))
                reply = {"ok": True, **await asyncio.to_thread(self._register.accept, secret)}
                self._reread()
                log.info("host.joined", host=reply["name"], peer=str(peer[1].get_extra_info("peername")[0]))
            except (HostError, ValueError) as error:
                reply = {"error": str(error)}
                log.warning("host.refused", peer=str(peer[1].get_extra_info("peername")[0]))
        await _reply(peer[1], reply)


async def _first_line(reader: asyncio.StreamReader) -> dict[str, Any]:
    async with asyncio.timeout(OPEN_SECONDS):
        request = json.loads(await reader.readline())
    if not isinstance(request, dict):
        raise ValueError("not an object")
    return request


async def _reply(writer: asyncio.StreamWriter, reply: dict[str, Any]) -> None:
    writer.write(json.dumps(reply).encode() + b"\n")
    await writer.drain()


async def run(home: Home, address: str, settings: ServiceSettings, health: Health) -> None:
    register = HostRegister(home)
    register.prepare(address)
    nats = settings.nats_url.partition("://")[2]
    gateway = Gateway(register, {NATS: nats, S3: settings.s3_endpoint})
    with contextlib.suppress(asyncio.CancelledError):
        await gateway.serve(address)


def main() -> int:
    home, address = Home.at(sys.argv[1]), sys.argv[2]
    return run_service(
        "gateway",
        settings := ServiceSettings.from_environment(),
        lambda health: run(home, address, settings, health),
    )


if __name__ == "__main__":
    sys.exit(main())
