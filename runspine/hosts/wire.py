"""The protocol between a host and the gateway: TLS, one line each way, then the bytes of the service.

A host opens with a line of JSON that names what it wants: `enrol` with the secret of an invitation, `nats`,
`s3` or `control`. The gateway replies with `{"ok": true, …}` or `{"error": …}`.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
import socket
import ssl
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from runspine.hosts.register import HostError
from runspine.settings import split_address
from runspine.tasks import cancel_and_wait

MAX_LINE = 1 << 16
CHUNK = 1 << 16
OPEN_SECONDS = 15.0
# A peer that is unreachable for so long is gone; the next connection is a new one.
SILENT_SECONDS = 20
ENROL, NATS, S3, CONTROL = "enrol", "nats", "s3", "control"
REVOKED_ERROR = "this host was removed from the stack"


class RevokedError(HostError):
    """The stack has removed this host."""


def client_context(folder: Path) -> ssl.SSLContext:
    """TLS of a host that has joined: its certificate, and the stack's own authority alone."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    # The authority signs one server, whatever address that has.
    context.check_hostname = False
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.load_verify_locations(folder / "authority.crt")
    context.load_cert_chain(folder / "host.crt", folder / "host.key")
    return context


def pinned_context() -> ssl.SSLContext:
    """TLS before a host has joined; the certificate is compared with the invitation."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    return context


@contextlib.asynccontextmanager
async def dialled(
    address: str, context: ssl.SSLContext, request: dict[str, Any], pin: str = ""
) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter, dict[str, Any]]]:
    """A connection to the gateway and its reply. Raises HostError, RevokedError, OSError."""
    host, port = split_address(address)
    async with asyncio.timeout(OPEN_SECONDS):
        reader, writer = await asyncio.open_connection(host, port, ssl=context, limit=MAX_LINE * 4)
    try:
        keep_alive(writer)
        if pin and _shown(writer) != pin:
            raise HostError(f"what listens at {address} is not the stack that invited this host")
        writer.write(json.dumps(request).encode() + b"\n")
        async with asyncio.timeout(OPEN_SECONDS):
            line = await reader.readline()
        try:
            reply = json.loads(line)
        except ValueError as error:
            raise ConnectionError(f"{address} closed the connection") from error
        if "error" in reply:
            raise (RevokedError if reply["error"] == REVOKED_ERROR else HostError)(reply["error"])
        yield reader, writer, reply
    finally:
        writer.close()
        with contextlib.suppress(OSError, TimeoutError, ssl.SSLError):
            async with asyncio.timeout(1.0):
                await writer.wait_closed()


async def bridge(
    one: tuple[asyncio.StreamReader, asyncio.StreamWriter],
    other: tuple[asyncio.StreamReader, asyncio.StreamWriter],
) -> None:
    """Carry bytes both ways until either side ends; then both are closed."""
    tasks = [asyncio.create_task(_carry(one[0], other[1])), asyncio.create_task(_carry(other[0], one[1]))]
    try:
        await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    finally:
        await cancel_and_wait(*tasks)
        for _, writer in (one, other):
            writer.close()


def keep_alive(writer: asyncio.StreamWriter) -> None:
    """Notice a peer that is unreachable: what is not acknowledged for so long ends the connection."""
    found = writer.get_extra_info("socket")
    for option, value in (
        (socket.TCP_KEEPIDLE, 10),
        (socket.TCP_KEEPINTVL, 5),
        (socket.TCP_KEEPCNT, 3),
        (socket.TCP_USER_TIMEOUT, SILENT_SECONDS * 1000),
    ):
        found.setsockopt(socket.IPPROTO_TCP, option, value)
    found.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)


async def _carry(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError, ssl.SSLError):
        while data := await reader.read(CHUNK):
            writer.write(data)
            await writer.drain()


def _shown(writer: asyncio.StreamWriter) -> str:
    certificate = writer.get_extra_info("ssl_object").getpeercert(binary_form=True)
    return hashlib.sha256(certificate or b"").hexdigest()
