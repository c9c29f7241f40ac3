"""Downloads of artifacts through the dashboard: S3 URLs and credentials never reach a browser."""

from __future__ import annotations

from collections.abc import AsyncIterator
from urllib.parse import quote

import httpx
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from runspine.errors import UnreachableError
from runspine.services.dashboard.edges.backend import Backend
from runspine.wire.v1.artifacts_pb2 import GetUrlRequest

# Shown inline; everything else is sent as an attachment of an opaque type.
INLINE_TYPES = {".mp4": "video/mp4", ".webm": "video/webm", ".gif": "image/gif", ".png": "image/png"}
PASSED_HEADERS = ("content-length", "content-range", "accept-ranges")


def add_file_api(app: FastAPI, backend: Backend) -> None:
    @app.get("/api/artifacts/{digest}/{name:path}")
    async def artifact(request: Request, digest: str, name: str) -> Response:
        access = backend.access_of(request.scope)
        granted = await access.call("artifacts", "GetUrl", GetUrlRequest(reference=digest))
        wanted = {"Range": request.headers["range"]} if "range" in request.headers else {}
        # A proxy of the environment does not apply to a server on this machine.
        client = httpx.AsyncClient(trust_env=False, timeout=30.0)
        try:
            answer = await client.send(client.build_request("GET", granted.url, headers=wanted), stream=True)
        except httpx.HTTPError as error:
            await client.aclose()
            raise UnreachableError(f"S3 cannot be reached: {type(error).__name__}") from None
        if answer.status_code not in (200, 206):
            await answer.aclose()
            await client.aclose()
            raise UnreachableError(f"S3 answered {answer.status_code}")
        return StreamingResponse(
            _chunks(client, answer), answer.status_code, headers=_headers(granted.artifact.name, answer)
        )


async def _chunks(client: httpx.AsyncClient, answer: httpx.Response) -> AsyncIterator[bytes]:
    try:
        async for chunk in answer.aiter_raw():
            yield chunk
    finally:
        await answer.aclose()
        await client.aclose()


def _headers(name: str, answer: httpx.Response) -> dict[str, str]:
    short = name.rpartition("/")[2] or "artifact"
    ending = f".{short.rpartition('.')[2].lower()}"
    disposition = "inline" if ending in INLINE_TYPES else "attachment"
    return {
        **{key: answer.headers[key] for key in PASSED_HEADERS if key in answer.headers},
        "Content-Type": INLINE_TYPES.get(ending, "application/octet-stream"),
        "Content-Disposition": f"{disposition}; filename*=UTF-8''{quote(short, safe='')}",
    }
