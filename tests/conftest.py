from __future__ import annotations

import gc
import os
import signal
from collections.abc import AsyncIterator, Generator, Iterator
from contextlib import AsyncExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import ensure_streams
from tests.kit.forks.module_process import set_by_imports
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server
from tests.kit.worker_with_s3 import Bay, open_bay

# Started in the background by a shell, this process ignores Ctrl-C, and so would all that tests interrupt.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# SIGTERM ends the session as Ctrl-C does: what tests have started, mounted or filled is taken down.
if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
    signal.signal(signal.SIGTERM, lambda *_: signal.raise_signal(signal.SIGINT))

# How fast a busy machine runs an example is no promise of ours. The same examples each time: nights search
# new ones (`--hypothesis-profile=search`).
settings.register_profile("runspine", deadline=None, derandomize=True, max_examples=60)
settings.register_profile("search", deadline=None, derandomize=False, max_examples=1000, print_blob=True)
settings.load_profile("runspine")

# Envs of the tests are replayed, here and in stacks of theirs.
os.environ["RUNSPINE_ENV_MODULES"] = "tests,far_envs,nowhere_to_be_found"

# Tests that run at the same time start their stacks on ports of their own.
if worker := os.environ.get("PYTEST_XDIST_WORKER", "").removeprefix("gw"):
    first = 10_000 + int(worker) % 8 * 1_500
    os.environ["RUNSPINE_PORTS"] = f"{first}-{first + 1_499}"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """What imports and collection make stays, so garbage is not looked for in it, then or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_unconfigure() -> None:
    """Libraries report what is left at the end as leaked."""
    gc.unfreeze()


def pytest_collection_finish() -> None:
    """Programs are forked as long as their environment is the one in which the tests began."""
    if names := set_by_imports():
        raise pytest.UsageError(f"imports of tests set {sorted(names)}: name them in tests.kit.forks")


@pytest.fixture
def nats_server(tmp_path: Path) -> Iterator[NatsServer]:
    directory = tmp_path / "nats"
    directory.mkdir()
    server = NatsServer(directory)
    server.start()
    yield server
    server.stop()


@pytest.fixture(scope="session")
def s3_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    server = S3Server(tmp_path_factory.mktemp("s3"))
    server.start()
    yield server
    server.stop()


@dataclass
class Connected:
    link: NatsConnection
    publisher: Publisher
    log: JetStreamLog


@pytest.fixture
async def connect(nats_server: NatsServer) -> AsyncIterator[object]:
    """Open as many independent clients of the server as a test wants."""
    async with AsyncExitStack() as stack:

        async def open_client(name: str = "test", timeout: float = 10.0) -> Connected:
            link = await stack.enter_async_context(NatsConnection(NatsAccount(nats_server.url), name))
            publisher = await stack.enter_async_context(Publisher(link))
            return Connected(link, publisher, JetStreamLog(link, publisher, timeout=timeout))

        first = await open_client("bootstrap")
        await ensure_streams(first.link)
        yield open_client


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
