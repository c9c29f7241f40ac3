"""Services on real servers, and a client that may publish anything."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PATIENT, PlayedWorker
from tests.kit.servers.nats import NatsServer


@pytest.fixture
def served(nats_server: NatsServer, tmp_path: Path) -> Iterator[Orchestrator]:
    with orchestrator(nats_server, tmp_path, **PATIENT) as service:
        yield service


@pytest.fixture
async def worker(connect: Any) -> PlayedWorker:
    return PlayedWorker(await connect("w1"))
