from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server
from tests.kit.telemetry import Archived, archiving
from tests.kit.worker import Rig, worker_rig
from tests.kit.worker_with_s3 import Bay, open_bay


@pytest.fixture
async def rig(nats_server: NatsServer, connect: Any, tmp_path: Path) -> AsyncIterator[Rig]:
    """Workers on a NATS server of their own; the test plays the orchestrator."""
    async with worker_rig(nats_server, connect, tmp_path) as rig:
        yield rig


@pytest.fixture
async def archived(
    nats_server: NatsServer, s3_server: S3Server, connect: Any, tmp_path: Path
) -> AsyncIterator[Archived]:
    """A stream and an archive, and telemetry services that never stumble."""
    async with archiving(nats_server, s3_server, connect, tmp_path) as made:
        yield made
    for service in made.services:
        assert "Traceback" not in service.log, service.log


@pytest.fixture
async def bay(
    nats_server: NatsServer, s3_server: S3Server, connect: Any, tmp_path: Path
) -> AsyncIterator[Bay]:
    """A rig with S3."""
    async with open_bay(nats_server, s3_server, connect, tmp_path) as bay:
        yield bay
