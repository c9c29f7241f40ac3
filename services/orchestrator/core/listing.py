"""Lists of runs: filters and pages over the board. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator
from itertools import islice

from runspine.services.orchestrator.core.board import Board
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import Value
from runspine.wire.v1.trainer_pb2 import ListRequest, ListResponse, RunSummary

DEFAULT_PAGE = 50
MAX_PAGE = 1000
# Runs that are looked at together.
CHUNK = 200


def list_runs(board: Board, request: ListRequest, now: int = 0) -> ListResponse:
    """One page of the runs that match, newest first. The page token is the last id of the previous page."""
    size = min(request.page_size or DEFAULT_PAGE, MAX_PAGE)
    response = ListResponse()
    # Runs that are quarantined have another phase for clients than on their row.
    exact = not (request.phases and board.quarantined)
    known = board.rows.count(request) if exact else None
    if known is None:
        matching = list(_matching(board, request, board.ids))
        response.total = len(matching)
        end = bisect_left(matching, request.page_token) if request.page_token else len(matching)
        found: Iterable[str] = reversed(matching[max(0, end - size - 1) : end])
    else:
        response.total = known
        found = _newest(board, request) if known else ()
    for run_id in islice(found, size + 1):
        if len(response.runs) == size:
            response.next_page_token = response.runs[-1].run.id
            break
        _summarize(board, run_id, now, response.runs.add())
    return response


def _summarize(board: Board, run_id: str, now: int, summary: RunSummary) -> None:
    run = board.runs[run_id]
    summary.run.CopyFrom(board.with_wait_reasons(run, now))
    # A command may be long, and a page has up to a thousand runs.
    summary.run.ClearField("preflight")
    summary.progress.CopyFrom(board.progress(run))
    if (tracking := board.tracking(run_id)) is not None:
        summary.tracking.CopyFrom(tracking)


def _newest(board: Board, request: ListRequest) -> Iterator[str]:
    """Matching runs before the page token, newest first; only as many are looked at as are taken."""
    end = bisect_left(board.ids, request.page_token) if request.page_token else len(board.ids)
    while end > 0:
        begin = max(0, end - CHUNK)
        yield from reversed(_matching(board, request, board.ids[begin:end]))
        end = begin


def _matching(board: Board, request: ListRequest, ids: list[str]) -> list[str]:
    found = board.rows.matching(ids, request, board.quarantined)
    return (
        [run_id for run_id in found if _has_params(board.runs[run_id], request)] if request.params else found
    )


def _has_params(run: Run, request: ListRequest) -> bool:
    params = run.spec.params
    return all(key in params and _equal(params[key], value) for key, value in request.params.items())


def _equal(given: Value, wanted: Value) -> bool:
    """Whether two values are the same; an integer equals a number of its value, never a boolean."""
    number = ("integer", "number")
    kinds = given.WhichOneof("kind"), wanted.WhichOneof("kind")
    if kinds[0] in number and kinds[1] in number:
        return bool(getattr(given, kinds[0]) == getattr(wanted, kinds[1]))
    return given == wanted
