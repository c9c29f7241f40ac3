"""A small server that speaks OpenAI's chat completions, with the test in the place of the model."""

from __future__ import annotations

import contextlib
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from tests.kit.player import WAY


class ChatRequest(NamedTuple):
    """What a client sent."""

    path: str
    key: str
    body: dict[str, Any]

    @property
    def question(self) -> str:
        return str(self.body["messages"][-1]["content"])


class ChatReply(NamedTuple):
    """A status that is no success, or a text in place of an answer."""

    status: int
    text: str
    headers: dict[str, str] = {}  # noqa: RUF012 - never changed


Model = Callable[[ChatRequest], str | ChatReply]


class ChatServer:
    """The server, and every request it got."""

    def __init__(self, model: Model) -> None:
        self.model = model
        self.requests: list[ChatRequest] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}/v1"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def _answer(self, request: ChatRequest) -> tuple[int, bytes, dict[str, str]]:
        self.requests.append(request)
        reply = self.model(request)
        if isinstance(reply, ChatReply):
            return reply.status, reply.text.encode(), reply.headers
        message = {"role": "assistant", "content": reply}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        body = {"object": "chat.completion", "model": request.body["model"], "choices": [choice]}
        return 200, json.dumps(body).encode(), {}

    def _handler(server: ChatServer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                key = self.headers.get("Authorization", "").removeprefix("Bearer ")
                request = ChatRequest(self.path, key, json.loads(self.rfile.read(length)))
                status, data, headers = server._answer(request)
                # A client that waits no longer has closed its end.
                with contextlib.suppress(BrokenPipeError, ConnectionResetError):
                    self.send_response(status)
                    for name, value in {"Content-Length": str(len(data)), **headers}.items():
                        self.send_header(name, value)
                    self.end_headers()
                    self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                """Keep the test's output clean."""

        return Handler


@contextmanager
def chat_server(model: Model) -> Iterator[ChatServer]:
    server = ChatServer(model)
    try:
        yield server
    finally:
        server.close()


def lake_walker(request: ChatRequest) -> str:
    """A model that knows the way over the frozen lake."""
    state = int(request.question.rpartition("observation is ")[2].partition(".")[0])
    return f"I choose {WAY[state]}."
