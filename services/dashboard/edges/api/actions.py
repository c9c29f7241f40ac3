"""Actions on many runs: each run is one call in the person's name; the answer reports as they are made."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import orjson
from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from runspine.errors import InvalidError, RunspineError
from runspine.services.dashboard.edges.api import shapes
from runspine.services.dashboard.edges.backend import Access, Backend
from runspine.wire.v1.trainer_pb2 import CancelRequest, SetLabelsRequest, SetPriorityRequest

CALLS_AT_ONCE = 8
REPORT_SECONDS = 0.2
MAX_RUNS = 10_000


class ActionsApi:
    def __init__(self, backend: Backend) -> None:
        self._backend = backend

    def add_to(self, app: FastAPI) -> None:
        post: Any = app.post
        post(
            "/runs/actions",
            responses={200: {"content": {"application/x-ndjson": {}}, "model": shapes.ActionProgress}},
        )(self.act)

    async def act(self, request: Request, wanted: shapes.ActionRequest) -> Response:
        """Cancel runs, set their labels or their priority; a line of progress a few times a second."""
        method, message = _call_of(wanted)
        runs = list(dict.fromkeys(wanted.runs))
        if not 0 < len(runs) <= MAX_RUNS:
            raise InvalidError(f"runs: name between 1 and {MAX_RUNS:,}")
        work = ManyCalls(self._backend.access_of(request.scope), method, message, runs)
        # Compression would hold lines back.
        headers = {"Content-Encoding": "identity"}
        return StreamingResponse(work.lines(), media_type="application/x-ndjson", headers=headers)


class ManyCalls:
    """One call for each run, several at a time. What has begun is finished when the caller goes."""

    def __init__(self, access: Access, method: str, message: Callable[[str], Any], runs: list[str]) -> None:
        self._access, self._method, self._message = access, method, message
        self._waiting, self._of = list(reversed(runs)), len(runs)
        self._done = 0
        self._refused: list[list[str]] = []

    async def lines(self) -> AsyncIterator[bytes]:
        workers = asyncio.gather(*(self._work() for _ in range(CALLS_AT_ONCE)))
        try:
            while not workers.done():
                await asyncio.wait([workers], timeout=REPORT_SECONDS)
                if not workers.done():
                    yield self._line(False)
            await workers
            yield self._line(True)
        finally:
            # A page that was closed asked for all of it: nothing is left half done.
            await asyncio.shield(workers)

    async def _work(self) -> None:
        while self._waiting:
            run_id = self._waiting.pop()
            try:
                await self._access.call("trainer", self._method, self._message(run_id))
            except RunspineError as error:
                self._refused.append([run_id, str(error)])
            self._done += 1

    def _line(self, finished: bool) -> bytes:
        refused, self._refused = self._refused, []
        return orjson.dumps(shapes.ActionProgress(self._done, self._of, refused, finished)) + b"\n"


def _call_of(wanted: shapes.ActionRequest) -> tuple[str, Callable[[str], Any]]:
    match wanted.action:
        case "cancel":
            return "Cancel", lambda run_id: CancelRequest(run_id=run_id, reason=wanted.reason)
        case "label" if wanted.labels:
            return "SetLabels", lambda run_id: SetLabelsRequest(run_id=run_id, labels=wanted.labels)
        case "priority" if 0 <= wanted.priority <= 100:
            return "SetPriority", lambda run_id: SetPriorityRequest(run_id=run_id, priority=wanted.priority)
        case "label":
            raise InvalidError("labels: name at least one")
        case "priority":
            raise InvalidError("priority: between 0 and 100")
    raise InvalidError(f"action: {wanted.action!r} is not one of cancel, label, priority")
