"""Starts the trainer of an attempt, in the worker's sandbox where it has one."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Awaitable, Callable
from pathlib import Path

from runspine.services.worker.claim.claim import Claim
from runspine.services.worker.live.view_socket import ViewSocket
from runspine.services.worker.process.sandbox import Sandbox
from runspine.services.worker.process.sandbox_plan import OwnPaths, SandboxPlan, python_paths
from runspine.services.worker.process.telemetry_socket import TelemetrySocket
from runspine.services.worker.process.trainer_process import REAPER_LOCK, TrainerProcess
from runspine.wire.v1.spec_pb2 import Limits


async def start_trainer(
    claim: Claim,
    sandbox: Sandbox,
    view: ViewSocket,
    telemetry: TelemetrySocket,
    limits: Limits,
    log_line: Callable[[str], Awaitable[None]],
) -> TrainerProcess:
    """Start the claimed run's command within these limits. Raises NotStartedError."""
    prepared, command = claim.prepared, claim.prepared.command
    environment = {
        **prepared.environment,
        "RUNSPINE_VIEW": str(view.path),
        "RUNSPINE_TELEMETRY_SOCKET": str(telemetry.path),
    }
    if sandbox:
        plan = await asyncio.to_thread(_plan, claim, sandbox, view, telemetry)
        command = sandbox.command(plan, command, limits.processes)
        environment["TMPDIR"] = "/tmp"
        for note in plan.refused:
            await log_line(note)
    return await TrainerProcess.start(
        claim.entry.name,
        command,
        prepared.directory,
        environment,
        prepared.run_dir / REAPER_LOCK,
        limits,
        sandboxed=bool(sandbox),
    )


def _plan(claim: Claim, sandbox: Sandbox, view: ViewSocket, telemetry: TelemetrySocket) -> SandboxPlan:
    """What this trainer sees. Blocks."""
    given = claim.prepared
    # Both are in the run's directory, unless its path is too long for a socket.
    sockets = (view.path.parent, telemetry.path.parent)
    reads: tuple[Path, ...] = ()
    if claim.virtualenv is not None:
        reads = (claim.virtualenv.folder, *python_paths(os.path.realpath(claim.virtualenv.program)))
    own = OwnPaths(claim.start.dataset, sockets, given.run_dir / REAPER_LOCK, reads)
    network = claim.run.spec.isolation.network
    return sandbox.plan(given.run_dir, given.directory, given.command[0], given.reads, own, network)
