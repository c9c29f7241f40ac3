"""Sizes of the streams, read from NATS periodically and published as Prometheus metrics."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import structlog
from prometheus_client import Gauge

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.permissions import STREAMS

log = structlog.get_logger()

POLL_SECONDS = 10.0
BYTES = Gauge("runspine_stream_bytes", "Bytes a stream holds", ["stream"])
MESSAGES = Gauge("runspine_stream_messages", "Messages a stream holds", ["stream"])
LIMIT = Gauge("runspine_stream_limit_bytes", "Bytes a stream may hold, where it is bounded", ["stream"])
USED = Gauge("runspine_jetstream_used_bytes", "Bytes that all streams use on disk")
ALLOWED = Gauge("runspine_jetstream_limit_bytes", "Bytes they may use, where that is bounded")
ANSWER = Gauge("runspine_nats_answer_seconds", "Time NATS took to answer the last request")


async def publish_stream_sizes(link: NatsConnection, seconds: float = POLL_SECONDS) -> None:
    """Runs until cancelled. While NATS is unreachable, which /healthz reports, the gauges keep their
    values."""
    while True:
        try:
            for stream in STREAMS:
                _set_stream(stream, await _request(link, f"STREAM.INFO.{stream}"))
            _set_account(await _request(link, "INFO"))
        except NatsUnreachableError as error:
            log.debug("streams.unseen", trouble=str(error))
        await asyncio.sleep(seconds)


async def _request(link: NatsConnection, verb: str) -> dict[str, Any]:
    began = asyncio.get_running_loop().time()
    answer: dict[str, Any] = json.loads((await link.request(f"$JS.API.{verb}", b"")).data)
    ANSWER.set(asyncio.get_running_loop().time() - began)
    return answer


def _set_stream(stream: str, info: dict[str, Any]) -> None:
    if "state" not in info:
        return
    BYTES.labels(stream).set(info["state"]["bytes"])
    MESSAGES.labels(stream).set(info["state"]["messages"])
    if (limit := info["config"].get("max_bytes", -1)) > 0:
        LIMIT.labels(stream).set(limit)


def _set_account(info: dict[str, Any]) -> None:
    # An account without a limit of its own may fill the server's disk; `tier`s exist only in clusters.
    USED.set(info.get("storage", 0))
    if (limit := info.get("limits", {}).get("max_storage", -1)) > 0:
        ALLOWED.set(limit)
