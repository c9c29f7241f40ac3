"""Where witnesses go: a bucket with object lock and one without, a URL that answers and one that does not."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from minio.error import S3Error

from runspine.anchors.witnesses import StoredWitnesses
from runspine.anchors.writer import AnchorWriter
from runspine.eventlog import Version
from runspine.ids import new_ulid
from runspine.services.artifacts.settings import JanitorSettings
from runspine.storage.anchor_blobs import AnchorBlobs
from runspine.wire.v1.facts_pb2 import Fact, RunQueued
from tests.kit.servers.s3 import S3Server


class Receiver:
    """An HTTP server that keeps what is sent to it, or refuses it."""

    def __init__(self) -> None:
        self.heads: list[dict[str, Any]] = []
        self.status = 204
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                if receiver.status < 300:
                    receiver.heads.append(json.loads(body))
                self.send_response(receiver.status)
                self.end_headers()

            def log_message(self, *_: object) -> None: ...

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}/heads"


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    receiver = Receiver()
    thread = threading.Thread(target=receiver.server.serve_forever)
    thread.start()
    yield receiver
    receiver.server.shutdown()
    thread.join()
    receiver.server.server_close()


async def test_a_witness_is_locked_where_the_bucket_can_and_stored_where_it_cannot(
    s3_server: S3Server,
) -> None:
    await s3_server.ready()
    plain = AnchorBlobs(s3_server.settings(), lock_days=1)
    assert not await plain.put_locked("anchors/x", b"one")
    assert await plain.get("anchors/x") == b"one"

    bucket = f"locked-{new_ulid().lower()}"
    locked = AnchorBlobs(s3_server.settings(), bucket, lock_days=1)
    locked._client.make_bucket(bucket, object_lock=True)
    assert await locked.put_locked("anchors/x", b"one")
    [version] = locked._client.list_objects(bucket, "anchors/x", include_version=True)
    with pytest.raises(S3Error):
        locked._client.remove_object(bucket, "anchors/x", version_id=version.version_id)
    assert locked._client.get_object(bucket, "anchors/x", version_id=version.version_id).data == b"one"


async def test_each_new_head_is_posted_once_and_again_after_a_refusal(
    connect: Any, s3_server: S3Server, receiver: Receiver
) -> None:
    await s3_server.ready()
    log, series = (await connect("writer")).log, new_ulid()
    blobs = AnchorBlobs(s3_server.settings())
    writer = AnchorWriter(log, blobs, None, leads=lambda: True, seconds=60, series=series, url=receiver.url)
    await log.append("runs.a", [Fact(at=1, run_queued=RunQueued(attempt=1))], expected=Version())
    receiver.status = 503
    await writer.round()
    assert receiver.heads == []
    receiver.status = 204
    await writer.round()
    await writer.round()
    [head] = receiver.heads
    assert (head["stream"], head["size"], head["series"]) == ("RUNS", "1", series)
    # A URL that refuses does not keep S3 from being written.
    assert await StoredWitnesses(blobs, series).read_sizes("RUNS") == [1]


@pytest.mark.parametrize(
    ("name", "value", "what"),
    [
        ("ANCHOR_URL", "ftp://x", "is not a URL that begins with http"),
        ("ANCHOR_FILE", "/nowhere/at/all", "is not a file in a folder that exists"),
        ("ANCHOR_SECONDS", "0", "greater than 0"),
        ("ANCHOR_LOCK_DAYS", "-1", "greater than or equal to 0"),
        ("ANCHOR_SERIES", "a/b", "should match pattern"),
        ("ANCHOR_BUCKET", "A", "should match pattern"),
    ],
)
def test_a_wrong_setting_is_named(monkeypatch: pytest.MonkeyPatch, name: str, value: str, what: str) -> None:
    monkeypatch.setenv(f"RUNSPINE_{name}", value)
    with pytest.raises(SystemExit, match=f"RUNSPINE_{name}: .*{what}"):
        JanitorSettings.from_environment()
