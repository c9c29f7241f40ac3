from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.fixtures.nats import NatsServer
from tests.fixtures.s3 import S3Server
from tests.integration.bay_rig import Bay, open_bay
from tests.integration.telemetry_rig import Archived, archiving


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
