"""Lists of runs: filters and pages over the board. Pure."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator

from runspine.services.orchestrator.core.board import Board
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import Value
from runspine.wire.v1.trainer_pb2 import ListRequest, ListResponse

DEFAULT_PAGE = 50
MAX_PAGE = 1000


def list_runs(board: Board, request: ListRequest, now: int = 0) -> ListResponse:
    """One page of the runs that match, newest first. The page token is the last id of the previous page."""
    size = min(request.page_size or DEFAULT_PAGE, MAX_PAGE)
    response = ListResponse()
    for run in _newest_first(board, request.page_token):
        if not matches(run, request, board.phase_of(run)):
            continue
        if len(response.runs) == size:
            response.next_page_token = response.runs[-1].run.id
            break
        summary = response.runs.add()
        summary.run.CopyFrom(board.with_wait_reasons(run, now))
        # A command may be long, and a page has up to a thousand runs.
        summary.run.ClearField("preflight")
        summary.progress.CopyFrom(board.progress(run))
        if (tracking := board.tracking(run.id)) is not None:
            summary.tracking.CopyFrom(tracking)
    plain = ListRequest(page_size=request.page_size, page_token=request.page_token)
    everything = request == plain
    response.total = len(board.runs) if everything else _count(board, request)
    return response


def _newest_first(board: Board, token: str) -> Iterator[Run]:
    end = bisect_left(board.ids, token) if token else len(board.ids)
    for index in range(end - 1, -1, -1):
        yield board.runs[board.ids[index]]


def _count(board: Board, request: ListRequest) -> int:
    return sum(matches(run, request, board.phase_of(run)) for run in board.runs.values())


def matches(run: Run, request: ListRequest, phase: Phase) -> bool:
    spec = run.spec
    if request.phases and phase not in request.phases:
        return False
    for wanted, given in (
        (request.env, spec.env),
        (request.algo, spec.algo),
        (request.runner, spec.runner),
        (request.project, spec.project),
        (request.submitted_by, run.submitted_by),
    ):
        if wanted and wanted != given:
            return False
    if request.name and request.name.lower() not in run.name.lower():
        return False
    if request.submitted_after and run.submitted_at < request.submitted_after:
        return False
    if request.submitted_before and run.submitted_at >= request.submitted_before:
        return False
    if not all(run.labels.get(key) == value for key, value in request.labels.items()):
        return False
    return all(
        key in spec.params and _equal(spec.params[key], value) for key, value in request.params.items()
    )


def _equal(given: Value, wanted: Value) -> bool:
    """Whether two values are the same; an integer equals a number of its value, never a boolean."""
    number = ("integer", "number")
    kinds = given.WhichOneof("kind"), wanted.WhichOneof("kind")
    if kinds[0] in number and kinds[1] in number:
        return bool(getattr(given, kinds[0]) == getattr(wanted, kinds[1]))
    return given == wanted
