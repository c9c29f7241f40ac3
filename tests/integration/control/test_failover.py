"""A client with several orchestrators writes on within two seconds when the one it uses is gone."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.errors import InvalidError
from runspine.rpc.endpoint import Endpoint, find_endpoint
from runspine.rpc.siblings import split_addresses
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import trainer_pb2 as wire
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PATIENT, spec
from tests.kit.servers.nats import NatsServer

GAP_SECONDS = 2.0
# A frozen process closes nothing: its silence is noticed after two seconds.
FROZEN_GAP_SECONDS = 4.0


@pytest.fixture
def pair(nats_server: NatsServer, tmp_path: Path) -> Iterator[list[Orchestrator]]:
    with (
        orchestrator(nats_server, tmp_path, **PATIENT) as first,
        orchestrator(nats_server, tmp_path, **PATIENT) as second,
    ):
        for each in (first, second):
            each.stub()
        yield [first, second]


class Writer:
    """Submits one run after another, each under a key of its own, and keeps when each was acknowledged."""

    def __init__(self, client: Client) -> None:
        self._client = client
        self.runs: dict[str, str] = {}
        self.at: list[float] = []

    def write(self, seconds: float) -> None:
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            key = f"key-{len(self.runs)}"
            self.runs[key] = self._client.submit(spec(), key).run.id
            self.at.append(time.monotonic())

    @property
    def gap(self) -> float:
        return max(later - earlier for earlier, later in zip(self.at, self.at[1:], strict=False))


@pytest.mark.alone
@pytest.mark.parametrize(
    ("fault", "limit"), [(signal.SIGKILL, GAP_SECONDS), (signal.SIGSTOP, FROZEN_GAP_SECONDS)]
)
def test_writes_go_on_at_the_sibling_and_no_key_has_two_runs(
    pair: list[Orchestrator], fault: signal.Signals, limit: float
) -> None:
    first, second = pair
    endpoint = Endpoint(trainer=f"{first.address},{second.address}")
    with Client(endpoint) as client:
        writer = Writer(client)
        writer.write(0.5)
        assert first.process is not None
        first.process.send_signal(fault)
        try:
            writer.write(limit + 1)
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert writer.gap < limit
        # Every key once more: each stands for the run that was acknowledged.
        for key, run_id in writer.runs.items():
            assert client.submit(spec(), key).run.id == run_id
    listed = second.stub().List(wire.ListRequest(page_size=1000)).runs
    assert len(listed) == min(len(writer.runs), 1000)


@pytest.mark.parametrize("fault", [signal.SIGKILL, signal.SIGSTOP])
def test_a_watch_goes_on_at_the_sibling_with_every_commit_once(
    pair: list[Orchestrator], fault: signal.Signals
) -> None:
    first, second = pair
    assert first.process is not None
    with Client(Endpoint(trainer=f"{first.address},{second.address}")) as client:
        run_id = client.submit(spec()).run.id
        kinds = []
        try:
            for message in client.watch(run_id, until_end=True):
                kinds += [fact.WhichOneof("kind") for fact in message.facts]
                if kinds == ["run_submitted", "run_queued"]:
                    first.process.send_signal(fault)
                    client.cancel(run_id)
        finally:
            first.process.send_signal(signal.SIGCONT)
        assert kinds == ["run_submitted", "run_queued", "run_cancel_requested", "run_cancelled"]


def test_addresses_are_separated_by_commas_and_stack_json_may_list_them(tmp_path: Path) -> None:
    (tmp_path / "stack.json").write_text('{"addresses": {"orchestrator": ["a:1", "b:2"]}}')
    assert find_endpoint({"RUNSPINE_HOME": str(tmp_path)}).trainer == "a:1,b:2"
    assert split_addresses(" a:1, b:2 ,a:1") == ("a:1", "b:2")
    with pytest.raises(InvalidError, match="names no address"):
        split_addresses(" , ")
