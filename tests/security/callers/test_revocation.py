"""A revoked token is refused by every service within two seconds, without a restart."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable
from typing import Any

import grpc
import pytest

from runspine.wire.v1 import telemetry_pb2 as telemetry
from runspine.wire.v1 import trainer_pb2 as trainer
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.callers import CallerStack, bearer
from tests.kit.waiting import until

pytestmark = pytest.mark.slow
OK, UNAUTHENTICATED = grpc.StatusCode.OK, grpc.StatusCode.UNAUTHENTICATED
# What was promised.
MAX_SECONDS = 2.0


class Followed:
    """A stream that a thread reads until it ends."""

    def __init__(self, stream: Iterable[Any]) -> None:
        self.error: grpc.RpcError | None = None
        self.ended_at = 0.0
        self._stream = stream
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        try:
            for _ in self._stream:
                pass
        except grpc.RpcError as error:
            self.error = error
        self.ended_at = time.monotonic()


def refused_after(stack: CallerStack, token: str) -> dict[str, float]:
    """Seconds until each service refuses the token."""
    started = time.monotonic()
    found: dict[str, float] = {}
    while len(found) < 3 and time.monotonic() - started < 30:
        for name, code in stack.reads(bearer(token)).items():
            if code == UNAUTHENTICATED:
                found.setdefault(name, time.monotonic() - started)
    return found


@pytest.mark.alone
def test_every_service_refuses_a_revoked_token_and_ends_its_streams(stack: CallerStack) -> None:
    stack.tokens.add("anna", "annas-token", "run")
    until(lambda: set(stack.reads(bearer("annas-token")).values()) <= {OK, grpc.StatusCode.NOT_FOUND}, 10)
    spec = RunSpec(runner="script", command=["sleep", "600"], env="Toy-v0", algo="none")
    run_id = stack.trainer.Submit(trainer.SubmitRequest(spec=spec), metadata=bearer("annas-token")).run.id
    watch = Followed(stack.trainer.Watch(trainer.WatchRequest(), metadata=bearer("annas-token")))
    lines = telemetry.StreamLogsRequest(run_id=run_id, follow=True)
    logs = Followed(stack.telemetry.StreamLogs(lines, metadata=bearer("annas-token")))
    before = stack.pids()

    stack.tokens.revoke("anna", time.time())
    revoked_at = time.monotonic()
    took = refused_after(stack, "annas-token")
    assert set(took) == {"orchestrator", "telemetry", "artifacts"}
    assert max(took.values()) < MAX_SECONDS, took
    for stream in (watch, logs):
        until(lambda one=stream: one.ended_at, 30)  # type: ignore[misc]
        assert stream.error is not None
        assert stream.error.code() == UNAUTHENTICATED
        assert "token 'anna' was revoked on" in (stream.error.details() or "")
        assert stream.ended_at - revoked_at < MAX_SECONDS
    assert stack.pids() == before, "no restart"
    stack.shell("cancel", run_id)


def test_a_token_that_ends_is_refused_from_then_on(stack: CallerStack) -> None:
    stack.tokens.add("guest", "guests-token", "read", expires=time.time() + 2)
    until(lambda: stack.reads(bearer("guests-token"))["orchestrator"] == OK, 10)
    until(lambda: stack.reads(bearer("guests-token"))["orchestrator"] == UNAUTHENTICATED, 30)


def test_a_new_token_is_accepted_without_a_restart_and_replaces_the_one_of_its_name(
    stack: CallerStack,
) -> None:
    first = stack.shell.json("secrets", "token", "carl", "--directory", stack.home)["token"]
    until(lambda: stack.reads(bearer(first))["artifacts"] == OK, 10)
    second = stack.shell.json("secrets", "token", "carl", "--directory", stack.home)["token"]
    until(lambda: stack.reads(bearer(first))["artifacts"] == UNAUTHENTICATED, 10)
    assert stack.reads(bearer(second))["artifacts"] == OK
