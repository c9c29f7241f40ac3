from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests.kit.artifacts import Rig, rig_on
from tests.kit.servers.s3 import S3Server


@pytest.fixture
async def rig(nats_server: Any, connect: Any, s3_server: S3Server, tmp_path: Path) -> AsyncIterator[Rig]:
    """Artifacts services on a NATS server and a bucket of their own; the test plays the worker."""
    connected = await connect("test")
    async with rig_on(nats_server.url, connected.log, s3_server, tmp_path) as made:
        yield made
