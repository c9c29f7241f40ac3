from __future__ import annotations

from collections.abc import AsyncIterator, Iterator
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


@pytest.fixture
def own_s3(tmp_path: Path) -> Iterator[S3Server]:
    folder = tmp_path / "s3"
    folder.mkdir()
    server = S3Server(folder)
    server.start()
    yield server
    server.stop()


@pytest.fixture
async def frail(
    nats_server: NatsServer, own_s3: S3Server, connect: Any, tmp_path: Path
) -> AsyncIterator[Bay]:
    """A bay whose S3 may be stopped."""
    async with open_bay(nats_server, own_s3, connect, tmp_path) as bay:
        yield bay
