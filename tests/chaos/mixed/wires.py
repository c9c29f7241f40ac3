"""Loopback proxies between two processes, that can be cut, silent, slow, or answer with errors."""

from __future__ import annotations

import asyncio
import contextlib
import random

HEAD_MOST = 65536
# Seconds that each piece of bytes waits on a slow wire.
DELAY = (0.05, 0.6)
ERRORS = {503: "SlowDown", 500: "InternalError"}
# An S3 server in trouble fails most requests, not all.
FAILING = 0.7


class Wire:
    """A proxy from a client that connects to `address`, to the server at `target`."""

    def __init__(self) -> None:
        self.target = ("", 0)
        self.address = ""
        self._chance = random.Random()
        self._ends: set[asyncio.StreamWriter] = set()
        self._server: asyncio.Server | None = None
        self._open = True
        self._delay = False
        self._failing = False
        self._got = asyncio.Event()
        self._got.set()

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = f"{host}:{port}"

    async def stop(self) -> None:
        if self._server:
            self._server.close()
            self._drop()
            await self._server.wait_closed()

    @contextlib.asynccontextmanager
    async def cut(self):  # type: ignore[no-untyped-def]
        """Connections break, new ones are refused."""
        self._open = False
        self._drop()
        yield
        self._open = True

    @contextlib.asynccontextmanager
    async def silent(self, *, forgotten: bool):  # type: ignore[no-untyped-def]
        """Cut without notice: bytes do not come. Then they come late, or never."""
        self._got.clear()
        yield
        if forgotten:
            self._drop()
        self._got.set()

    @contextlib.asynccontextmanager
    async def slow(self):  # type: ignore[no-untyped-def]
        self._delay = True
        yield
        self._delay = False

    @contextlib.asynccontextmanager
    async def failing(self):  # type: ignore[no-untyped-def]
        """Most requests are answered as an S3 server in trouble answers."""
        self._failing = True
        self._drop()
        yield
        self._failing = False

    def _drop(self) -> None:
        for end in list(self._ends):
            end.transport.abort()

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._ends.add(writer)
        try:
            if not self._open:
                writer.transport.abort()
            elif self._failing and self._chance.random() < FAILING:
                await self._fail(reader, writer)
            else:
                await self._join(reader, writer)
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            writer.transport.abort()
        finally:
            self._ends.discard(writer)
            writer.close()

    async def _join(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, back = await asyncio.open_connection(*self.target)
        self._ends.add(back)
        try:
            await asyncio.gather(self._pump(reader, back), self._pump(there, writer))
        finally:
            self._ends.discard(back)
            back.close()

    async def _pump(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(HEAD_MOST):
                await self._got.wait()
                if self._delay:
                    await asyncio.sleep(self._chance.uniform(*DELAY))
                writer.write(data)
                await writer.drain()
        finally:
            # One end that closes closes the other.
            writer.close()

    async def _fail(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        for line in head.lower().split(b"\r\n"):
            if line.startswith(b"content-length:"):
                await reader.readexactly(int(line.partition(b":")[2]))
        status, code = self._chance.choice(list(ERRORS.items()))
        body = f"<Error><Code>{code}</Code><Message>of the test's own making</Message></Error>"
        writer.write(
            f"HTTP/1.1 {status} {code}\r\nContent-Type: application/xml\r\nConnection: close\r\n"
            f"Content-Length: {len(body)}\r\n\r\n{body}".encode()
        )
        await writer.drain()
