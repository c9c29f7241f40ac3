"""Multipart requests that the minio client has no public method for: pages, errors and signatures."""

from __future__ import annotations

from typing import Any

import pytest
import urllib3
from minio import Minio
from minio.error import InvalidResponseError, S3Error

from runspine.settings import ServiceSettings
from runspine.storage.s3_requests import MultipartUpload, S3Requests, UploadedPart

NAMESPACE = 'xmlns="http://s3.amazonaws.com/doc/2006-03-01/"'


class Server(urllib3.PoolManager):
    """Replies with what a test has prepared, and keeps the requests."""

    def __init__(self) -> None:
        super().__init__()
        self.replies: list[tuple[int, str]] = []
        self.requests: list[tuple[str, str, dict[str, str]]] = []

    def urlopen(self, method: str, url: str, *_: Any, headers: Any = None, **__: Any) -> Any:  # type: ignore[override]
        self.requests.append((method, url, dict(headers)))
        status, body = self.replies.pop(0)
        return urllib3.HTTPResponse(body.encode(), {"content-type": "application/xml"}, status)


@pytest.fixture
def server() -> Server:
    return Server()


def requests(server: Server, access: str = "key") -> S3Requests:
    settings = ServiceSettings(s3_endpoint="127.0.0.1:8333", s3_access_key=access, s3_secret_key="secret")  # type: ignore[arg-type]
    client = Minio(
        settings.s3_endpoint,
        access_key=access or None,
        secret_key="secret" if access else None,
        secure=False,
        region="us-east-1",
    )
    return S3Requests(settings, client, server)


def test_an_upload_that_fails_with_status_200_is_an_error(server: Server) -> None:
    server.replies = [(200, "<Error><Code>InternalError</Code></Error>")]
    with pytest.raises(S3Error, match="InternalError"):
        requests(server).complete_upload("a/b", "id", ["etag"])


def test_parts_are_read_over_all_pages(server: Server) -> None:
    part = "<Part><PartNumber>{0}</PartNumber><ETag>&quot;e{0}&quot;</ETag><Size>5</Size></Part>"
    more = "<IsTruncated>true</IsTruncated><NextPartNumberMarker>1</NextPartNumberMarker>"
    server.replies = [
        (200, f"<ListPartsResult {NAMESPACE}>{part.format(1)}{more}</ListPartsResult>"),
        (200, f"<ListPartsResult>{part.format(2)}</ListPartsResult>"),
    ]
    assert requests(server).parts("a/b", "id") == {1: UploadedPart("e1", 5), 2: UploadedPart("e2", 5)}
    assert [("part-number-marker=1" in url) for _, url, _ in server.requests] == [False, True]


def test_names_of_uploads_are_decoded(server: Server) -> None:
    upload = "<Upload><Key>a/b%20c</Key><UploadId>u</UploadId></Upload>"
    server.replies = [(200, f"<R {NAMESPACE}><EncodingType>url</EncodingType>{upload}</R>")]
    assert requests(server).uploads("a/") == [MultipartUpload("a/b c", "u", None)]
    assert server.requests[0][1].startswith("http://127.0.0.1:8333/runspine?delimiter=&encoding-type=url")


def test_a_reply_that_is_no_s3_error_is_an_error_of_the_client(server: Server) -> None:
    server.replies = [(503, "")]
    with pytest.raises(InvalidResponseError):
        requests(server).put("a", b"data", {})


def test_requests_without_a_key_are_not_signed(server: Server) -> None:
    server.replies = [(200, ""), (200, "")]
    requests(server).put("a", b"data", {"If-None-Match": "*"})
    requests(server, access="").put("a", b"data", {})
    signed, anonymous = (headers for _, _, headers in server.requests)
    assert "if-none-match" in signed["Authorization"]
    assert "Authorization" not in anonymous
