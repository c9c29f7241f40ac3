"""How far telemetry is behind, as it tells Prometheus."""

from __future__ import annotations

import re

import httpx

LAG = re.compile(r"^runspine_ingest_lag_messages(?:\{[^}]*\})? (\S+)$", re.MULTILINE)


async def ingest_lag(address: str | None) -> int | None:
    """Messages on the stream that are not in the archive yet; None when nobody says."""
    if not address:
        return None
    try:
        # A server of this machine is not asked for through a proxy.
        async with httpx.AsyncClient(trust_env=False, timeout=2.0) as client:
            answer = await client.get(f"http://{address}/metrics")
    except httpx.HTTPError:
        return None
    found = LAG.findall(answer.text)
    return int(sum(float(value) for value in found)) if found else None
