"""A receiver of webhooks that fails as often as a test wants, and keeps what it was sent."""

from __future__ import annotations

import json
import random
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Post:
    """One request. `accepted` is what the receiver did with it, `answered` whether it replied."""

    path: str
    headers: dict[str, str]
    body: bytes
    accepted: bool
    answered: bool = True

    @property
    def id(self) -> str:
        return self.headers["x-runspine-notice"]

    @property
    def content(self) -> Any:
        return json.loads(self.body)


@dataclass
class Receiver:
    """Half of the time it fails: with 503, by closing the connection, or after it has accepted."""

    failing: float = 0.0
    # Of what it accepts, the share for which the answer is lost.
    lost_answers: float = 0.0
    # Answers with this status instead of 200, such as a redirect.
    status: int = 200
    seed: int = 1
    posts: list[Post] = field(default_factory=list)

    def __enter__(self) -> Receiver:
        self._random = random.Random(self.seed)
        self._lock = threading.Lock()
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), self._handler())
        self._server.daemon_threads = True
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,), daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._server.server_address[1]}/hook"

    def accepted(self) -> list[Post]:
        """What it accepted, in order; repeated ones are there again."""
        with self._lock:
            return [post for post in self.posts if post.accepted]

    def accepted_ids(self) -> list[str]:
        """Each id once, in the order of its first acceptance."""
        return list(dict.fromkeys(post.id for post in self.accepted()))

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                headers = {name.lower(): value for name, value in self.headers.items()}
                status = receiver.take(self.path, headers, body)
                if status == 0:
                    self.connection.close()
                    return
                self.send_response(status)
                self.send_header("Location", "http://127.0.0.1:9/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                """Tests look at `posts`."""

        return Handler

    def take(self, path: str, headers: dict[str, str], body: bytes) -> int:
        """The status to answer with; 0 for none."""
        with self._lock:
            fails = self._random.random() < self.failing
            loses = self._random.random() < self.lost_answers
            accepted = not fails and 200 <= self.status < 300
            self.posts.append(Post(path, headers, body, accepted, not loses))
            if fails:
                return self._random.choice((503, 500, 0))
            return 0 if loses else self.status
