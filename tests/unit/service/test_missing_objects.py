"""An object counts as lost only while the server works, and after it was missing long enough."""

from __future__ import annotations

import pytest

from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.missing import MissingObjects


class Server:
    """A probe and a clock under the control of a test."""

    def __init__(self) -> None:
        self.works = True
        self.now = 0.0

    async def probe(self) -> None:
        if not self.works:
            raise BlobsUnavailableError("away")

    def clock(self) -> float:
        return self.now


async def test_an_object_is_lost_after_the_patience() -> None:
    server = Server()
    missing = MissingObjects(server.probe, 10, clock=server.clock)
    assert not await missing.confirmed("a")
    server.now = 9
    assert not await missing.confirmed("a")
    server.now = 10
    assert await missing.confirmed("a")
    assert not await missing.confirmed("b"), "each object has its own time"


async def test_an_outage_drops_every_observation() -> None:
    server = Server()
    missing = MissingObjects(server.probe, 10, clock=server.clock)
    assert not await missing.confirmed("a")
    server.now, server.works = 20, False
    with pytest.raises(BlobsUnavailableError):
        await missing.confirmed("a")
    server.works = True
    assert not await missing.confirmed("a")


async def test_an_object_that_was_not_checked_for_long_is_observed_again() -> None:
    server = Server()
    missing = MissingObjects(server.probe, 10, stale_seconds=30, clock=server.clock)
    assert not await missing.confirmed("a")
    server.now = 31
    assert not await missing.confirmed("a")


async def test_so_many_checks_are_needed_and_a_settled_object_starts_again() -> None:
    server = Server()
    missing = MissingObjects(server.probe, 0, min_checks=2, clock=server.clock)
    assert [await missing.confirmed("a") for _ in range(2)] == [False, True]
    missing.settled("a")
    assert not await missing.confirmed("a")
