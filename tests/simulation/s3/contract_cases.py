"""What Runspine asks of S3, as cases that run on a real server and on the model alike.

The adapters of `runspine/storage` make the requests; each request is recorded with its answer, and both
servers must give the same ones.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

from minio.error import S3Error

from runspine.settings import ServiceSettings
from runspine.storage.artifact_blobs import ArtifactS3Blobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.file_blobs import FileBlobs, FileChangedError
from runspine.storage.ranged_blobs import RangedS3Blobs
from tests.simulation.s3.server import parse_request

SHOWN = ("content-range", "x-amz-meta-sha256")
PART = 5 << 20


class RecordedPool:
    """Passes requests on and keeps what was answered."""

    def __init__(self, pool: Any) -> None:
        self._pool = pool
        self.exchanges: list[tuple[Any, ...]] = []

    def urlopen(self, method: str, url: str, body: Any = None, headers: Any = None, **more: Any) -> Any:
        response = self._pool.urlopen(method, url, body=body, headers=headers, **more)
        request = parse_request(method, url, headers or {}, None)
        query = {name: "id" if name == "uploadId" else value for name, value in request.query.items()}
        shown = {name: response.headers[name] for name in SHOWN if name in response.headers}
        code = ""
        if response.status >= 400 and method != "HEAD":
            code = ElementTree.fromstring(response.data).findtext("{*}Code") or ""
        self.exchanges.append((method, request.key, sorted(query.items()), response.status, code, shown))
        return response

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


class Peer:
    """The three adapters on one server."""

    def __init__(self, settings: ServiceSettings, folder: Path) -> None:
        self.folder = folder
        self.ranged = RangedS3Blobs(settings)
        self.files = FileBlobs(settings)
        self.files.part_bytes = PART
        self.artifacts = ArtifactS3Blobs(settings)
        self.pools = [RecordedPool(each._client._http) for each in (self.ranged, self.files, self.artifacts)]
        for each, pool in zip((self.ranged, self.files, self.artifacts), self.pools, strict=True):
            recorded: Any = pool
            each._client._http = recorded
            each._requests._http = recorded

    @property
    def exchanges(self) -> list[tuple[Any, ...]]:
        return [exchange for pool in self.pools for exchange in pool.exchanges]

    def file(self, name: str, data: bytes) -> tuple[Path, str]:
        path = self.folder / name
        path.write_bytes(data)
        return path, hashlib.sha256(data).hexdigest()


Case = Callable[[Peer], Coroutine[Any, Any, list[Any]]]


async def objects(peer: Peer) -> list[Any]:
    """Stored, read, replaced, removed, listed."""
    blobs = peer.ranged
    await blobs.put("objects/a b", b"one")
    await blobs.put("objects/ü", b"two")
    found: list[Any] = [await blobs.get("objects/a b"), await blobs.stat("objects/a b")]
    await blobs.put("objects/a b", b"three")
    found += [await blobs.get("objects/a b"), await blobs.keys("objects/"), await blobs.keys("none/")]
    await blobs.delete("objects/a b")
    await blobs.delete("objects/a b")
    found += [await blobs.get("objects/a b"), await blobs.stat("objects/a b"), await blobs.keys("objects/")]
    return found


async def conditional_puts(peer: Peer) -> list[Any]:
    """The first writer of a key wins; the same bytes count as its own."""
    blobs = peer.ranged
    return [
        await blobs.put_new("new/1", b"mine"),
        await blobs.put_new("new/1", b"other"),
        await blobs.put_new("new/1", b"mine"),
        await blobs.get("new/1"),
    ]


async def ranges(peer: Peer) -> list[Any]:
    await peer.ranged.put("ranges/1", bytes(range(100)))
    found: list[Any] = [
        peer.ranged.read_range("ranges/1", start, length)
        for start, length in ((0, 10), (90, 10), (95, 50), (0, 0))
    ]
    found.append(peer.ranged.read_range("ranges/none", 0, 10))
    try:
        peer.ranged.read_range("ranges/1", 200, 10)
    except BlobsUnavailableError:
        found.append("refused")
    return found


async def files(peer: Peer) -> list[Any]:
    """A file under its digest: stored once, refused when it has changed."""
    path, digest = peer.file("small", b"checkpoint")
    found: list[Any] = [
        await peer.files.store(path, "files/a", digest),
        await peer.files.store(path, "files/a", digest),
        await peer.files.store(path, "files/a", digest, replace=True),
        await peer.files.digest("files/a") == digest,
        await peer.files.digest("files/none"),
    ]
    try:
        await peer.files.store(path, "files/b", "0" * 64)
    except FileChangedError:
        found.append("changed")
    target = peer.folder / "fetched"
    found += [await peer.files.get_file("files/a", target), target.read_bytes()]
    found.append(await peer.files.get_file("files/none", target))
    return found


async def parts(peer: Peer) -> list[Any]:
    """A large file in parts; one that was interrupted goes on with the parts that are there."""
    path, digest = peer.file("large", b"x" * PART + b"y" * PART + b"z")
    requests = peer.files._requests
    upload = requests.create_upload("parts/a", {"x-amz-meta-sha256": digest})
    requests.upload_part("parts/a", upload, 1, b"x" * PART)
    found: list[Any] = [sorted(requests.parts("parts/a", upload).items())]
    found.append([each.object_name for each in requests.uploads("parts/")])
    found.append(await peer.files.store(path, "parts/a", digest))
    found += [await peer.files.digest("parts/a") == digest, await peer.files.stat("parts/a")]
    found.append([each.object_name for each in requests.uploads("parts/")])
    requests.create_upload("parts/b", {})
    found += [await peer.files.abort_uploads("parts/"), await peer.files.abort_uploads("parts/")]
    for call in (lambda: requests.parts("parts/a", "none"), lambda: requests.abort_upload("parts/a", "none")):
        try:
            call()
        except S3Error as error:
            found.append(error.code)
        else:
            found.append("ok")
    return found


async def copies(peer: Peer) -> list[Any]:
    """Into the trash and back; fingerprints and lists of the artifacts service."""
    blobs = peer.artifacts
    await blobs.put("copies/a", b"bytes")
    found: list[Any] = [await blobs.copy("copies/a", "copies/b"), await blobs.copy("copies/none", "copies/c")]
    found.append(await blobs.fingerprint("copies/b", lambda _: 0.0))
    found.append(await blobs.fingerprint("copies/none", lambda _: 0.0))
    found.append([(each.key, each.size) for each in await blobs.listed("copies/")])
    return found


CASES: list[Case] = [objects, conditional_puts, ranges, files, parts, copies]
