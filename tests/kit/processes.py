"""Processes that a test has seen, some of which are gone by now."""

from __future__ import annotations

from collections.abc import Iterable

import psutil


def alive(processes: Iterable[psutil.Process]) -> list[psutil.Process]:
    """Those that still execute. One that has ended and was not waited for by its parent does not."""
    return [process for process in processes if _executes(process)]


def _executes(process: psutil.Process) -> bool:
    try:
        return process.is_running() and process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False
