"""`runspine serve bootstrap`: the bucket on a real S3 server; users as MinIO's admin API is asked for."""

from __future__ import annotations

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
import urllib3
from minio.crypto import decrypt, encrypt

from runspine.service.bootstrap import BootstrapSettings, make_users
from runspine.storage.bucket_rights import SERVICES, S3Key, iam_policy
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT
from tests.kit.servers.nats import free_port
from tests.kit.servers.s3 import S3Server

SECRET = "admin-secret-key"
KEYS = {name: S3Key(f"{name}-key", f"{name}-secret-key") for name in SERVICES}


def serve_bootstrap(**variables: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runspine", "serve", "bootstrap"]
    return subprocess.run(
        command, env=clean_environment(**variables), cwd=ROOT, capture_output=True, text=True, timeout=90
    )


def admin_of(server: S3Server) -> dict[str, str]:
    return {
        "RUNSPINE_S3_ENDPOINT": f"127.0.0.1:{server.ports['s3']}",
        "RUNSPINE_S3_ADMIN_ACCESS_KEY": "testing",
        "RUNSPINE_S3_ADMIN_SECRET_KEY": "testing-secret",
    }


def test_the_bucket_is_made_and_made_again_without_harm(s3_server: S3Server) -> None:
    wanted = {**admin_of(s3_server), "RUNSPINE_S3_USERS": "none", "RUNSPINE_S3_BUCKET": f"b{free_port()}"}
    for _ in range(2):
        done = serve_bootstrap(**wanted)
        assert done.returncode == 0, done.stderr
        assert "s3.ready" in done.stderr


def test_what_is_missing_or_away_is_named(s3_server: S3Server) -> None:
    done = serve_bootstrap(**admin_of(s3_server))
    assert done.returncode == 1
    assert "RUNSPINE_S3_ORCHESTRATOR_ACCESS_KEY" in done.stderr
    assert "`runspine secrets` makes them" in done.stderr
    nowhere = {
        **admin_of(s3_server),
        "RUNSPINE_S3_ENDPOINT": f"127.0.0.1:{free_port()}",
        "RUNSPINE_S3_USERS": "none",
        "RUNSPINE_BOOTSTRAP_SECONDS": "1",
    }
    done = serve_bootstrap(**nowhere)
    assert done.returncode == 1
    assert "no bucket after 1 s" in done.stderr.splitlines()[-1]


class AdminApi:
    """Answers as MinIO's admin API is documented to, and notes what it is asked. It is not MinIO:
    what it shows is that the requests are made, signed for the right user, and can be decrypted."""

    def __init__(self) -> None:
        self.policies: dict[str, Any] = {}
        self.users: dict[str, str] = {}
        self.attached: dict[str, list[str]] = {}

    def handle(self, path: str, query: dict[str, list[str]], body: bytes) -> tuple[int, bytes]:
        if path.endswith("/add-canned-policy"):
            self.policies[query["name"][0]] = json.loads(body)
        elif path.endswith("/add-user"):
            self.users[query["accessKey"][0]] = _opened(body)["secretKey"]
        elif path.endswith("/idp/builtin/policy/attach"):
            received = _opened(body)
            if self.attached.get(received["user"]) == received["policies"]:
                return 400, b'{"Code":"XMinioAdminPolicyChangeAlreadyApplied"}'
            self.attached[received["user"]] = received["policies"]
            return 200, encrypt(b"{}", SECRET)
        else:
            return 404, b"{}"
        return 200, b""


def _opened(body: bytes) -> dict[str, Any]:
    response = urllib3.HTTPResponse(body=io.BytesIO(body), preload_content=False)
    opened: dict[str, Any] = json.loads(decrypt(response, SECRET))
    return opened


@pytest.fixture
def minio_admin() -> Iterator[tuple[AdminApi, str]]:
    api = AdminApi()

    class Handler(BaseHTTPRequestHandler):
        def answer(self) -> None:
            parts = urlsplit(self.path)
            body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
            status, emitted = api.handle(parts.path, parse_qs(parts.query), body)
            self.send_response(status)
            self.send_header("Content-Length", str(len(emitted)))
            self.end_headers()
            self.wfile.write(emitted)

        do_PUT = do_POST = answer

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield api, f"127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_minio_is_asked_for_one_user_and_policy_per_service_as_often_as_you_like(
    minio_admin: tuple[AdminApi, str],
) -> None:
    api, endpoint = minio_admin
    settings = BootstrapSettings(
        s3_endpoint=endpoint, s3_admin_access_key="root", s3_admin_secret_key=SECRET, s3_bucket="b"
    )
    for _ in range(2):
        make_users(settings, KEYS)
    assert api.users == {key.access: key.secret for key in KEYS.values()}
    assert api.attached == {KEYS[name].access: [f"runspine-{name}"] for name in SERVICES}
    assert api.policies == {f"runspine-{name}": iam_policy("b", rights) for name, rights in SERVICES.items()}


def test_a_server_that_is_no_minio_is_named() -> None:
    settings = BootstrapSettings(
        s3_endpoint=f"127.0.0.1:{free_port()}", s3_admin_access_key="root", s3_admin_secret_key=SECRET
    )
    with pytest.raises(SystemExit, match=r"made no user for orchestrator"):
        make_users(settings, KEYS)
