"""Artifacts through the page: S3's links and credentials never reach a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from runspine.errors import Unreachable
from runspine.wire.v1.artifacts_pb2 import GetUrlRequest
from services.dashboard.edges.backend import Backend
from services.dashboard.edges.login import COOKIE

# Shown in the page; everything else is handed out as a file, whatever it says it is.
SHOWN = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".png": "image/png"}
PASSED = ("content-length", "content-range", "accept-ranges")


def add_file_api(app: FastAPI, backend: Backend) -> None:
    @app.get("/api/artifacts/{digest}/{name:path}")
    async def artifact(request: Request, digest: str, name: str) -> Response:
        access = backend.seen_by(request.cookies.get(COOKIE, ""))
        granted = await access.ask("artifacts", "GetUrl", GetUrlRequest(reference=digest))
        wanted = {"Range": request.headers["range"]} if "range" in request.headers else {}
        # A server of this machine is not asked for through a proxy.
        client = httpx.AsyncClient(trust_env=False, timeout=30.0)
        try:
            answer = await client.send(client.build_request("GET", granted.url, headers=wanted), stream=True)
        except httpx.HTTPError as error:
            await client.aclose()
            raise Unreachable(f"S3 does not give the file: {type(error).__name__}") from None
        if answer.status_code not in (200, 206):
            await answer.aclose()
            await client.aclose()
            raise Unreachable(f"S3 answered {answer.status_code}")
        return StreamingResponse(
            _pieces(client, answer), answer.status_code, headers=_headers(granted.artifact.name, answer)
        )


async def _pieces(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for piece in answer.aiter_raw():
            yield piece
    finally:
        await answer.aclose()
        await client.aclose()


def _headers(name: str, answer: httpx.Response) -> dict[str, str]:
    short = name.rpartition("/")[2] or "artifact"
    ending = f".{short.rpartition('.')[2].lower()}"
    how = "inline" if ending in SHOWN else "attachment"
    return {
        **{key: answer.headers[key] for key in PASSED if key in answer.headers},
        "Content-Type": SHOWN.get(ending, "application/octet-stream"),
        "Content-Disposition": f"{how}; filename*=UTF-8''{quote(short, safe='')}",
    }
