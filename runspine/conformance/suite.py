"""Run all checks of runners on a temporary stack."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from runspine.conformance.checks import CHECKS, ESSENTIAL
from runspine.conformance.context import CheckContext
from runspine.conformance.result import CheckOutcome, NotClaimedError, NotConformingError, Result
from runspine.embedded import running_stack
from runspine.errors import RunNotFoundError, RunspineError
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.runners import installed_runners
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.spec_pb2 import RunSpec

SLOTS = 2
OnCheck = Callable[[str, str, Result | None], None]


async def check_runners(
    names: Sequence[str],
    home: Path,
    *,
    spec: RunSpec | None = None,
    patience: float = 120.0,
    on_check: OnCheck,
) -> list[Result]:
    """Run the checks; `on_check` is called before (result None) and after each. Raises RunNotFoundError."""
    installed = installed_runners()
    for name in names:
        if name not in installed:
            raise RunNotFoundError(f"runner {not_accepted(name, installed)}")
    async with running_stack(home, slots=SLOTS) as stack:
        endpoint = Endpoint(
            trainer=stack.addresses["orchestrator"],
            telemetry=stack.addresses["telemetry"],
            artifacts=stack.addresses.get("artifacts", ""),
            token=stack.token,
        )
        return await asyncio.to_thread(_check_all, endpoint, names, spec, patience, on_check)


def _check_all(
    endpoint: Endpoint, names: Sequence[str], spec: RunSpec | None, patience: float, on_check: OnCheck
) -> list[Result]:
    results: list[Result] = []
    with Client(endpoint) as client:
        known = {info.name: info for info in client.runners()}
        for name in names:
            context = CheckContext(client, known[name], spec or known[name].example, patience)
            results += _check(context, on_check)
    return results


def _check(context: CheckContext, on_check: OnCheck) -> Iterator[Result]:
    name, stopped_by = context.info.name, ""
    for check, function in CHECKS.items():
        if stopped_by:
            result = Result(name, check, CheckOutcome.SKIPPED, f"skipped because {stopped_by} failed")
        else:
            on_check(name, check, None)
            result = _try(context, check, function)
            if result.outcome is CheckOutcome.FAILED and check in ESSENTIAL:
                stopped_by = check
        on_check(name, check, result)
        yield result


def _try(context: CheckContext, check: str, function: Callable[[CheckContext], str]) -> Result:
    began = time.monotonic()

    def found(outcome: CheckOutcome, seen: str, remedy: str = "") -> Result:
        return Result(context.info.name, check, outcome, seen, remedy, round(time.monotonic() - began, 2))

    try:
        seen = function(context)
        context.clean_up()
        return found(CheckOutcome.PASSED, seen)
    except NotClaimedError as reason:
        return found(CheckOutcome.SKIPPED, str(reason))
    except NotConformingError as broken:
        result = found(CheckOutcome.FAILED, broken.seen, broken.remedy)
    except RunspineError as error:
        result = found(CheckOutcome.FAILED, str(error), "correct the spec, or the RunnerInfo of the runner")
    try:
        context.clean_up()
    except NotConformingError as broken:
        return found(CheckOutcome.FAILED, f"{result.seen}; then {broken.seen}", result.remedy)
    return result
