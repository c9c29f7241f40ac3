"""`runspine serve`: run one service in this process; the command of a container."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

NAMES = (
    "orchestrator",
    "telemetry",
    "artifacts",
    "worker",
    "dashboard",
    "janitor",
    "launcher",
    "notices",
    "bootstrap",
)
MODULES = {
    "bootstrap": "runspine.service.bootstrap",
    # A second process of the artifacts service.
    "janitor": "runspine.services.artifacts.janitor",
}


@click.command()
@click.argument("service", type=click.Choice(NAMES))
def serve(service: str) -> None:
    """Run one SERVICE in this process until SIGTERM, configured by RUNSPINE_* settings.

    `janitor` prunes apart from the artifacts service (RUNSPINE_JANITOR=apart). `bootstrap` creates the
    bucket and its users, and exits.
    """
    module = MODULES.get(service, f"runspine.services.{service}")
    if not _installed(module):
        raise click.ClickException(f"{service} is not part of this installation")
    # exec, so that the service receives signals itself, also as process 1 of a container.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module])


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
