"""The socket between a trainer's processes and the worker."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.services.worker.live.view_socket import SOCKET_NAME, ViewSocket


@pytest.fixture
def folder() -> Iterator[Path]:
    """With a short name: pytest's own are too long for a socket."""
    made = tempfile.mkdtemp(dir="/tmp")
    yield Path(made)
    shutil.rmtree(made)


async def nobody(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    writer.close()


async def test_the_socket_lies_in_the_runs_directory_for_its_owner_alone_and_goes_at_the_end(
    folder: Path,
) -> None:
    (folder / SOCKET_NAME).touch()
    place = ViewSocket(folder)
    await place.open(nobody, 1 << 16)
    assert place.path == folder / SOCKET_NAME
    assert place.path.stat().st_mode & 0o777 == 0o600
    reader, writer = await asyncio.open_unix_connection(place.path)
    assert await reader.read() == b""
    writer.close()
    await place.close()
    assert not place.path.exists()


async def test_a_path_too_long_for_a_socket_is_replaced_by_a_private_folder(folder: Path) -> None:
    deep = folder / ("x" * 100)
    deep.mkdir()
    place = ViewSocket(deep)
    await place.open(nobody, 1 << 16)
    assert place.path.parent.stat().st_mode & 0o777 == 0o700
    reader, writer = await asyncio.open_unix_connection(place.path)
    assert await reader.read() == b""
    writer.close()
    await place.close()
    assert not place.path.parent.exists()
