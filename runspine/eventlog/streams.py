"""Configuration of the streams, and their creation and update."""

from __future__ import annotations

import asyncio
import contextlib
import time
from dataclasses import dataclass
from typing import Any

import structlog

from runspine.eventlog.api import ask
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.server_errors import STREAM_NOT_FOUND, ServerRefusedError, Verdict
from runspine.eventlog.subjects import (
    ARTIFACTS,
    ATTEMPTS,
    AUDIT,
    BEATS,
    NOTICES,
    RUNS,
    TELEMETRY,
    WORK,
    announcements,
)

log = structlog.get_logger()

SECOND = 1_000_000_000
GIB = 1 << 30
# A cluster that has just started has no leader for some seconds.
ENSURE_SECONDS = 60.0
NOT_IN_A_CLUSTER = 10074
# Streams without facts, which may be deleted and created again.
REPLACEABLE = (BEATS,)


@dataclass(frozen=True, slots=True)
class StreamChange:
    """What was done to a stream at start. `before` is 0 for a new one."""

    stream: str
    what: str
    before: int
    replicas: int


class StreamRefusedError(Exception):
    """The server does not accept a stream as it is declared."""


def declarations(replicas: int = 1, telemetry_bytes: int = 4 * GIB) -> list[dict[str, Any]]:
    """Configuration of every stream, as the API of JetStream takes it."""
    shared = {"num_replicas": replicas, "storage": "file", "allow_direct": True}
    streams = [*_facts(), _telemetry(telemetry_bytes), _work(), _beats(replicas)]
    return [{**shared, **stream, "republish": _announced(stream["name"])} for stream in streams]


def _announced(stream: str) -> dict[str, Any]:
    """Where its readers learn that a message is stored (runspine/eventlog/tail.py)."""
    return {"src": ">", "dest": announcements(stream), "headers_only": True}


def _facts() -> list[dict[str, Any]]:
    shared = {
        "retention": "limits",
        "discard": "new",
        "deny_delete": True,
        "deny_purge": True,
        "max_bytes": -1,
        "duplicate_window": 600 * SECOND,
    }
    return [
        {**shared, "name": RUNS, "subjects": ["runs.*", "keys.*", "signers.*"]},
        {**shared, "name": ATTEMPTS, "subjects": ["attempts.*", "workers.*", "placements.*"]},
        {**shared, "name": ARTIFACTS, "subjects": ["artifacts.*"]},
        {**shared, "name": AUDIT, "subjects": ["audit.*.*"]},
        {**shared, "name": NOTICES, "subjects": ["notices.*", "notice_requests.*"]},
    ]


def _telemetry(max_bytes: int) -> dict[str, Any]:
    return {
        "name": TELEMETRY,
        "subjects": ["telemetry.>"],
        "retention": "limits",
        # A full stream refuses new batches and drops none: the worker's spool keeps them.
        "discard": "new",
        "max_bytes": max_bytes,
        "duplicate_window": 600 * SECOND,
        # nats-server 2.15.1 appends uncompressed records to a compressed block that a follower has truncated:
        # its replica then takes nothing more, and its restarts take minutes.
        "compression": "none",
    }


def _work() -> dict[str, Any]:
    return {
        "name": WORK,
        "subjects": ["work.>"],
        "retention": "workqueue",
        "discard": "new",
        "max_bytes": 64 << 20,
        "duplicate_window": 60 * SECOND,
    }


def _beats(replicas: int) -> dict[str, Any]:
    """Heartbeats are not facts: the newest of each worker is kept, without fsync."""
    return {
        "name": BEATS,
        "subjects": ["beats.*"],
        "retention": "limits",
        "discard": "old",
        "max_msgs_per_subject": 1,
        "max_age": 86_400 * SECOND,
        "duplicate_window": SECOND,
        **({"persist_mode": "async"} if replicas == 1 else {}),
    }


async def ensure_streams(
    link: NatsConnection, *, replicas: int = 1, telemetry_bytes: int = 4 * GIB
) -> list[StreamChange]:
    """Create missing streams and update those that differ, in place; what was done.

    Safe to call from several processes. Raises StreamRefusedError when the server does not accept a stream.
    """
    found = [await _ensure(link, config) for config in declarations(replicas, telemetry_bytes)]
    return [change for change in found if change is not None]


async def _ensure(link: NatsConnection, config: dict[str, Any]) -> StreamChange | None:
    name = config["name"]
    until = time.monotonic() + ENSURE_SECONDS
    while True:
        current = await _info(link, name)
        try:
            return await (_create(link, config) if current is None else _update(link, current, config))
        except ServerRefusedError as error:
            # Another process created it in between: it is looked at again.
            if error.verdict is not Verdict.CONFLICT or time.monotonic() > until:
                raise StreamRefusedError(f"stream {name}: {error}{_remedy(error.code)}") from error
            await asyncio.sleep(0.2)


async def _create(link: NatsConnection, config: dict[str, Any]) -> StreamChange:
    await ask(link, f"STREAM.CREATE.{config['name']}", config, timeout=ENSURE_SECONDS)
    return StreamChange(config["name"], "created", 0, config["num_replicas"])


async def _update(
    link: NatsConnection, current: dict[str, Any], config: dict[str, Any]
) -> StreamChange | None:
    """Apply the differences; None without any. A stream without facts is replaced where that is needed."""
    before = current["config"]
    if before.get("persist_mode", "default") != config.get("persist_mode", "default"):
        return await _replace(link, current, config)
    changed = sorted(key for key, value in config.items() if before.get(key) != value)
    if not changed:
        return None
    await ask(link, f"STREAM.UPDATE.{config['name']}", config, timeout=ENSURE_SECONDS)
    what = f"updated in place: {', '.join(changed)}"
    return StreamChange(config["name"], what, before["num_replicas"], config["num_replicas"])


async def _replace(link: NatsConnection, current: dict[str, Any], config: dict[str, Any]) -> StreamChange:
    """Delete a stream and create it again; its positions continue, so that its readers do, too."""
    name = config["name"]
    if name not in REPLACEABLE:
        raise StreamRefusedError(f"stream {name}: its persist_mode cannot be changed, and it holds facts")
    with contextlib.suppress(ServerRefusedError):
        await ask(link, f"STREAM.DELETE.{name}", timeout=ENSURE_SECONDS, final=(STREAM_NOT_FOUND,))
    first = current["state"]["last_seq"] + 1
    await ask(link, f"STREAM.CREATE.{name}", {**config, "first_seq": first}, timeout=ENSURE_SECONDS)
    what = f"deleted and created again from position {first}, because its persist_mode cannot be changed"
    return StreamChange(name, what, current["config"]["num_replicas"], config["num_replicas"])


async def _info(link: NatsConnection, name: str) -> dict[str, Any] | None:
    try:
        return await ask(link, f"STREAM.INFO.{name}", {}, final=(STREAM_NOT_FOUND,))
    except ServerRefusedError as error:
        if error.code == STREAM_NOT_FOUND:
            return None
        raise


def _remedy(code: int) -> str:
    return ". Set RUNSPINE_STREAM_REPLICAS=1 or start three nats-servers" if code == NOT_IN_A_CLUSTER else ""


async def wait_for_streams(link: NatsConnection, *names: str, timeout: float = 60.0) -> None:
    """Wait until the orchestrator has created these streams."""
    async with asyncio.timeout(timeout):
        for name in names:
            while True:
                try:
                    if await _info(link, name) is not None:
                        break
                except NatsUnreachableError as error:
                    log.info("streams.waiting", stream=name, error=str(error))
                await asyncio.sleep(0.2)
