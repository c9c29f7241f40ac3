"""Runners through every check, on a stack that lives for nothing else."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runspine.client import Client
from runspine.conformance.checks import CHECKS, ESSENTIAL
from runspine.conformance.result import Broken, NotClaimed, Outcome, Result
from runspine.conformance.stand import Stand
from runspine.embedded import running_stack
from runspine.endpoint import Endpoint
from runspine.errors import NotFound, RunspineError
from runspine.nearest import not_accepted
from runspine.runners import installed_runners
from runspine.wire.v1.spec_pb2 import RunSpec

SLOTS = 2
Hear = Callable[[str, str, Result | None], None]


async def check_runners(
    names: Sequence[str], home: Path, *, spec: RunSpec | None = None, patience: float = 120.0, hear: Hear
) -> list[Result]:
    """Every result, each told to `hear` before (as None) and after its check. Raises NotFound."""
    installed = installed_runners()
    for name in names:
        if name not in installed:
            raise NotFound(f"runner {not_accepted(name, installed)}")
    async with running_stack(home, slots=SLOTS) as stack:
        endpoint = Endpoint(
            trainer=stack.addresses["orchestrator"],
            telemetry=stack.addresses["telemetry"],
            artifacts=stack.addresses.get("artifacts", ""),
            token=stack.token,
        )
        return await asyncio.to_thread(_check_all, endpoint, names, spec, patience, hear)


def _check_all(
    endpoint: Endpoint, names: Sequence[str], spec: RunSpec | None, patience: float, hear: Hear
) -> list[Result]:
    results: list[Result] = []
    with Client(endpoint) as client:
        known = {info.name: info for info in client.runners()}
        for name in names:
            stand = Stand(client, known[name], spec or known[name].example, patience)
            results += _check(stand, hear)
    return results


def _check(stand: Stand, hear: Hear) -> Iterator[Result]:
    name, stopped_by = stand.info.name, ""
    for check, function in CHECKS.items():
        if stopped_by:
            result = Result(name, check, Outcome.SKIPPED, f"not tried, because {stopped_by} failed")
        else:
            hear(name, check, None)
            result = _try(stand, check, function)
            if result.outcome is Outcome.FAILED and check in ESSENTIAL:
                stopped_by = check
        hear(name, check, result)
        yield result


def _try(stand: Stand, check: str, function: Callable[[Stand], str]) -> Result:
    began = time.monotonic()

    def found(outcome: Outcome, seen: str, remedy: str = "") -> Result:
        return Result(stand.info.name, check, outcome, seen, remedy, round(time.monotonic() - began, 2))

    try:
        seen = function(stand)
        stand.put_away()
        return found(Outcome.PASSED, seen)
    except NotClaimed as reason:
        return found(Outcome.SKIPPED, str(reason))
    except Broken as broken:
        result = found(Outcome.FAILED, broken.seen, broken.remedy)
    except RunspineError as error:
        result = found(Outcome.FAILED, str(error), "correct the spec, or what the runner says of itself")
    try:
        stand.put_away()
    except Broken as broken:
        return found(Outcome.FAILED, f"{result.seen}; then {broken.seen}", result.remedy)
    return result
