"""Orchestrators against a real server, and a worker that the test plays."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PATIENT, PlayedWorker
from tests.kit.servers.nats import NatsServer

Connect = Callable[..., Awaitable[Any]]


@pytest.fixture
def served(nats_server: NatsServer, tmp_path: Path) -> Iterator[Orchestrator]:
    with orchestrator(nats_server, tmp_path, **PATIENT) as service:
        yield service


@pytest.fixture
def impatient(nats_server: NatsServer, tmp_path: Path) -> Iterator[Orchestrator]:
    with orchestrator(nats_server, tmp_path, RUNSPINE_STALE_AFTER="2", RUNSPINE_LOST_AFTER="4") as service:
        yield service


@pytest.fixture
async def worker(connect: Connect) -> PlayedWorker:
    return PlayedWorker(await connect("w1"))
