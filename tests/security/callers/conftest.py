"""Services for all tests of callers: people with tokens, and strangers."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.kit.callers import CallerStack, GuardedServices


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[CallerStack]:
    stack = CallerStack(tmp_path_factory.mktemp("callers") / "home")
    stack.up()
    yield stack
    stack.down()


@pytest.fixture(scope="session")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GuardedServices]:
    services = GuardedServices(tmp_path_factory.mktemp("guarded"))
    services.start()
    yield services
    services.stop()
