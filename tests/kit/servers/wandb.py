"""A small server in the place of W&B's: takes a run, its history and its files, and keeps what it got."""

from __future__ import annotations

import gzip
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

ENTITY = "lab"


class WandbServer:
    """The server, the names of the runs it was given, and the files uploaded to it."""

    def __init__(self) -> None:
        self.runs: list[str] = []
        self.files: dict[str, bytes] = {}
        # Lines of history, of all runs.
        self.history: list[dict[str, Any]] = []
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        # wandb closes its connections without a word.
        self._server.handle_error = lambda *_: None  # type: ignore[method-assign]
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_port}"

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """Answer a question in GraphQL."""
        query, variables = request["query"], request.get("variables") or {}
        if "upsertBucket" in query:
            self.runs.append(variables["name"])
            project = {"id": "p", "name": variables["project"], "entity": {"id": "e", "name": ENTITY}}
            bucket = {"id": "b", "name": variables["name"], "config": "{}", "historyLineCount": 0}
            return {"upsertBucket": {"inserted": True, "bucket": {**bucket, "project": project}}}
        if "createRunFiles" in query:
            files = [{"name": n, "uploadUrl": f"{self.url}/storage/{n}"} for n in variables["files"]]
            return {"createRunFiles": {"runID": "b", "uploadHeaders": [], "files": files}}
        return {}

    def take_stream(self, content: dict[str, Any]) -> None:
        lines = content.get("files", {}).get("wandb-history.jsonl", {}).get("content", [])
        self.history += [json.loads(line) for line in lines]

    def _handler(server: WandbServer) -> type[BaseHTTPRequestHandler]:
        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def do_POST(self) -> None:
                body = self._body()
                if self.path.endswith("/graphql"):
                    self._reply({"data": server.answer(json.loads(body))})
                    return
                if self.path.endswith("/file_stream"):
                    server.take_stream(json.loads(body))
                self._reply({})

            def do_PUT(self) -> None:
                server.files[self.path.removeprefix("/storage/")] = self._body()
                self._reply({})

            def _body(self) -> bytes:
                data = self.rfile.read(int(self.headers.get("Content-Length") or 0))
                return gzip.decompress(data) if self.headers.get("Content-Encoding") == "gzip" else data

            def _reply(self, fields: dict[str, Any]) -> None:
                data = json.dumps(fields).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


@contextmanager
def wandb_server() -> Iterator[WandbServer]:
    server = WandbServer()
    try:
        yield server
    finally:
        server.close()
