"""Where the agent is reachable: an account on an XMPP server, its own or somebody else's."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import secrets
import shutil
import signal
import sys
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

from services.worker.bdi.args import Args

SERVER = "services.worker.bdi.xmpp_server"
HOST = "127.0.0.1"
# Importing the library takes more than a second of CPU time, and the machine may be very busy.
START_SECONDS = 90.0
STOP_SECONDS = 3.0
REAP_SECONDS = 1.0
PASSWORD = "XMPP_PASSWORD"


class ServerTrouble(Exception):
    """There is no XMPP server to live on; the message says why."""


@dataclass(frozen=True, slots=True)
class Account:
    jid: str
    password: str = field(repr=False)
    host: str
    port: int
    verify: bool
    # The server, when it is ours.
    process: Process | None = None

    async def trouble(self) -> str:
        """Why the server is gone; empty while it is there, or when that is not ours to know."""
        if self.process is None:
            return ""
        with contextlib.suppress(TimeoutError):
            # Its connections are closed a moment before it is known to have ended.
            async with asyncio.timeout(REAP_SECONDS):
                await self.process.wait()
        return _trouble(self.process)


def external(args: Args) -> Account:
    """An account that somebody made on a server that somebody runs."""
    password = os.environ.get(PASSWORD, "")
    if not password:
        raise ServerTrouble(
            f"{PASSWORD} is not set: set it on the worker and name it under secrets of the run"
        )
    return Account(args.xmpp_jid, password, args.xmpp_host, args.xmpp_port, args.xmpp_verify)


@contextlib.asynccontextmanager
async def embedded(name: str, folder: Path) -> AsyncIterator[Account]:
    """A server of this run's own, for as long as the block takes. Raises ServerTrouble."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", SERVER, str(folder)), stdin=PIPE, stdout=PIPE
    )
    try:
        password = secrets.token_urlsafe(24)
        port = await _port(process, name, password, folder)
        yield Account(f"{name}@{HOST}", password, HOST, port, False, process)
    finally:
        await _stop(process)
        shutil.rmtree(folder, ignore_errors=True)


async def _port(process: Process, name: str, password: str, folder: Path) -> int:
    assert process.stdin
    assert process.stdout
    process.stdin.write(json.dumps({"user": name, "password": password}).encode() + b"\n")
    line = b""
    with contextlib.suppress(TimeoutError, ConnectionError):
        async with asyncio.timeout(START_SECONDS):
            await process.stdin.drain()
            line = await process.stdout.readline()
    if not line:
        log = folder / "server.log"
        last = (log.read_text().splitlines() or [""])[-1] if log.exists() else ""
        why = last or _trouble(process) or f"no word within {START_SECONDS:g} s"
        raise ServerTrouble(f"the embedded XMPP server did not start: {why}")
    return int(json.loads(line)["port"])


async def _stop(process: Process) -> None:
    """It ends when its standard input does; killed when it does not."""
    assert process.stdin
    process.stdin.close()
    try:
        async with asyncio.timeout(STOP_SECONDS):
            await process.wait()
    except TimeoutError:
        with contextlib.suppress(ProcessLookupError):
            process.kill()
        await process.wait()


def _trouble(process: Process) -> str:
    code = process.returncode
    if code is None:
        return ""
    how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
    return f"the embedded XMPP server has ended ({how})"
