"""A part whose health requires a restart is restarted, also before it was ready."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import pytest

from runspine.embedded import part_supervisor
from runspine.embedded.part import PartEvent, StackPart, healthy_at
from runspine.embedded.part_supervisor import PartSupervisor
from tests.kit.servers.nats import free_port

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


def part(port: int, folder: Path, words: str) -> StackPart:
    health = f"http://127.0.0.1:{port}/healthz"
    return StackPart(
        name="sick",
        command=[sys.executable, "-c", SERVER, str(port), str(folder / "mark"), words],
        variables={},
        ready=healthy_at(health),
        health=health,
        ready_within=900.0,
        restart_on="write error",
    )


@pytest.mark.parametrize("words", ["stream BEATS write error: no space", "still reading its store"])
async def test_only_a_part_whose_health_requires_it_is_restarted_before_it_is_ready(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(part_supervisor, "HEALTH_SECONDS", 0.3)
    events: list[PartEvent] = []
    supervisor = PartSupervisor(part(free_port(), tmp_path, words), tmp_path / "log", events.append)
    keeping = asyncio.create_task(supervisor.run())
    try:
        if "write error" in words:
            async with asyncio.timeout(60):
                while supervisor.record.state != "ready":
                    await asyncio.sleep(0.05)
            assert supervisor.record.restarts == 1
            assert [event.detail for event in events if event.what == "unhealthy"] == [f"503 {words}"]
        else:
            await asyncio.sleep(5)
            assert (supervisor.record.state, supervisor.record.restarts) == ("starting", 0)
    finally:
        keeping.cancel()
        await asyncio.gather(keeping, return_exceptions=True)
        await supervisor.stop(asyncio.Event())
