"""Requests of simulated processes to the model of S3, and what can happen to them on the way.

A request runs in a thread of its process. It may be slow, be refused, be answered with an error, or lose its
reply after it took effect; its process may be killed before or after it.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cached_property, partial
from random import Random
from typing import Any
from unittest.mock import patch

import urllib3
from urllib3.exceptions import MaxRetryError, NewConnectionError, ProtocolError

from tests.simulation.loop import NODE, ProcessKilledError
from tests.simulation.s3.server import Answer, Request, S3Model, error, parse_request

USUAL_SECONDS = (0.001, 0.02)
SLOW_SECONDS = (0.3, 6.0)
# A server that has just started fails to find or to read some of what it has.
WARMING_SHARE = 0.3
FAILING_SHARE = 0.7
LOST_SHARE = 0.5
IDEMPOTENT = ("GET", "HEAD", "PUT", "DELETE")


class LostReplyError(Exception):
    """The request took effect, and its reply did not arrive."""


class S3Link:
    """The way from all processes to one S3 server, with the faults of both."""

    def __init__(self, model: S3Model, chance: Random, world: Any) -> None:
        self.model = model
        self._chance = chance
        self._world = world
        self.down = False
        self.failing = False
        self.slow = False
        self.losing = False
        self.warming = False
        self.healed = False
        # Kill this process at one of its next requests: its name, how many to let through, what follows.
        self.trap: tuple[str, int, Callable[[], None]] | None = None

    def heal(self) -> None:
        """Everything works from now on, whatever faults are still to come."""
        self.healed = True

    def send(self, request: Request) -> Answer:
        """One try of a request."""
        self._world.loop.slept += self._chance.uniform(*(SLOW_SECONDS if self.slow else USUAL_SECONDS))
        self._world.loop.note(f"s3 {NODE.get()} {request.method} {request.key}")
        if self.healed:
            return self.model.answer(request)
        after = self._sprung()
        if self.down:
            raise ConnectionRefusedError
        trouble = self._trouble(request)
        answer = trouble or self.model.answer(request)
        if trouble:
            self._world.reach(f"s3.{answer.status}")
        if after:
            raise ProcessKilledError
        if self.losing and self._chance.random() < LOST_SHARE:
            self._world.reach("s3.reply_lost")
            raise LostReplyError
        return answer

    def _trouble(self, request: Request) -> Answer | None:
        if self.failing and self._chance.random() < FAILING_SHARE:
            return error(self._chance.choice(("SlowDown", "InternalError")), request.key)
        reads = request.method in ("GET", "HEAD") and request.key
        if self.warming and reads and self._chance.random() < WARMING_SHARE:
            self._world.reach("s3.not_found_yet")
            missing = Answer(404) if request.method == "HEAD" else error("NoSuchKey", request.key)
            return missing if self._chance.random() < 0.5 else error("InternalError", request.key)
        return None

    def _sprung(self) -> bool:
        """Whether this request is the last of its process; it takes effect, or does not."""
        if self.trap is None or self.trap[0] != NODE.get().name:
            return False
        name, left, kill = self.trap
        if left:
            self.trap = (name, left - 1, kill)
            return False
        self.trap = None
        kill()
        self._world.reach("s3.process_killed_at_a_request")
        if self._chance.random() < 0.5:
            raise ProcessKilledError
        return True


class SimulatedPool(urllib3.PoolManager):
    """In the place of urllib3.PoolManager: a failed request is sent once more, as `Retry(total=1)` does."""

    send: Callable[[Request], Answer]

    def __init__(self, *_: Any, **__: Any) -> None:
        """Without any connections."""

    def clear(self) -> None:
        """There are none to close."""

    def urlopen(  # type: ignore[override]
        self, method: str, url: str, body: Any = None, headers: Any = None, **_: Any
    ) -> Any:
        request = parse_request(method, url, headers or {}, body)
        for again in (False, True):
            try:
                answer = self.send(request)
            except ConnectionRefusedError:
                if again:
                    refused: Any = None
                    why = NewConnectionError(refused, "connection refused")
                    raise MaxRetryError(refused, url, why) from None
            except LostReplyError:
                if again or method not in IDEMPOTENT:
                    raise ProtocolError("connection broken: no reply") from None
            else:
                return SimulatedResponse(answer, method)
        raise AssertionError("unreachable")


@contextmanager
def answering(send: Callable[[Request], Answer]) -> Iterator[None]:
    """While it is open, adapters that are made send their requests here."""
    pool = type("Pool", (SimulatedPool,), {"send": staticmethod(send)})
    with patch.object(urllib3, "PoolManager", pool):
        yield


class SimulatedResponse:
    """What urllib3's response gives its reader; making one of those takes longer than the request."""

    def __init__(self, answer: Answer, method: str) -> None:
        self.status = answer.status
        self.headers = urllib3.HTTPHeaderDict(answer.headers)
        self._left = io.BytesIO(b"" if method == "HEAD" else answer.body)

    @cached_property
    def data(self) -> bytes:
        return self._left.read()

    def read(self, amount: int | None = None, cache_content: bool = False) -> bytes:
        return self.data if cache_content else self._left.read(amount)

    def stream(self, amount: int) -> Iterator[bytes]:
        return iter(partial(self._left.read, amount), b"")

    def close(self) -> None:
        """There is no connection to close."""

    release_conn = close
