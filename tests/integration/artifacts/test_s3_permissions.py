"""Who may do what in the bucket, asked of a real SeaweedFS: a service's own prefixes, and no others."""

from __future__ import annotations

import asyncio
import io
import json
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import urllib3
from minio import Minio
from minio.commonconfig import CopySource
from minio.deleteobjects import DeleteObject
from minio.error import S3Error

from runspine.settings import ServiceSettings
from runspine.storage.bucket_rights import SERVICES, S3Key, seaweed_identities
from runspine.storage.s3_requests import S3Requests
from tests.kit.servers.s3 import S3Server

BUCKET = "runspine"
ADMIN = S3Key("testing", "testing-secret")
KEYS = {name: S3Key(f"{name}-key", f"{name}-secret-key") for name in SERVICES}
PREFIXES = sorted({p for rights in SERVICES.values() for p in rights.prefixes() if p} | {"other/"})


class Guarded:
    """A server with the services' users, and an object under every prefix."""

    def __init__(self, server: S3Server) -> None:
        self.endpoint = f"127.0.0.1:{server.ports['s3']}"
        self.admin = self.client(ADMIN)
        for prefix in PREFIXES:
            self.admin.put_object(BUCKET, f"{prefix}x", io.BytesIO(b"precious"), 8)

    def client(self, key: S3Key) -> Minio:
        return Minio(
            self.endpoint, access_key=key.access, secret_key=key.secret, secure=False, region="us-east-1"
        )

    def requests(self, key: S3Key) -> S3Requests:
        settings = ServiceSettings(
            s3_endpoint=self.endpoint, s3_bucket=BUCKET, s3_access_key=key.access, s3_secret_key=key.secret
        )
        return S3Requests(settings, self.client(key), urllib3.PoolManager())

    def intact(self, prefix: str) -> bool:
        with self.admin.get_object(BUCKET, f"{prefix}x") as answer:
            return bool(answer.data == b"precious")


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    identities = folder / "s3.json"
    identities.write_text(json.dumps(seaweed_identities(BUCKET, KEYS, ADMIN)))
    server = S3Server(folder, f"-s3.config={identities}")
    server.start()
    try:
        asyncio.run(server.ready())
        yield Guarded(server)
    finally:
        server.stop()


def permitted(act: Callable[[], Any]) -> bool:
    try:
        act()
    except S3Error as error:
        if error.code != "AccessDenied":
            raise
        return False
    return True


@pytest.mark.parametrize("name", list(SERVICES))
def test_a_service_reaches_its_own_prefixes_and_no_others(guarded: Guarded, name: str) -> None:
    client, rights = guarded.client(KEYS[name]), SERVICES[name]
    for prefix in PREFIXES:
        mine = f"{prefix}by-{name}"
        found = {
            "get": permitted(lambda p=prefix: client.get_object(BUCKET, f"{p}x").close()),  # type: ignore[misc]
            "stat": permitted(lambda p=prefix: client.stat_object(BUCKET, f"{p}x")),  # type: ignore[misc]
            "put": permitted(lambda k=mine: client.put_object(BUCKET, k, io.BytesIO(b"a"), 1)),  # type: ignore[misc]
            "list": permitted(lambda p=prefix: list(client.list_objects(BUCKET, p, recursive=True))),  # type: ignore[misc]
        }
        reads, writes = prefix in rights.read, prefix in rights.write
        lists = "" in rights.list or prefix in rights.list
        assert found == {"get": reads, "stat": reads, "put": writes, "list": lists}, prefix
        # SeaweedFS has one word for writing and removing.
        assert permitted(lambda k=mine: client.remove_object(BUCKET, k)) == writes, prefix  # type: ignore[misc]


@pytest.mark.parametrize("name", list(SERVICES))
def test_there_is_no_way_round_to_a_foreign_object(guarded: Guarded, name: str) -> None:
    client, rights = guarded.client(KEYS[name]), SERVICES[name]
    requests = guarded.requests(KEYS[name])
    foreign = [prefix for prefix in PREFIXES if prefix not in rights.write]
    own = rights.write[0]
    for prefix in foreign:
        source = CopySource(BUCKET, f"{prefix}x")
        if prefix not in rights.read:
            assert not permitted(lambda s=source: client.copy_object(BUCKET, f"{own}stolen", s))  # type: ignore[misc]
        into = CopySource(BUCKET, f"{own}x")
        assert not permitted(lambda p=prefix, s=into: client.copy_object(BUCKET, f"{p}x", s))  # type: ignore[misc]
        assert not permitted(lambda p=prefix: requests.create_upload(f"{p}x", {}))  # type: ignore[misc]
    # A request to remove many answers for each of them.
    list(client.remove_objects(BUCKET, [DeleteObject(f"{prefix}x") for prefix in foreign]))
    assert [prefix for prefix in foreign if not guarded.intact(prefix)] == []


@pytest.mark.parametrize("name", list(SERVICES))
def test_no_service_may_change_the_bucket_or_make_another(guarded: Guarded, name: str) -> None:
    client = guarded.client(KEYS[name])
    assert not permitted(lambda: client.make_bucket(f"of-{name}"))
    assert not permitted(lambda: client.remove_bucket(BUCKET))
    assert not permitted(lambda: client.set_bucket_policy(BUCKET, "{}"))
    assert not permitted(lambda: client.delete_bucket_lifecycle(BUCKET))


def test_a_stranger_gets_nothing(guarded: Guarded) -> None:
    for key in (S3Key("worker-key", "wrong"), S3Key("nobody", "nothing")):
        client = guarded.client(key)
        with pytest.raises(S3Error, match=r"SignatureDoesNotMatch|InvalidAccessKeyId|AccessDenied"):
            client.stat_object(BUCKET, "artifacts/x")
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    with pytest.raises(urllib.error.HTTPError, match="403"):
        opener.open(f"http://{guarded.endpoint}/{BUCKET}/artifacts/x", timeout=10)
