"""A part of the stack: its process, and how its readiness and health are checked."""

from __future__ import annotations

import asyncio
import http.client
import signal
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path

Ready = Callable[[], Awaitable[str]]


@dataclass(frozen=True, slots=True)
class StackPart:
    """One process of the stack. `ready` returns why it is not ready, or an empty string."""

    name: str
    command: list[str]
    variables: dict[str, str]
    ready: Ready
    address: str = ""
    metrics: str = ""
    health: str = ""
    directory: Path | None = None
    ports: tuple[str, ...] = ()
    # Seconds in which it must become ready.
    ready_within: float = 120.0
    # Whether the stack is ready only with it.
    awaited: bool = True
    # Seconds between SIGTERM and SIGKILL.
    grace: float = 10.0
    # Signal that it gets when the supervisor is killed.
    death_signal: signal.Signals = signal.SIGKILL
    # Whether a restart helps when its /healthz keeps replying 503.
    restart_when_unhealthy: bool = False
    # Text in the reply of /healthz that requires a restart, even before it was ready.
    restart_on: str = ""
    # Added to its nice value.
    niceness: int = 0
    # Files outside the home that it leaves when it is killed.
    litter: tuple[Path, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class PartEvent:
    """An event of a part.

    `what` is starting, ready, ended, unhealthy, stopping or stopped; unrecorded when stack.json could not
    be written, abandoned when its supervision failed.
    """

    part: str
    what: str
    detail: str = ""


def get_health(url: str, timeout: float = 2.0) -> str:
    """What is wrong according to a /healthz; empty when it replies 200."""
    host, _, path = url.removeprefix("http://").partition("/")
    connection = http.client.HTTPConnection(host, timeout=timeout)
    try:
        connection.request("GET", f"/{path}")
        response = connection.getresponse()
        body = response.read(2000).decode(errors="replace").strip()
    except (OSError, http.client.HTTPException) as error:
        return f"no reply from {host}: {str(error) or type(error).__name__}"
    finally:
        connection.close()
    return "" if response.status == 200 else f"{response.status} {body}"


def healthy_at(url: str) -> Ready:
    """Ready when the URL replies 200."""

    async def ready() -> str:
        return await asyncio.to_thread(get_health, url)

    return ready
