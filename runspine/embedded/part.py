"""A part of the stack: a process, how it is started, and how one knows that it works."""

from __future__ import annotations

import asyncio
import http.client
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

Ready = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class Part:
    """What the supervisor needs to know. `ready` returns what is still missing, or nothing."""

    name: str
    command: list[str]
    variables: dict[str, str]
    ready: Ready
    address: str = ""
    metrics: str = ""
    health: str = ""
    directory: Path | None = None
    ports: tuple[str, ...] = ()
    # How long it may take to get ready before it is given up.
    ready_within: float = 120.0
    # Whether the stack counts as up only with it.
    awaited: bool = True
    # How long it may take to stop after SIGTERM.
    grace: float = 10.0
    # What it gets when the supervisor dies without a word.
    death_signal: signal.Signals = signal.SIGKILL
    # Whether a server that answers 503 again and again is mended by a new start.
    restart_when_unhealthy: bool = False
    # Words of its /healthz that only a new start mends, even when it was never ready.
    hopeless: str = ""
    # How far behind others it stands when cores are short, as `nice` counts.
    niceness: int = 0
    # Files that it leaves outside the home when killed.
    litter: tuple[Path, ...] = field(default=())


def get_health(url: str, timeout: float = 2.0) -> str:
    """What a /healthz says: nothing when all is well, else the trouble."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        body = response.read(2000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"no answer from {host}: {str(error) or type(error).__name__}"
    finally:
        connection.close()
    return "" if response.status == 200 else f"{response.status} {body}"


def healthy_at(url: str) -> Ready:
    """Ready when the address answers 200."""

    async def ready() -> str:
        return await asyncio.to_thread(get_health, url)

    return ready
