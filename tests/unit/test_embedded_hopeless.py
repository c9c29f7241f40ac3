"""A part that says of itself that only a new start can mend it gets one, also before it was ready."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from runspine.embedded import keeper as keeper_module
from runspine.embedded.keeper import Event, Keeper
from runspine.embedded.part import Part, healthy_at
from tests.fixtures.nats import free_port

# Sick in its first life, well in the second.
SERVER = """
import http.server, pathlib, sys
port, mark, words = int(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
first = not mark.exists()
mark.touch()
class Health(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(503 if first else 200)
        self.end_headers()
        self.wfile.write(words.encode())
http.server.HTTPServer(("127.0.0.1", port), Health).serve_forever()
"""


def part(port: int, folder: Path, words: str) -> Part:
    health = f"http://127.0.0.1:{port}/healthz"
    return Part(
        name="sick",
        command=[sys.executable, "-c", SERVER, str(port), str(folder / "mark"), words],
        variables={},
        ready=healthy_at(health),
        health=health,
        ready_within=900.0,
        hopeless="write error",
    )


@pytest.mark.parametrize("words", ["stream BEATS write error: no space", "still reading its store"])
async def test_only_a_hopeless_part_is_started_anew_before_it_is_ready(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(keeper_module, "HEALTH_EVERY", 0.3)
    told: list[Event] = []
    keeper = Keeper(part(free_port(), tmp_path, words), tmp_path / "log", told.append)
    keeping = asyncio.create_task(keeper.keep())
    try:
        if "write error" in words:
            async with asyncio.timeout(60):
                while keeper.record.state != "ready":
                    await asyncio.sleep(0.05)
            assert keeper.record.restarts == 1
            assert [event.detail for event in told if event.what == "unhealthy"] == [f"503 {words}"]
        else:
            await asyncio.sleep(5)
            assert (keeper.record.state, keeper.record.restarts) == ("starting", 0)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await keeper.stop(asyncio.Event())
