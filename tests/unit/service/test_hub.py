"""The sink for the Hugging Face Hub, up to the client's boundary: a local server stands for the Hub here."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
import yaml

from runspine.checkpoints.hub import HubUpload, model_card, send
from runspine.errors import DeniedError, InvalidError, UnreachableError

pytest.importorskip("huggingface_hub")

SECRET = "hf_thisIsNotARealToken"
ABOUT = {
    "digest": "ab" * 32, "env": "CartPole-v1", "algo": "ppo", "runner": "builtin", "seed": 3, "step": 500,
    "mean": 481.25, "std": 20.5, "episodes": 50, "run": "01M7HFYRSDHBH7GDMFY05YEKTW",
}  # fmt: skip


class HubStandIn(BaseHTTPRequestHandler):
    """Replies as the Hub would to a commit of small files, and keeps the requests it received."""

    server: Any

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        self.server.received_so_far.append((self.path, self.headers.get("authorization"), body))
        if self.server.status != 200:
            self._answer({"error": "no"}, self.server.status)
        elif self.path == "/api/repos/create":
            self._answer({"url": f"{self.server.url}/lab/cartpole"})
        elif "/preupload/" in self.path:
            files = json.loads(body)["files"]
            modes = [{"path": each["path"], "uploadMode": "regular", "shouldIgnore": False} for each in files]
            self._answer({"files": modes})
        else:
            commit = f"{self.server.url}/lab/cartpole/commit/1234"
            self._answer({"success": True, "commitOid": "1234", "commitUrl": commit, "pullRequestUrl": None})

    def do_GET(self) -> None:
        self._answer({"sha": "0" * 40, "id": "lab/cartpole"})

    def _answer(self, value: Any, status: int = 200) -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, *_: Any) -> None: ...


@pytest.fixture
def stand_in(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    server: Any = ThreadingHTTPServer(("127.0.0.1", 0), HubStandIn)
    server.received_so_far, server.status, server.url = [], 200, f"http://127.0.0.1:{server.server_port}"
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("HF_TOKEN", SECRET)
    monkeypatch.setenv("HF_ENDPOINT", server.url)
    yield server
    server.shutdown()
    server.server_close()


@pytest.fixture
def upload(tmp_path: Path) -> HubUpload:
    path = tmp_path / "checkpoint"
    path.write_bytes(b"weights" * 100)
    return HubUpload(path, "step-500.pt", ABOUT)


def test_a_checkpoint_is_committed_with_its_card_and_the_token_of_the_environment(
    stand_in: Any, upload: HubUpload
) -> None:
    assert send(upload, "lab/cartpole") == f"{stand_in.url}/lab/cartpole/commit/1234"
    assert {token for _, token, _ in stand_in.received_so_far} == {f"Bearer {SECRET}"}
    path, _, body = stand_in.received_so_far[-1]
    assert path == "/api/models/lab/cartpole/commit/main"
    lines = [json.loads(line)["value"] for line in body.splitlines()]
    sent = {line["path"]: base64.b64decode(line["content"]) for line in lines if "path" in line}
    assert sent["step-500.pt"] == b"weights" * 100
    assert json.loads(sent["runspine.json"]) == ABOUT
    assert sent["README.md"].decode() == model_card(ABOUT)
    assert SECRET.encode() not in body


def test_the_card_has_the_metadata_that_the_hub_sorts_by() -> None:
    _, front, text = model_card(ABOUT).split("---\n")
    received = yaml.safe_load(front)
    assert received["tags"] == ["reinforcement-learning", "CartPole-v1", "ppo"]
    (result,) = received["model-index"][0]["results"]
    assert result["dataset"]["name"] == "CartPole-v1"
    assert result["metrics"][0]["value"] == "481.25 +/- 20.50"
    assert "481.25 ± 20.5 over 50 episodes" in text
    assert "model-index" not in yaml.safe_load(model_card({"env": 'a": b', "algo": "x"}).split("---\n")[1])


def test_without_a_token_nothing_is_sent(
    stand_in: Any, upload: HubUpload, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("HF_TOKEN")
    with pytest.raises(DeniedError, match="HF_TOKEN is not set"):
        send(upload, "lab/cartpole")
    assert stand_in.received_so_far == []


@pytest.mark.parametrize(
    ("status", "kind", "why"), [(403, DeniedError, "does not let"), (400, Exception, "refused the upload")]
)
def test_a_refusal_is_reported_without_the_token(
    stand_in: Any, upload: HubUpload, status: int, kind: type[Exception], why: str
) -> None:
    stand_in.status = status
    with pytest.raises(kind, match=why) as refused:
        send(upload, "lab/cartpole")
    assert SECRET not in str(refused.value)


def test_an_unreachable_hub_and_an_invalid_name_are_different_errors(
    upload: HubUpload, stand_in: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InvalidError, match="--repo"):
        send(upload, "not a name")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    with pytest.raises(UnreachableError, match=r"127\.0\.0\.1:9 does not answer"):
        send(upload, "lab/cartpole")
