"""Requests to the API of JetStream, each repeated while its error is transient."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Container, Mapping
from typing import Any

from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.server_errors import ServerRefusedError, Verdict, code_of, verdict_of

ASK_SECONDS = 8.0
PAUSE_SECONDS = 0.05


async def ask(
    link: NatsConnection,
    verb: str,
    body: Mapping[str, Any] | None = None,
    *,
    timeout: float = ASK_SECONDS,
    final: Container[int] = (),
) -> dict[str, Any]:
    """The answer to an idempotent request such as `STREAM.INFO.RUNS`.

    Raises ServerRefusedError for an error that stays, and for the codes in `final`; NatsUnreachableError when
    there is no other answer in time.
    """
    payload = json.dumps(body).encode() if body is not None else b""
    until = time.monotonic() + timeout
    while True:
        message = await link.request(f"$JS.API.{verb}", payload, timeout=max(until - time.monotonic(), 0.05))
        answer: dict[str, Any] = json.loads(message.data)
        error = answer.get("error")
        if error is None:
            return answer
        if verdict_of(error) is not Verdict.RETRY or code_of(error) in final:
            raise ServerRefusedError(error)
        if time.monotonic() + PAUSE_SECONDS >= until:
            raise NatsUnreachableError(f"{verb}: {error.get('description', 'no reason given')}")
        await asyncio.sleep(PAUSE_SECONDS)
