"""What an S3 server answers to the requests that Runspine sends, as SeaweedFS 4 does.

Conditional puts, ranges, copies, lists and multipart uploads. An object that was not synced to the disk is
lost with the power: `lose_power` forgets it, or keeps its name and fails to read it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import formatdate
from random import Random
from urllib.parse import parse_qsl, quote, unquote, urlsplit
from xml.sax.saxutils import escape

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
ERRORS = {
    "NoSuchKey": (404, "The specified key does not exist."),
    "NoSuchBucket": (404, "The specified bucket does not exist"),
    "NoSuchUpload": (404, "The specified multipart upload does not exist."),
    "PreconditionFailed": (412, "At least one of the pre-conditions you specified did not hold"),
    "InternalError": (500, "We encountered an internal error, please try again."),
    "SlowDown": (503, "Please reduce your request rate."),
    "InvalidRange": (416, "The requested range is not satisfiable"),
    "InvalidPart": (400, "One or more of the specified parts could not be found."),
}


@dataclass(frozen=True, slots=True)
class Answer:
    """Status, headers and body."""

    status: int
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes = b""


@dataclass(slots=True)
class StoredObject:
    data: bytes
    modified: float
    etag: str
    meta: dict[str, str] = field(default_factory=dict)
    synced: bool = False
    # Its name is listed and its bytes cannot be read.
    unreadable: bool = False


@dataclass(slots=True)
class Upload:
    """A multipart upload under way."""

    key: str
    begun: float
    meta: dict[str, str]
    parts: dict[int, bytes] = field(default_factory=dict)


@dataclass(slots=True)
class Request:
    """One request, taken apart."""

    method: str
    bucket: str
    key: str
    query: dict[str, str]
    headers: dict[str, str]
    body: bytes


def parse_request(method: str, url: str, headers: Mapping[str, str], body: bytes | None) -> Request:
    parts = urlsplit(url)
    bucket, _, key = parts.path.lstrip("/").partition("/")
    query = dict(parse_qsl(parts.query, keep_blank_values=True))
    lower = {name.lower(): value for name, value in headers.items()}
    return Request(method, bucket, unquote(key), query, lower, bytes(body or b""))


def error(code: str, key: str = "") -> Answer:
    status, message = ERRORS[code]
    body = (
        f"<Error><Code>{code}</Code><Message>{message}</Message>"
        f"<Resource>/{escape(key)}</Resource><RequestId>1</RequestId></Error>"
    )
    return Answer(status, {"content-type": "application/xml"}, body.encode())


def document(body: str) -> Answer:
    return Answer(200, {"content-type": "application/xml"}, f'<?xml version="1.0"?>{body}'.encode())


class S3Model:
    """One bucket."""

    def __init__(self, wall: Callable[[], float], bucket: str = "runspine") -> None:
        self._wall = wall
        self._bucket = bucket
        self.objects: dict[str, StoredObject] = {}
        self.uploads: dict[str, Upload] = {}
        # Keys that lists do not show yet.
        self.unlisted: set[str] = set()
        self._upload_ids = 0

    def answer(self, request: Request) -> Answer:
        if request.bucket != self._bucket:
            return error("NoSuchBucket", request.bucket)
        if not request.key:
            return self._of_bucket(request)
        if "uploads" in request.query or "uploadId" in request.query:
            return self._multipart(request)
        if request.method == "PUT":
            copied = "x-amz-copy-source" in request.headers
            return self._copy(request) if copied else self._put(request)
        if request.method == "DELETE":
            self.objects.pop(request.key, None)
            return Answer(204)
        return self._get(request)

    def sync(self) -> None:
        """What is stored now outlives a loss of power."""
        for stored in self.objects.values():
            stored.synced = True

    def lose_power(self, chance: Random) -> int:
        """Objects that were not synced are lost, or cannot be read; how many."""
        lost = [key for key, stored in self.objects.items() if not stored.synced]
        for key in lost:
            if chance.random() < 0.3:
                self.objects[key].unreadable = True
            else:
                del self.objects[key]
        return len(lost)

    # Objects.

    def _put(self, request: Request) -> Answer:
        if request.headers.get("if-none-match") == "*" and request.key in self.objects:
            return error("PreconditionFailed", request.key)
        return self._store(request.key, request.body, _meta(request.headers))

    def _store(self, key: str, data: bytes, meta: dict[str, str], etag: str = "") -> Answer:
        etag = etag or hashlib.md5(data, usedforsecurity=False).hexdigest()
        self.objects[key] = StoredObject(data, self._wall(), etag, meta)
        return Answer(200, {"etag": f'"{etag}"'})

    def _get(self, request: Request) -> Answer:
        stored = self.objects.get(request.key)
        if stored is None:
            return error("NoSuchKey", request.key) if request.method == "GET" else Answer(404)
        headers = {
            "etag": f'"{stored.etag}"',
            "last-modified": formatdate(stored.modified, usegmt=True),
            "content-type": "application/octet-stream",
            "accept-ranges": "bytes",
            **stored.meta,
        }
        if request.method == "HEAD":
            return Answer(200, {**headers, "content-length": str(len(stored.data))})
        if stored.unreadable:
            return error("InternalError", request.key)
        given = request.headers.get("range")
        if given is None:
            return Answer(200, {**headers, "content-length": str(len(stored.data))}, stored.data)
        return _range(given, stored.data, headers, request.key)

    def _copy(self, request: Request) -> Answer:
        source = unquote(request.headers["x-amz-copy-source"]).lstrip("/").partition("/")[2]
        stored = self.objects.get(source)
        if stored is None:
            return error("NoSuchKey", source)
        if stored.unreadable:
            return error("InternalError", source)
        self._store(request.key, stored.data, stored.meta)
        copied = self.objects[request.key]
        when = _timestamp(copied.modified)
        return document(
            f'<CopyObjectResult xmlns="{NAMESPACE}"><ETag>"{copied.etag}"</ETag>'
            f"<LastModified>{when}</LastModified></CopyObjectResult>"
        )

    # Lists.

    def _of_bucket(self, request: Request) -> Answer:
        if request.method in ("HEAD", "PUT"):
            return Answer(200)
        if "location" in request.query:
            return document(f'<LocationConstraint xmlns="{NAMESPACE}"></LocationConstraint>')
        if "uploads" in request.query:
            return self._list_uploads(request)
        return self._list(request)

    def _list(self, request: Request) -> Answer:
        prefix = request.query.get("prefix", "")
        after = request.query.get("continuation-token") or request.query.get("start-after", "")
        most = int(request.query.get("max-keys", 1000))
        found = [
            key
            for key in sorted(self.objects)
            if key.startswith(prefix) and key > after and key not in self.unlisted
        ]
        page, more = found[:most], len(found) > most
        entries = "".join(
            f"<Contents><Key>{quote(key)}</Key><LastModified>{_timestamp(self.objects[key].modified)}"
            f'</LastModified><ETag>"{self.objects[key].etag}"</ETag>'
            f"<Size>{len(self.objects[key].data)}</Size><StorageClass>STANDARD</StorageClass></Contents>"
            for key in page
        )
        token = f"<NextContinuationToken>{quote(page[-1])}</NextContinuationToken>" if more else ""
        return document(
            f'<ListBucketResult xmlns="{NAMESPACE}"><Name>{self._bucket}</Name>'
            f"<Prefix>{quote(prefix)}</Prefix><KeyCount>{len(page)}</KeyCount><MaxKeys>{most}</MaxKeys>"
            f"<EncodingType>url</EncodingType><IsTruncated>{str(more).lower()}</IsTruncated>{token}{entries}"
            "</ListBucketResult>"
        )

    def _list_uploads(self, request: Request) -> Answer:
        prefix = request.query.get("prefix", "")
        entries = "".join(
            f"<Upload><Key>{quote(upload.key)}</Key><UploadId>{upload_id}</UploadId>"
            f"<Initiated>{_timestamp(upload.begun)}</Initiated></Upload>"
            for upload_id, upload in self.uploads.items()
            if upload.key.startswith(prefix)
        )
        return document(
            f'<ListMultipartUploadsResult xmlns="{NAMESPACE}"><EncodingType>url</EncodingType>'
            f"<IsTruncated>false</IsTruncated>{entries}</ListMultipartUploadsResult>"
        )

    # Uploads in parts.

    def _multipart(self, request: Request) -> Answer:
        if "uploads" in request.query:
            return self._begin(request)
        upload_id = request.query["uploadId"]
        upload = self.uploads.get(upload_id)
        if upload is None or upload.key != request.key:
            return error("NoSuchUpload", request.key)
        if request.method == "PUT":
            upload.parts[int(request.query["partNumber"])] = request.body
            return Answer(200, {"etag": f'"{_md5(request.body)}"'})
        if request.method == "GET":
            return self._list_parts(upload_id, upload)
        del self.uploads[upload_id]
        return self._complete(request.key, upload) if request.method == "POST" else Answer(204)

    def _begin(self, request: Request) -> Answer:
        self._upload_ids += 1
        upload_id = f"upload-{self._upload_ids:04}"
        self.uploads[upload_id] = Upload(request.key, self._wall(), _meta(request.headers))
        return document(
            f'<InitiateMultipartUploadResult xmlns="{NAMESPACE}"><Bucket>{self._bucket}</Bucket>'
            f"<Key>{escape(request.key)}</Key><UploadId>{upload_id}</UploadId>"
            "</InitiateMultipartUploadResult>"
        )

    def _list_parts(self, upload_id: str, upload: Upload) -> Answer:
        parts = "".join(
            f'<Part><PartNumber>{number}</PartNumber><ETag>"{_md5(data)}"</ETag>'
            f"<Size>{len(data)}</Size></Part>"
            for number, data in sorted(upload.parts.items())
        )
        return document(
            f'<ListPartsResult xmlns="{NAMESPACE}"><UploadId>{upload_id}</UploadId>'
            f"<IsTruncated>false</IsTruncated>{parts}</ListPartsResult>"
        )

    def _complete(self, key: str, upload: Upload) -> Answer:
        if not upload.parts:
            return error("InvalidPart", key)
        data = b"".join(upload.parts[number] for number in sorted(upload.parts))
        self._store(key, data, upload.meta, f"{_md5(data)}-{len(upload.parts)}")
        return document(
            f'<CompleteMultipartUploadResult xmlns="{NAMESPACE}"><Key>{escape(key)}</Key>'
            f'<ETag>"{self.objects[key].etag}"</ETag></CompleteMultipartUploadResult>'
        )


def _range(given: str, data: bytes, headers: dict[str, str], key: str) -> Answer:
    first, _, last = given.removeprefix("bytes=").partition("-")
    start, end = int(first), min(int(last) if last else len(data) - 1, len(data) - 1)
    if start >= len(data):
        refused = error("InvalidRange", key)
        return Answer(416, {**refused.headers, "content-range": f"bytes */{len(data)}"}, refused.body)
    part = data[start : end + 1]
    shown = {"content-range": f"bytes {start}-{end}/{len(data)}", "content-length": str(len(part))}
    return Answer(206, {**headers, **shown}, part)


def _meta(headers: dict[str, str]) -> dict[str, str]:
    return {name: value for name, value in headers.items() if name.startswith("x-amz-meta-")}


def _md5(data: bytes) -> str:
    return hashlib.md5(data, usedforsecurity=False).hexdigest()


def _timestamp(at: float) -> str:
    return datetime.fromtimestamp(at, UTC).strftime("%Y-%m-%dT%H:%M:%S.%f")[:-3] + "Z"
