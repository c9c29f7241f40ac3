"""The agent's account on an XMPP server, embedded or external."""

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

from runspine.trainers.bdi.args import Args

SERVER = "runspine.trainers.bdi.xmpp_server"
HOST = "127.0.0.1"
# Importing the library takes more than a second of CPU time, on a machine that may be busy.
START_SECONDS = 90.0
STOP_SECONDS = 3.0
REAP_SECONDS = 1.0
PASSWORD = "XMPP_PASSWORD"


class XmppServerError(Exception):
    """There is no XMPP server to use; the message gives the reason."""


@dataclass(frozen=True, slots=True)
class XmppAccount:
    """Address and password of the agent on a server."""

    jid: str
    password: str = field(repr=False)
    host: str
    port: int
    verify: bool
    # The embedded server's process; None for an external server.
    process: Process | None = None

    async def trouble(self) -> str:
        """Why the embedded server has ended; empty while it runs, and for an external server."""
        if self.process is None:
            return ""
        with contextlib.suppress(TimeoutError):
            # Its connections are closed shortly before its end is known.
            async with asyncio.timeout(REAP_SECONDS):
                await self.process.wait()
        return _trouble(self.process)


def external(args: Args) -> XmppAccount:
    """An existing account on an external server. Raises XmppServerError."""
    password = os.environ.get(PASSWORD, "")
    if not password:
        raise XmppServerError(
            f"{PASSWORD} is not set: set it on the worker and name it under secrets of the run"
        )
    return XmppAccount(args.xmpp_jid, password, args.xmpp_host, args.xmpp_port, args.xmpp_verify)


@contextlib.asynccontextmanager
async def embedded(name: str, folder: Path) -> AsyncIterator[XmppAccount]:
    """Run an embedded server for the duration of the block. Raises XmppServerError."""
    process = await asyncio.create_subprocess_exec(
        *(sys.executable, "-m", SERVER, str(folder)), stdin=PIPE, stdout=PIPE
    )
    try:
        password = secrets.token_urlsafe(24)
        port = await _port(process, name, password, folder)
        yield XmppAccount(f"{name}@{HOST}", password, HOST, port, False, process)
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
        why = last or _trouble(process) or f"no reply within {START_SECONDS:g} s"
        raise XmppServerError(f"the embedded XMPP server did not start: {why}")
    return int(json.loads(line)["port"])


async def _stop(process: Process) -> None:
    """Close its standard input, which ends it; kill it when it does not end."""
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
