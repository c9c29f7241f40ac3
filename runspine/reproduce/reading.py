"""Reads what two runs are compared by: telemetry, code, packages and results."""

from __future__ import annotations

from dataclasses import dataclass

from runspine.code.download import read_object, read_tree
from runspine.code.tree import CodeTree
from runspine.errors import RefusedError, RunNotFoundError
from runspine.reproduce.telemetry import RunTelemetry
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.facts_pb2 import Provenance
from runspine.wire.v1.run_pb2 import Attempt, Run
from runspine.wire.v1.trainer_pb2 import GetResponse

# All of it is held in memory.
MAX_STEPS = 20_000_000


@dataclass(frozen=True, slots=True)
class ComparedRun:
    """One of two runs."""

    run: Run
    attempt: Attempt

    @property
    def provenance(self) -> Provenance:
        return self.attempt.provenance


def compared_run(found: GetResponse) -> ComparedRun:
    """A run with its newest attempt. Raises RefusedError when it has none."""
    if not found.attempts:
        raise RefusedError(f"run {found.run.id} has not started yet: there is nothing to compare")
    return ComparedRun(found.run, found.attempts[-1])


def read_telemetry(client: Client, compared: ComparedRun) -> RunTelemetry:
    """Steps and metrics of the newest attempt. Raises RefusedError when there are too many."""
    telemetry, found = TelemetryClient(client), RunTelemetry()
    for batch in telemetry.batches(compared.run.id, "steps"):
        if batch.attempt == compared.attempt.number:
            found.add_steps(batch.blocks)
            if found.step_count > MAX_STEPS:
                raise RefusedError(
                    f"run {compared.run.id} has more than {MAX_STEPS:,} steps: too many to compare"
                )
    for batch in telemetry.batches(compared.run.id, "metrics"):
        if batch.attempt == compared.attempt.number:
            found.add_metrics(batch.blocks)
    return found


def read_code(client: Client, compared: ComparedRun) -> CodeTree | None:
    """The tree of a run; None without stored code."""
    digest = compared.run.spec.code.tree
    return read_tree(client, digest) if digest else None


def read_packages(client: Client, compared: ComparedRun) -> str | None:
    """The list of a run's packages; None when there is none, or when it was not stored."""
    digest = compared.provenance.packages
    if not digest:
        return None
    try:
        return read_object(client, digest, packages=True).decode(errors="replace")
    except RunNotFoundError:
        return None
