"""A worker writes to S3 by signatures alone: one object, once, with the bytes that its key names."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import json
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlunsplit

import pytest

from runspine.clock import now_micros
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.ids import new_ulid
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.upload_rights import LATE_MICROS, why_not
from runspine.services.artifacts.edges.upload_signer import UploadSigner
from runspine.services.worker.artifacts.signed_blobs import SignedFileBlobs, UploadSignatures
from runspine.settings import ServiceSettings
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.bucket_rights import SERVICES, S3Key, seaweed_identities
from runspine.storage.keys import artifact_key, checksum
from runspine.storage.minio_py import S3Error
from runspine.storage.s3_requests import NotSignedError
from runspine.wire.v1.artifacts_pb2 import CatalogRun
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.uploads_pb2 import SignUploadRequest
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.s3 import S3Server

ADMIN = S3Key("testing", "testing-secret")
KEYS = {name: S3Key(f"{name}-key", f"{name}-secret-key") for name in SERVICES}
RUN, ENDED = "01RUN", "01ENDED"


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[S3Server]:
    """S3 with the users of the services, each with its rights."""
    folder = tmp_path_factory.mktemp("guarded")
    identities = folder / "s3.json"
    identities.write_text(json.dumps(seaweed_identities("runspine", KEYS, ADMIN)))
    server = S3Server(folder, f"-s3.config={identities}")
    server.start()
    asyncio.run(server.ready())
    yield server
    server.stop()


def settings_of(server: S3Server, service: str) -> ServiceSettings:
    key = KEYS[service]
    given = {**server.settings().model_dump(), "s3_access_key": key.access, "s3_secret_key": key.secret}
    return ServiceSettings.model_validate(given)


def known() -> ArtifactCatalog:
    """A run with one attempt under way, and one that ended too long ago."""
    catalog = ArtifactCatalog()
    catalog.runs = {RUN: CatalogRun(), ENDED: CatalogRun()}
    for run in catalog.runs.values():
        run.run.attempt = 1
    catalog.runs[ENDED].run.phase = COMPLETED
    catalog.runs[ENDED].run.ended_at = now_micros() - LATE_MICROS - 1
    return catalog


class Uploader:
    """A worker with its read-only key, and the service that signs for it."""

    def __init__(self, server: S3Server, signatures: UploadSignatures) -> None:
        self.blobs = SignedFileBlobs(settings_of(server, "worker"), signatures)
        self.operator = ArtifactS3Blobs(server.settings())
        self.signatures = signatures

    async def store(self, path: Path, data: bytes, run_id: str = RUN, attempt: int = 1) -> str:
        path.write_bytes(data)
        digest = hashlib.sha256(data).hexdigest()
        await self.blobs.for_attempt(run_id, attempt).store(path, artifact_key(digest), digest)
        return artifact_key(digest)

    def forged(
        self, method: str, key: str, query: dict[str, str], signed: dict[str, str], body: bytes
    ) -> int:
        """Send a request with headers that were signed for another one; the status."""
        requests: Any = self.blobs._requests
        address = urlunsplit(requests._url(key, query))
        headers = {**signed, "Content-Length": str(len(body))}
        return int(requests._http.urlopen(method, address, body=body, headers=headers).status)


@pytest.fixture
async def uploader(nats_server: NatsServer, guarded: S3Server) -> AsyncIterator[Uploader]:
    async with (
        NatsConnection(NatsAccount(nats_server.url), "w1") as worker,
        NatsConnection(NatsAccount(nats_server.url), "artifacts") as service,
    ):
        signer = UploadSigner(service, known(), ArtifactS3Blobs(settings_of(guarded, "artifacts")))
        signing = asyncio.create_task(signer.run())
        # Of this test alone: all tests share the server.
        signatures = UploadSignatures(worker, new_ulid())
        async with signatures.open():
            made = Uploader(guarded, signatures)
            request = SignUploadRequest(run_id=RUN, attempt=1, key="none")
            async with asyncio.timeout(60):
                while "not the key" not in await refusal(made, request):
                    await asyncio.sleep(0.05)
            yield made
        signing.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await signing


async def refusal(uploader: Uploader, request: SignUploadRequest) -> str:
    """Why a request is not signed; empty when it is."""
    try:
        await asyncio.to_thread(uploader.signatures.ask, request)
    except NotSignedError as error:
        return str(error)
    return ""


def fresh(size: int = 1000) -> bytes:
    return (new_ulid().encode() * (size // 26 + 1))[:size]


async def test_a_worker_stores_small_and_large_files_without_a_key_that_writes(
    uploader: Uploader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SignedFileBlobs, "part_bytes", 5 << 20)
    for data in (b"", fresh(), fresh(11 << 20)):
        key = await uploader.store(tmp_path / "file", data)
        assert await uploader.operator.get(key) == data
        # Once more, as after a reply that was lost.
        assert await uploader.store(tmp_path / "file", data) == key
    assert await uploader.operator.abort_uploads("artifacts/") == 0


async def test_the_workers_own_key_writes_and_removes_no_artifact(uploader: Uploader, tmp_path: Path) -> None:
    key = await uploader.store(tmp_path / "file", fresh())
    with pytest.raises(BlobsUnavailableError, match=r"(?i)access denied"):
        await uploader.blobs.put(key, b"overwritten")
    with pytest.raises(BlobsUnavailableError, match=r"(?i)access denied"):
        await uploader.blobs.delete(key)
    with pytest.raises(S3Error, match=r"(?i)access denied"):
        uploader.blobs._requests.create_upload(key, {})


async def test_an_object_that_is_there_is_not_replaced(
    uploader: Uploader, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Neither in one request, nor in parts."""
    data = fresh()
    key = await uploader.store(tmp_path / "file", data)
    digest = hashlib.sha256(data).hexdigest()
    view: Any = uploader.blobs.for_attempt(RUN, 1)
    named = {"If-None-Match": "*", "x-amz-checksum-sha256": checksum(digest)}
    with pytest.raises(S3Error, match="condition"):
        await asyncio.to_thread(view._requests.put, key, data, named)
    upload = await asyncio.to_thread(view._requests.create_upload, key, {})
    etag = await asyncio.to_thread(view._requests.upload_part, key, upload, 1, b"overwritten")
    with pytest.raises(S3Error, match="condition"):
        await asyncio.to_thread(view._requests.complete_upload, key, upload, [etag], {"If-None-Match": "*"})
    await asyncio.to_thread(view._requests.abort_upload, key, upload)
    assert await uploader.operator.get(key) == data


async def test_a_signature_is_good_for_the_bytes_and_the_key_that_it_was_made_for(uploader: Uploader) -> None:
    data, other = fresh(), fresh()
    digest = hashlib.sha256(data).hexdigest()
    key = artifact_key(digest)
    headers = {"If-None-Match": "*", "x-amz-checksum-sha256": checksum(digest)}
    request = SignUploadRequest(run_id=RUN, attempt=1, key=key, method="PUT", payload=digest)
    request.headers.update(headers)
    signed = dict((await asyncio.to_thread(uploader.signatures.ask, request)).headers)

    def sent(body: bytes, key: str = key, query: dict[str, str] | None = None, method: str = "PUT") -> int:
        without = {k: v for k, v in signed.items() if k not in ("If-None-Match", "x-amz-checksum-sha256")}
        return max(
            uploader.forged(method, key, query or {}, headers, body)
            for headers in ((signed,) if body is data else (signed, without))
        )

    async def status(call: Callable[..., int], *arguments: Any) -> int:
        return await asyncio.to_thread(call, *arguments)

    assert await status(sent, other) in (400, 403)
    assert await status(sent, data, artifact_key(hashlib.sha256(other).hexdigest())) == 403
    assert await status(sent, data, key, {"uploads": ""}, "POST") == 403
    assert await status(sent, data, key, None, "DELETE") == 403
    copied = {**signed, "x-amz-copy-source": "/runspine/ready"}
    assert await status(uploader.forged, "PUT", key, {}, copied, b"") == 403
    assert await uploader.operator.get(key) is None
    assert await status(sent, data) == 200
    assert await uploader.operator.get(key) == data


async def test_a_damaged_object_makes_room_and_a_whole_one_does_not(
    uploader: Uploader, tmp_path: Path
) -> None:
    data = fresh()
    digest = hashlib.sha256(data).hexdigest()
    key = artifact_key(digest)
    await uploader.operator.put(key, b"damaged")
    assert await uploader.store(tmp_path / "file", data) == key
    assert await uploader.operator.get(key) == data
    request = SignUploadRequest(run_id=RUN, attempt=1, key=key, remove_damaged=True)
    assert await refusal(uploader, request) == ""
    assert await uploader.operator.get(key) == data


async def test_nothing_is_stored_for_an_attempt_that_is_not_on_the_log_or_is_long_over(
    uploader: Uploader, tmp_path: Path
) -> None:
    for run_id, attempt, why in (
        (RUN, 2, "not on the log"),
        ("01OTHER", 1, "not on the log"),
        (ENDED, 1, "ended"),
    ):
        with pytest.raises(BlobsUnavailableError, match=why):
            await uploader.store(tmp_path / "file", fresh(), run_id, attempt)


async def test_without_the_service_an_upload_waits(
    nats_server: NatsServer, guarded: S3Server, tmp_path: Path
) -> None:
    async with NatsConnection(NatsAccount(nats_server.url), "w1") as worker:
        signatures = UploadSignatures(worker, new_ulid())
        async with signatures.open():
            with pytest.raises(BlobsUnavailableError, match="artifacts service"):
                await Uploader(guarded, signatures).store(tmp_path / "file", fresh())


KEY = artifact_key("ab" * 32)
SUM = {"If-None-Match": "*", "x-amz-checksum-sha256": checksum("ab" * 32)}
# What is not part of an upload: method, key, query, headers.
REFUSED: list[tuple[str, str, dict[str, str], dict[str, str]]] = [
    ("DELETE", KEY, {}, {}),
    ("DELETE", KEY, {"uploadId": ""}, {}),
    ("GET", KEY, {}, {}),
    ("HEAD", KEY, {}, {}),
    ("PUT", KEY, {}, {}),
    ("PUT", KEY, {}, {"If-None-Match": "*"}),
    ("PUT", KEY, {}, {**SUM, "If-None-Match": '"x"'}),
    ("PUT", KEY, {}, {**SUM, "x-amz-checksum-sha256": checksum("cd" * 32)}),
    ("PUT", KEY, {}, {**SUM, "x-amz-copy-source": "/runspine/code/x"}),
    ("PUT", KEY, {}, {**SUM, "x-amz-acl": "public-read"}),
    ("PUT", KEY, {"acl": ""}, SUM),
    ("PUT", KEY, {"tagging": ""}, SUM),
    ("PUT", KEY, {"versionId": "1"}, SUM),
    ("PUT", KEY, {"partNumber": "1"}, SUM),
    ("POST", KEY, {"uploadId": "u"}, {}),
    ("POST", KEY, {"delete": ""}, {}),
    ("POST", "", {"delete": ""}, {}),
    ("GET", "", {"list-type": "2", "prefix": KEY}, {}),
    ("PUT", "artifacts/sha256/aa/" + "ab" * 32, {}, SUM),
    ("PUT", "artifacts/x", {}, SUM),
    ("PUT", f"{KEY}/../x", {}, SUM),
    ("PUT", f"{KEY}\n", {}, SUM),
    ("PUT", "trash/" + KEY.partition("/")[2], {}, SUM),
    ("PUT", "code/files/ab/" + "ab" * 32, {}, SUM),
    ("PUT", "snapshots/artifacts/x", {}, SUM),
    ("PUT", "anchors/x", {}, SUM),
    ("PUT", "telemetry/x", {}, SUM),
]


@pytest.mark.parametrize(("method", "key", "query", "headers"), REFUSED)
def test_what_is_no_upload_is_not_signed(
    method: str, key: str, query: dict[str, str], headers: dict[str, str]
) -> None:
    request = SignUploadRequest(run_id=RUN, attempt=1, key=key, method=method, payload="0" * 64)
    request.query.update(query)
    request.headers.update(headers)
    assert why_not(request, known(), now_micros())


def test_what_is_an_upload_is_signed() -> None:
    request = SignUploadRequest(run_id=RUN, attempt=1, key=KEY, method="PUT", payload="0" * 64, headers=SUM)
    assert why_not(request, known(), now_micros()) == ""
