"""Answers of the page's own API: JSON, and errors that say what to do."""

from __future__ import annotations

from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response

from runspine.errors import Denied, Invalid, NotFound, Refused, RunspineError

STATUS = {NotFound: 404, Invalid: 400, Denied: 403, Refused: 409}


def as_json(value: Any, status: int = 200) -> Response:
    # What is not a number becomes null.
    return json_response(orjson.dumps(value), status)


def json_response(body: bytes, status: int = 200) -> Response:
    return Response(body, status, media_type="application/json")


def explain_errors(app: FastAPI) -> None:
    @app.exception_handler(RunspineError)
    async def tell(_: Request, error: Exception) -> Response:
        return as_json({"error": str(error)}, STATUS.get(type(error), 503))
