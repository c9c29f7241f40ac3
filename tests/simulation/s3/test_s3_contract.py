"""The model of S3 is held to a real server: the same requests, the same answers."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.settings import ServiceSettings
from tests.kit.servers.s3 import S3Server
from tests.simulation.s3.contract_cases import CASES, Case, Peer
from tests.simulation.s3.link import answering
from tests.simulation.s3.server import S3Model


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    started = S3Server(tmp_path_factory.mktemp("s3"))
    started.start()
    asyncio.run(started.ready())
    yield started
    started.stop()


def asked(case: Case, settings: ServiceSettings, folder: Path) -> tuple[list[Any], list[tuple[Any, ...]]]:
    peer = Peer(settings, folder)
    found = asyncio.run(case(peer))
    return found, peer.exchanges


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_the_model_answers_as_the_server_does(case: Case, server: S3Server, tmp_path: Path) -> None:
    real, real_exchanges = asked(case, server.settings(), tmp_path)
    model = S3Model(time.time)
    with answering(model.answer):
        found, exchanges = asked(case, server.settings(), tmp_path)
    assert found == real
    assert exchanges == real_exchanges
