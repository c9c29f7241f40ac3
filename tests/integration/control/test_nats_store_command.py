"""`runspine nats-store check`: what it prints, changes and returns."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.samples.nats_blocks import block_key, flipped, record


class Peer(BaseHTTPRequestHandler):
    """The monitoring port of a nats-server."""

    def do_GET(self) -> None:
        self.send_response(200 if self.server.healthy else 503)  # type: ignore[attr-defined]
        self.end_headers()
        healthy = self.server.healthy  # type: ignore[attr-defined]
        self.wfile.write(b'{"status":"ok"}' if healthy else b'{"status":"unavailable","error":"no leader"}')

    def log_message(self, *_: object) -> None:
        return


@pytest.fixture
def peer() -> Iterator[HTTPServer]:
    server = HTTPServer(("127.0.0.1", 0), Peer)
    server.healthy = True  # type: ignore[attr-defined]
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def store(tmp_path: Path) -> Path:
    """The store_dir of a server, with a damaged stream."""
    folder = tmp_path / "data" / "jetstream" / "RUNSPINE" / "streams" / "RUNS"
    (folder / "msgs").mkdir(parents=True)
    (folder / "meta.inf").write_text('{"name": "RUNS"}')
    data = b"".join(record(block_key(), number, b"fact") for number in range(1, 9))
    (folder / "msgs" / "1.blk").write_bytes(flipped(data, len(data) // 2))
    return tmp_path / "data"


def run(*words: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runspine", "nats-store", "check", *map(str, words)]
    return subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, timeout=120
    )


def url(peer: HTTPServer) -> str:
    return f"http://127.0.0.1:{peer.server_address[1]}"


def test_damage_is_named_and_nothing_is_changed(store: Path) -> None:
    done = run(store)
    assert done.returncode == 1, done.stderr
    assert "DAMAGED" in done.stdout
    assert "block 1, offset" in done.stdout
    assert [path.name for path in store.iterdir()] == ["jetstream"]


def test_a_damaged_store_is_set_aside_when_the_peers_are_healthy(store: Path, peer: HTTPServer) -> None:
    (store / "damaged-20200101T000000Z").mkdir()
    done = run(store, "--set-aside", "--peers", f"{url(peer)},{url(peer)}", "--json")
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout)
    assert found["whole"] is False
    [place] = store.iterdir()
    assert str(place) == found["set_aside"]
    assert place.name.startswith("damaged-2")
    assert list(place.rglob("1.blk"))
    assert run(store).returncode == 0


def test_two_damaged_servers_wait_for_an_operator(store: Path, peer: HTTPServer) -> None:
    peer.healthy = False  # type: ignore[attr-defined]
    done = run(store, "--set-aside", "--peers", url(peer), "--patience", "1")
    assert done.returncode == 3
    assert "no leader" in done.stderr
    assert "decide which store to keep" in done.stderr
    assert [path.name for path in store.iterdir()] == ["jetstream"]


def test_a_stream_that_no_other_server_has_is_never_set_aside(store: Path, peer: HTTPServer) -> None:
    [meta] = store.rglob("meta.inf")
    meta.write_text('{"name": "RUNS", "num_replicas": 1}')
    done = run(store, "--set-aside", "--peers", url(peer))
    assert done.returncode == 5
    assert "no other server has a copy of RUNS" in done.stderr
    assert [path.name for path in store.iterdir()] == ["jetstream"]


def test_a_store_without_peers_is_never_set_aside(store: Path) -> None:
    assert run(store, "--set-aside").returncode == 2


def test_a_folder_that_is_no_store_does_not_pass_for_a_whole_one(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0, "before the first start"
    (tmp_path / "lost+found").mkdir()
    assert run(tmp_path).returncode == 0, "a new volume"
    (tmp_path / "nats.conf").touch()
    done = run(tmp_path)
    assert done.returncode == 2
    assert "has no folder jetstream, but nats.conf" in done.stderr
