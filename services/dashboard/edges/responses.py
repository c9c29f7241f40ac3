"""JSON responses of the dashboard's HTTP API, errors included."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response

from runspine.errors import DeniedError, InvalidError, RefusedError, RunNotFoundError, RunspineError

STATUS_CODES = {RunNotFoundError: 404, InvalidError: 400, DeniedError: 403, RefusedError: 409}


def json_response(value: Any, status: int = 200) -> Response:
    # orjson writes NaN and infinity as null.
    return json_bytes_response(orjson.dumps(value), status)


def json_bytes_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def add_error_handler(app: FastAPI) -> None:
    @app.exception_handler(RunspineError)
    async def respond(_: Request, error: Exception) -> Response:
        return json_response({"error": str(error)}, STATUS_CODES.get(type(error), 503))
