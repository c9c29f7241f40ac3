"""Ingest lag of telemetry, read from its Prometheus metrics."""

from __future__ import annotations

import re

import httpx

LAG_PATTERN = re.compile(r"^runspine_ingest_lag_messages(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


async def ingest_lag(address: str | None) -> int | None:
    """Messages on the stream that are not in the archive yet; None when unknown."""
    if not address:
        return None
    try:
        # A proxy of the environment does not apply to a server on this machine.
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
            answer = await client.get(f"http://{address}/metrics")
    except httpx.HTTPError:
        return None
    found = LAG_PATTERN.findall(answer.text)
    return int(sum(float(value) for value in found)) if found else None
