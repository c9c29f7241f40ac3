"""Which requests to S3 the artifacts service signs for a worker. Pure.

An object is named by its digest. A worker may create it and not replace it; S3 compares what it gets with the
digest, where it is sent in one request. What is sent in parts is compared when it is indexed.
"""

from __future__ import annotations

from runspine.domain.run.evolve import ENDED
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.storage.keys import UNSIGNED, artifact_key, checksum, digest_in
from runspine.wire.v1.uploads_pb2 import SignUploadRequest

# Uploads go on after the end of a run, also after an outage of S3; for this long.
LATE_MICROS = 24 * 3600 * 1_000_000
CHECKSUM, CONDITION = "x-amz-checksum-sha256", "if-none-match"
HEADERS = {"content-type", "content-md5", "content-length", "x-amz-meta-sha256", CHECKSUM, CONDITION}
# The query of each request, by method. A DELETE without an upload would remove the object.
QUERIES: dict[str, tuple[set[str], ...]] = {
    "PUT": (set(), {"partNumber", "uploadId"}),
    "POST": ({"uploads"}, {"uploadId"}),
    "DELETE": ({"uploadId"},),
    "GET": ({"uploadId", "max-parts"}, {"uploadId", "max-parts", "part-number-marker"}),
}
LIST = {"uploads", "delimiter", "max-uploads", "prefix", "encoding-type"}
HEX = set("0123456789abcdef")


def why_not(request: SignUploadRequest, catalog: ArtifactCatalog, now: int) -> str:
    """Why a request is not signed; empty when it is."""
    return _attempt_refused(request, catalog, now) or _request_refused(request)


def _attempt_refused(request: SignUploadRequest, catalog: ArtifactCatalog, now: int) -> str:
    known = catalog.runs.get(request.run_id)
    if known is None or not 1 <= request.attempt <= known.run.attempt:
        return f"attempt {request.attempt} of {request.run_id} is not on the log, or not read yet"
    if known.run.phase in ENDED and now - known.run.ended_at > LATE_MICROS:
        return f"{request.run_id} ended more than a day ago"
    return ""


def _request_refused(request: SignUploadRequest) -> str:
    query = set(request.query)
    if not request.key:
        listed = request.method == "GET" and query - {"key-marker"} == LIST
        return "" if listed and is_artifact(request.query["prefix"]) else "only uploads of one key are listed"
    if not is_artifact(request.key):
        return f"{request.key[:100]} is not the key of an artifact"
    if request.remove_damaged:
        return ""
    if query not in QUERIES.get(request.method, ()) or not all(
        value for name, value in request.query.items() if name != "uploads"
    ):
        return f"{request.method} with {sorted(query)} is no part of an upload"
    headers = {name.lower(): value for name, value in request.headers.items()}
    if foreign := headers.keys() - HEADERS:
        return f"the header {min(foreign)} is not sent with uploads"
    if request.payload != UNSIGNED and (len(request.payload) != 64 or not HEX.issuperset(request.payload)):
        return "the payload is not a SHA-256"
    creates = (request.method, query) in (("PUT", set()), ("POST", {"uploadId"}))
    if creates and headers.get(CONDITION) != "*":
        return "an object is created, and not replaced"
    whole = request.method == "PUT" and not query
    if whole and headers.get(CHECKSUM) != checksum(digest_in(request.key)):
        return "the checksum is not that of the key"
    return ""


def is_artifact(key: str) -> bool:
    """Whether the key is one of an artifact, in its only form."""
    return bool(digest_in(key)) and key == artifact_key(digest_in(key))
