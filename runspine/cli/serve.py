"""`runspine serve`: become one service. What a container's command says."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

NAMES = ("orchestrator", "telemetry", "artifacts", "worker", "dashboard", "launcher", "bootstrap")
MODULES = {"bootstrap": "runspine.bootstrap"}


@click.command()
@click.argument("service", type=click.Choice(NAMES))
def serve(service: str) -> None:
    """Run one SERVICE in this process until SIGTERM, as its RUNSPINE_* settings say.

    `bootstrap` makes the bucket and its users, and ends.
    """
    module = MODULES.get(service, f"services.{service}")
    if not _installed(module):
        raise click.ClickException(f"{service} is not part of this installation")
    # The service takes this process's place: it gets the signals itself, also as the first of a container.
    os.execv(sys.executable, [sys.executable, "-P", "-m", module])


def _installed(module: str) -> bool:
    try:
        return importlib.util.find_spec(module) is not None
    except ModuleNotFoundError:
        return False
