"""Limits of the machine: synced writes and a bare nats-server, compared with our facts."""

from __future__ import annotations

import asyncio
import os
import re
import socket
import time
from pathlib import Path

from runspine.bench.kit.figures import Report, percentile, spread
from runspine.bench.kit.screen import Announce
from runspine.bench.telemetry.store import admin
from runspine.embedded.stack import Stack
from runspine.eventlog import Version
from runspine.eventlog.subjects import run_subject
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact, RunSubmitted

SMALL, LARGE = 1 << 10, 32 << 10
WINDOW = 256
WRITERS = 64
ROUNDS = 3
ACKED = re.compile(rb'"seq":(\d+)')


def synced_writes(folder: Path, size: int, count: int) -> list[float]:
    """Seconds of each write that is synced to disk."""
    taken = []
    descriptor = os.open(folder / "floor", os.O_CREAT | os.O_WRONLY)
    for _ in range(count):
        began = time.perf_counter()
        os.write(descriptor, b"x" * size)
        os.fsync(descriptor)
        taken.append(time.perf_counter() - began)
    os.close(descriptor)
    return taken


class RawNats:
    """NATS's protocol on a plain socket, without our client."""

    def __init__(self, stack: Stack) -> None:
        host, _, port = stack.addresses["nats"].partition(":")
        self._socket = socket.create_connection((host, int(port)), timeout=60)
        self._file = self._socket.makefile("rb")
        self._file.readline()
        secret = stack.credentials.nats["admin"]
        connect = f'CONNECT {{"user":"admin","pass":"{secret}","verbose":false,"pedantic":false}}\r\n'
        self._socket.sendall(connect.encode() + b"SUB _INBOX_admin.raw 1\r\n")

    def publish(self, subject: str, size: int, count: int, window: int) -> float:
        """Seconds until the server has acknowledged all messages, with `window` in flight."""
        head = f"PUB {subject} _INBOX_admin.raw {size}\r\n".encode()
        message = head + b"x" * size + b"\r\n"
        began = time.perf_counter()
        self._socket.sendall(message * min(window, count))
        sent = min(window, count)
        for _ in range(count):
            self._acknowledged()
            if sent < count:
                self._socket.sendall(message)
                sent += 1
        return time.perf_counter() - began

    def _acknowledged(self) -> None:
        while not (line := self._file.readline()).startswith(b"MSG"):
            if line.startswith(b"PING"):
                self._socket.sendall(b"PONG\r\n")
            elif not line or line.startswith(b"-ERR"):
                raise OSError(f"nats-server: {line.decode().strip() or 'closed the connection'}")
        answer = self._file.read(int(line.split()[-1]) + 2)
        if not ACKED.search(answer):
            raise OSError(f"nats-server: {answer.decode().strip()}")

    def close(self) -> None:
        self._file.close()
        self._socket.close()


async def appended(stack: Stack, count: int) -> float:
    """Seconds for commits of one fact, each on its own subject, chained and with an expected version."""
    async with admin(stack) as (_, log):
        waiting = iter(range(count))

        async def write() -> None:
            for _ in waiting:
                run_id = new_ulid()
                fact = Fact(run_submitted=RunSubmitted(run_id=run_id, name="x" * 900))
                await log.append(run_subject(run_id), [fact], expected=Version())

        began = time.perf_counter()
        await asyncio.gather(*(write() for _ in range(WRITERS)))
        return time.perf_counter() - began


async def measure_limits(report: Report, stack: Stack, folder: Path, count: int, announce: Announce) -> None:
    """Measure facts per second of the disk, of a bare server on the same disk, and of our log."""
    announce(f"{count:,} facts of 1 KB: the disk, a bare nats-server, and our log")
    disk, one, many, ours = [], [], [], []
    async with admin(stack):
        pass  # creates the streams
    raw = await asyncio.to_thread(RawNats, stack)
    few = max(1, count // 4)
    for _ in range(ROUNDS):
        disk.append(1 / percentile(synced_writes(folder, SMALL, few), 0.5))
        # The telemetry stream is synced like the others, and takes any message.
        one.append(few / await asyncio.to_thread(raw.publish, "telemetry.raw.1.log", SMALL, few, 1))
        many.append(count / await asyncio.to_thread(raw.publish, "telemetry.raw.1.log", SMALL, count, WINDOW))
        ours.append(count / await appended(stack, count))
    raw.close()
    for who, what, rates in (
        (f"runspine, {WRITERS} writers", f"commits of 1 KB on the log, {WRITERS} writers", ours),
        (f"bare nats-server, {WINDOW} under way", f"raw messages of 1 KB, {WINDOW} under way", many),
        ("bare nats-server, one by one", "raw messages of 1 KB, one by one", one),
        ("the disk, synced one by one", "synced writes of 1 KB, one by one", disk),
    ):
        report.add(what, unit="/s", group="facts", who=who, **spread(rates))
