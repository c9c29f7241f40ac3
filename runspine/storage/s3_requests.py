"""S3 requests without a public method in the minio client: conditional puts, resumable multipart uploads.

The client builds the address of an object and signs; requests are sent through the same connections.
"""

from __future__ import annotations

import base64
import hashlib
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import NamedTuple
from urllib.parse import SplitResult, quote, unquote_plus, urlencode, urlsplit, urlunsplit
from xml.etree import ElementTree

import urllib3

from runspine.settings import ServiceSettings
from runspine.storage.keys import UNSIGNED
from runspine.storage.minio_py import (
    InvalidResponseError,
    Minio,
    MinioException,
    S3Error,
    ServerError,
    StaticProvider,
    sign_v4_s3,
)

NAMESPACE = "http://s3.amazonaws.com/doc/2006-03-01/"
REGION = "us-east-1"
# Entries on one page of a list.
PAGE = "1000"

Headers = Mapping[str, str]
# Signs for others: method, key, query, headers and the SHA-256 of the body; the headers to send.
Signer = Callable[[str, str, Mapping[str, str], Headers, str], Mapping[str, str]]


class NotSignedError(MinioException):
    """Who signs the requests does not sign this one, or does not answer."""


class UploadedPart(NamedTuple):
    """A part that the server has."""

    etag: str
    size: int | None


class MultipartUpload(NamedTuple):
    """A multipart upload that was created and neither completed nor aborted."""

    object_name: str
    upload_id: str
    begun: datetime | None


class S3Requests:
    """Requests to one bucket. Raises the errors of the minio client.

    With a signer, every request is signed by it, and the own key is not used.
    """

    def __init__(
        self,
        settings: ServiceSettings,
        client: Minio,
        http: urllib3.PoolManager,
        signer: Signer | None = None,
    ) -> None:
        self._signer = signer
        self._bucket = settings.s3_bucket
        self._client = client
        self._http = http
        access, secret = settings.s3_access_key, settings.s3_secret_key.get_secret_value()
        # Without a key requests are anonymous, as the client's own are.
        self._credentials = StaticProvider(access, secret).retrieve() if access else None

    def put(self, key: str, data: bytes, headers: Headers) -> None:
        """Store an object in one request, with headers of its own such as a condition."""
        self._send("PUT", key, {}, data, headers)

    def create_upload(self, key: str, headers: Headers) -> str:
        """Create a multipart upload and return its id."""
        headers = {"Content-Type": "application/octet-stream", **headers}
        answer = self._send("POST", key, {"uploads": ""}, None, headers)
        return _text(ElementTree.fromstring(answer), "UploadId")

    def upload_part(self, key: str, upload_id: str, number: int, data: bytes) -> str:
        """Upload one part and return its ETag."""
        response = self._request("PUT", key, {"partNumber": str(number), "uploadId": upload_id}, data, {})
        return response.headers.get("etag", "").replace('"', "")

    def complete_upload(
        self, key: str, upload_id: str, etags: Sequence[str], headers: Headers | None = None
    ) -> None:
        """Make an object of the parts, numbered from 1; the headers may hold a condition."""
        document = ElementTree.Element("CompleteMultipartUpload", xmlns=NAMESPACE)
        for number, etag in enumerate(etags, 1):
            part = ElementTree.SubElement(document, "Part")
            ElementTree.SubElement(part, "PartNumber").text = str(number)
            ElementTree.SubElement(part, "ETag").text = f'"{etag}"'
        body = ElementTree.tostring(document)
        headers = {"Content-Type": "application/xml", "Content-MD5": _md5(body), **(headers or {})}
        response = self._request("POST", key, {"uploadId": upload_id}, body, headers)
        # A server that has begun to reply reports a failure with status 200 and an error in the body.
        if ElementTree.fromstring(response.data).tag.endswith("Error"):
            raise S3Error.fromxml(response)

    def abort_upload(self, key: str, upload_id: str) -> None:
        """Remove a multipart upload and its parts."""
        self._send("DELETE", key, {"uploadId": upload_id})

    def parts(self, key: str, upload_id: str) -> dict[int, UploadedPart]:
        """The parts of an upload by their numbers."""
        found: dict[int, UploadedPart] = {}
        query = {"uploadId": upload_id, "max-parts": PAGE}
        while True:
            page = ElementTree.fromstring(self._send("GET", key, query))
            parts = page.findall("{*}Part")
            for part in parts:
                size = _text(part, "Size")
                etag = _text(part, "ETag").replace('"', "")
                found[int(_text(part, "PartNumber"))] = UploadedPart(etag, int(size) if size else None)
            if not _is_truncated(page) or not parts:
                return found
            query["part-number-marker"] = _text(page, "NextPartNumberMarker")

    def uploads(self, prefix: str) -> list[MultipartUpload]:
        """Open multipart uploads of keys that begin with the prefix."""
        found: list[MultipartUpload] = []
        query = {
            "uploads": "",
            "delimiter": "",
            "max-uploads": PAGE,
            "prefix": prefix,
            "encoding-type": "url",
        }
        while True:
            page = ElementTree.fromstring(self._send("GET", "", query))
            encoded = _text(page, "EncodingType") == "url"
            entries = page.findall("{*}Upload")
            for entry in entries:
                name, begun = _text(entry, "Key"), _text(entry, "Initiated")
                found.append(
                    MultipartUpload(
                        unquote_plus(name) if encoded else name,
                        _text(entry, "UploadId"),
                        datetime.fromisoformat(begun) if begun else None,
                    )
                )
            if not _is_truncated(page) or not entries:
                return found
            marker = _text(page, "NextKeyMarker")
            query["key-marker"] = unquote_plus(marker) if encoded else marker

    def _send(
        self,
        method: str,
        key: str,
        query: Mapping[str, str],
        body: bytes | None = None,
        headers: Headers | None = None,
    ) -> bytes:
        return self._request(method, key, query, body, headers or {}).data

    def _request(
        self, method: str, key: str, query: Mapping[str, str], body: bytes | None, headers: Headers
    ) -> urllib3.BaseHTTPResponse:
        url = self._url(key, query)
        signed = (
            self._signed(method, url, body, headers)
            if self._signer is None
            else self._foreign(self._signer, method, key, query, body, headers)
        )
        response = self._http.urlopen(method, urlunsplit(url), body=body, headers=signed)
        if response.status not in (200, 204, 206):
            raise _error(response)
        return response

    def sign(
        self, method: str, key: str, query: Mapping[str, str], headers: Headers, payload: str
    ) -> dict[str, str]:
        """The headers of a request that somebody else sends, with the signature of the own key."""
        return self._with_signature(method, self._url(key, query), headers, payload)

    @staticmethod
    def _foreign(
        signer: Signer, method: str, key: str, query: Mapping[str, str], body: bytes | None, headers: Headers
    ) -> dict[str, str]:
        full = {**headers, **({"Content-Length": str(len(body))} if body else {})}
        return dict(signer(method, key, query, full, hashlib.sha256(body or b"").hexdigest()))

    def _url(self, key: str, query: Mapping[str, str]) -> SplitResult:
        """The address that the client uses for an object, or for the bucket when the key is empty."""
        url = urlsplit(self._client.get_presigned_url("GET", self._bucket, key or "x"))
        path = url.path if key else url.path.removesuffix("x").rstrip("/") or "/"
        return url._replace(path=path, query=urlencode(sorted(query.items()), safe="~", quote_via=quote))

    def _signed(self, method: str, url: SplitResult, body: bytes | None, headers: Headers) -> dict[str, str]:
        full = {"Content-Length": str(len(body))} if body else {}
        plain = self._credentials is not None and url.scheme != "https"
        if body is not None and not plain:
            full["Content-MD5"] = _md5(body)
        # TLS protects the body; without it the signature does.
        payload = hashlib.sha256(body or b"").hexdigest() if plain else UNSIGNED
        return self._with_signature(method, url, full | dict(headers), payload)

    def _with_signature(
        self, method: str, url: SplitResult, headers: Headers, payload: str
    ) -> dict[str, str]:
        date = datetime.now(UTC)
        full = {"Host": url.netloc, "User-Agent": "runspine", "x-amz-date": date.strftime("%Y%m%dT%H%M%SZ")}
        full |= headers
        if self._credentials is None:
            return full
        full["x-amz-content-sha256"] = payload
        signed = sign_v4_s3(
            method=method,
            url=url,
            region=REGION,
            headers=dict(full),
            credentials=self._credentials,
            content_sha256=payload,
            date=date,
        )
        return {**full, "Authorization": str(signed["Authorization"])}


def _error(response: urllib3.BaseHTTPResponse) -> Exception:
    kind = response.headers.get("content-type", "")
    if "application/xml" in kind.split(";") and response.data:
        return S3Error.fromxml(response)
    if response.status == 304 and not response.data:
        return ServerError("server failed with HTTP status code 304", 304)
    return InvalidResponseError(response.status, kind, response.data.decode() if response.data else None)


def _md5(data: bytes) -> str:
    return base64.b64encode(hashlib.md5(data, usedforsecurity=False).digest()).decode()


def _text(element: ElementTree.Element, name: str) -> str:
    """The text of a child in any namespace; empty when there is none."""
    return element.findtext(f"{{*}}{name}") or ""


def _is_truncated(page: ElementTree.Element) -> bool:
    return _text(page, "IsTruncated").lower() == "true"
