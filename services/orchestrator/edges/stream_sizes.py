"""How full the streams are, asked of NATS now and then and shown to Prometheus."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import structlog
from prometheus_client import Gauge

from runspine.log.link import Link, Unreachable
from runspine.log.permissions import STREAMS

log = structlog.get_logger()

SECONDS = 10.0
BYTES = Gauge("runspine_stream_bytes", "Bytes a stream holds", ["stream"])
MESSAGES = Gauge("runspine_stream_messages", "Messages a stream holds", ["stream"])
LIMIT = Gauge("runspine_stream_limit_bytes", "Bytes a stream may hold, where it is bounded", ["stream"])
USED = Gauge("runspine_jetstream_used_bytes", "Bytes that all streams use on disk")
ALLOWED = Gauge("runspine_jetstream_limit_bytes", "Bytes they may use, where that is bounded")
ANSWER = Gauge("runspine_nats_answer_seconds", "How long NATS took to answer the last question")


async def show_streams(link: Link, seconds: float = SECONDS) -> None:
    """For ever. While NATS is away the gauges keep what was last seen; /healthz tells of that."""
    while True:
        try:
            for stream in STREAMS:
                _show(stream, await _ask(link, f"STREAM.INFO.{stream}"))
            _show_account(await _ask(link, "INFO"))
        except Unreachable as error:
            log.debug("streams.unseen", trouble=str(error))
        await asyncio.sleep(seconds)


async def _ask(link: Link, verb: str) -> dict[str, Any]:
    began = asyncio.get_running_loop().time()
    answer: dict[str, Any] = json.loads((await link.request(f"$JS.API.{verb}", b"")).data)
    ANSWER.set(asyncio.get_running_loop().time() - began)
    return answer


def _show(stream: str, info: dict[str, Any]) -> None:
    if "state" not in info:
        return
    BYTES.labels(stream).set(info["state"]["bytes"])
    MESSAGES.labels(stream).set(info["state"]["messages"])
    if (most := info["config"].get("max_bytes", -1)) > 0:
        LIMIT.labels(stream).set(most)


def _show_account(info: dict[str, Any]) -> None:
    # An account without a limit of its own may fill what the server has; `tier`s are for clusters.
    USED.set(info.get("storage", 0))
    if (most := info.get("limits", {}).get("max_storage", -1)) > 0:
        ALLOWED.set(most)
