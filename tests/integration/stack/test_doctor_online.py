"""`runspine doctor --online`: what is reached, through which proxy, and that no key is sent."""

from __future__ import annotations

import http.server
import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest

from runspine.cli import cli
from runspine.cli.errors import FAILED, OK, run
from runspine.doctor.online import PLACES, examine, probe
from tests.kit.servers.nats import free_port

KEYS = {"WANDB_API_KEY": "0123456789abcdef" * 3, "HF_TOKEN": "hf_0123456789abcdef"}
WANDB, HUB, INDEX = PLACES


class LocalService:
    """Answers HEAD, and as a proxy also for other hosts; keeps what it was asked, whole."""

    def __init__(self, status: int = 200) -> None:
        asked: list[str] = []

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_HEAD(self) -> None:
                asked.append(f"{self.requestline}\n{self.headers}")
                self.send_response(status)
                self.end_headers()

            def do_CONNECT(self) -> None:
                asked.append(f"{self.requestline}\n{self.headers}")
                self.send_response(status)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.asked = asked
        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"http://127.0.0.1:{self._server.server_port}"
        threading.Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


@contextmanager
def serving(status: int = 200) -> Iterator[LocalService]:
    service = LocalService(status)
    try:
        yield service
    finally:
        service.close()


def test_each_service_is_asked_once_and_without_a_key(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with serving() as service:
        for name, value in {
            **KEYS,
            "WANDB_BASE_URL": service.address,
            "HF_ENDPOINT": service.address,
            "PIP_INDEX_URL": service.address.replace("//", "//user:secret@") + "/simple/",
            "HTTP_PROXY": "",
            "http_proxy": "",
        }.items():
            monkeypatch.setenv(name, value)
        assert run(cli, ["doctor", "--online", "--json"]) == OK
        out = capsys.readouterr().out
        checks = json.loads(out)["checks"]
    assert [(check["name"], check["level"]) for check in checks] == [(p.name, "ok") for p in PLACES]
    assert sorted(asked.split()[0:2] for asked in service.asked) == [["HEAD", "/"]] * 2 + [
        ["HEAD", "/simple/"]
    ]
    sent = "".join(service.asked)
    assert "uthorization" not in sent
    assert not [value for value in (*KEYS.values(), "secret") if value in sent + out]


def test_wandb_goes_through_its_own_proxy_and_others_through_the_general_one() -> None:
    with serving() as own, serving() as general:
        variables = {
            "WANDB_BASE_URL": "http://wandb.example.org",
            "HF_ENDPOINT": "http://hub.example.org",
            "WANDB_VPN_HTTP_PROXY": own.address.replace("//", "//me:secret@"),
            "HTTP_PROXY": general.address,
        }
        wandb, hub = probe(WANDB, variables), probe(HUB, variables)
        assert (wandb.level, hub.level) == ("ok", "ok")
        assert "(WANDB_VPN_HTTP_PROXY)" in wandb.summary
        assert "secret" not in wandb.summary
        assert own.asked[0].startswith("HEAD http://wandb.example.org/ ")
        assert "Proxy-Authorization: Basic " in own.asked[0], "the proxy's own credentials"
        assert general.asked[0].startswith("HEAD http://hub.example.org/ ")
        excepted = {**variables, "HF_ENDPOINT": general.address, "NO_PROXY": "127.0.0.1", "HTTP_PROXY": "x:1"}
        assert probe(HUB, excepted).level == "ok", "a host in NO_PROXY is asked directly"


def test_https_is_tunnelled_and_a_proxy_that_wants_credentials_is_named() -> None:
    with serving(407) as proxy:
        found = probe(WANDB, {"HTTPS_PROXY": proxy.address, **KEYS})
        assert proxy.asked[0].startswith("CONNECT api.wandb.ai:443 ")
        assert not [key for key in KEYS.values() if key in proxy.asked[0]]
    assert found.level == "fail"
    assert "asks for a user and password" in found.summary
    assert "HTTPS_PROXY" in found.do
    with serving(403) as proxy:
        refused = probe(WANDB, {"HTTPS_PROXY": proxy.address})
    assert refused.level == "fail"
    assert "does not connect to api.wandb.ai" in refused.summary


@pytest.mark.parametrize(
    ("variables", "words"),
    [
        ({"HF_ENDPOINT": "ftp://x"}, "HF_ENDPOINT is not an address"),
        ({"HTTPS_PROXY": "http://x:notaport"}, "HTTPS_PROXY is not an address"),
        ({"HTTPS_PROXY": "socks5://127.0.0.1:1080"}, "SOCKS proxy"),
        ({"HF_ENDPOINT": f"http://127.0.0.1:{free_port()}"}, "refuses connections"),
        ({"HF_ENDPOINT": "http://no-such-host.invalid"}, "is not known"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(variables: dict[str, str], words: str) -> None:
    found = probe(HUB, variables)
    assert found.level == "fail"
    assert words in found.summary
    assert found.do


def test_a_server_that_does_not_answer_is_given_up_in_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runspine.doctor.online.ANSWER_SECONDS", 0.2)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        address = f"http://127.0.0.1:{silent.getsockname()[1]}"
        checks = list(examine({place.variable: address for place in PLACES}))
    assert [check.level for check in checks] == ["fail"] * 3
    assert all("does not answer within" in check.summary for check in checks)


def test_an_unreached_service_is_a_failure_of_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    with serving() as service:
        for place in PLACES:
            monkeypatch.setenv(place.variable, service.address)
        monkeypatch.setenv("NO_PROXY", "127.0.0.1")
        monkeypatch.setenv("HF_ENDPOINT", f"http://127.0.0.1:{free_port()}")
        assert run(cli, ["doctor", "--online"]) == FAILED
