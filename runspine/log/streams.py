"""The streams as they must be, and the one place that makes them so."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import structlog

from runspine.log.link import Link, Unreachable
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, BEATS, RUNS, TELEMETRY, WORK

log = structlog.get_logger()

SECOND = 1_000_000_000
GIB = 1 << 30


def declarations(replicas: int = 1, telemetry_bytes: int = 4 * GIB) -> list[dict[str, Any]]:
    """Configuration of every stream, in the server's own words."""
    shared = {"num_replicas": replicas, "storage": "file", "allow_direct": True}
    facts = {
        **shared,
        "retention": "limits",
        "discard": "new",
        "deny_delete": True,
        "deny_purge": True,
        "max_bytes": -1,
        "duplicate_window": 600 * SECOND,
    }
    return [
        {**facts, "name": RUNS, "subjects": ["runs.*", "keys.*"]},
        {**facts, "name": ATTEMPTS, "subjects": ["attempts.*", "workers.*"]},
        {**facts, "name": ARTIFACTS, "subjects": ["artifacts.*"]},
        {
            **shared,
            "name": TELEMETRY,
            "subjects": ["telemetry.>"],
            "retention": "limits",
            # Full means wait, never drop: the worker's spool holds what does not fit.
            "discard": "new",
            "max_bytes": telemetry_bytes,
            "duplicate_window": 600 * SECOND,
            "compression": "s2",
        },
        {
            **shared,
            "name": WORK,
            "subjects": ["work.>"],
            "retention": "workqueue",
            "discard": "new",
            "max_bytes": 64 << 20,
            "duplicate_window": 60 * SECOND,
        },
        {
            # Heartbeats are not facts: the newest of each worker, and no fsync for it.
            **shared,
            "name": BEATS,
            "subjects": ["beats.*"],
            "retention": "limits",
            "discard": "old",
            "max_msgs_per_subject": 1,
            "max_age": 86_400 * SECOND,
            "duplicate_window": SECOND,
            **({"persist_mode": "async"} if replicas == 1 else {}),
        },
    ]


async def ensure_streams(link: Link, *, replicas: int = 1, telemetry_bytes: int = 4 * GIB) -> None:
    """Create what is missing and update what differs. Safe to call from several at once."""
    for config in declarations(replicas, telemetry_bytes):
        await _ensure(link, config)


async def _ensure(link: Link, config: dict[str, Any]) -> None:
    for last in (False,) * 9 + (True,):
        verb = "UPDATE" if await _exists(link, config["name"]) else "CREATE"
        answer = await _api(link, f"STREAM.{verb}.{config['name']}", config)
        error = answer.get("error")
        if error is None:
            return
        # 10058: another process created it in between; 10049: the directory is still being removed.
        if last or error.get("err_code") not in (10058, 10049, 10008):
            raise RuntimeError(f"stream {config['name']}: {error.get('description')}")
        await asyncio.sleep(0.2)


async def _exists(link: Link, name: str) -> bool:
    return "error" not in await _api(link, f"STREAM.INFO.{name}", {})


async def _api(link: Link, verb: str, body: dict[str, Any]) -> dict[str, Any]:
    message = await link.request(f"$JS.API.{verb}", json.dumps(body).encode(), timeout=10)
    answer: dict[str, Any] = json.loads(message.data)
    return answer


async def wait_for_streams(link: Link, *names: str, timeout: float = 60.0) -> None:
    """Wait until the orchestrator has made them."""
    async with asyncio.timeout(timeout):
        for name in names:
            while True:
                try:
                    if await _exists(link, name):
                        break
                except Unreachable as error:
                    log.info("streams.waiting", stream=name, error=str(error))
                await asyncio.sleep(0.2)
