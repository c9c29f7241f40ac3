"""Calls of several clients on two orchestrators, recorded and checked: what replies promise holds."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.client import Client, Endpoint
from tests.histories.callers import Caller, Meeting
from tests.histories.calls import Recording, read_files
from tests.histories.check import check
from tests.histories.recorder import record
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PATIENT, spec
from tests.kit.servers.nats import NatsServer

CALLS = 600


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Iterator[list[Orchestrator]]:
    """Two orchestrators of one log."""
    place = tmp_path_factory.mktemp("pair")
    server = NatsServer(place)
    server.start()
    with orchestrator(server, place, **PATIENT) as first, orchestrator(server, place, **PATIENT) as second:
        for each in (first, second):
            each.stub()
        yield [first, second]
    server.stop()


async def test_what_clients_of_two_orchestrators_were_shown_has_an_order(
    pair: list[Orchestrator], tmp_path: Path
) -> None:
    path = tmp_path / "calls.jsonl"
    with path.open("w") as file:
        recording, meeting, stop = Recording(file), Meeting(lambda seed: spec(seed=seed)), asyncio.Event()
        async with asyncio.TaskGroup() as calling:
            for number, each in enumerate(pair * 2):
                caller = Caller(meeting, each.address, f"c{number}", recording, seed=1)
                calling.create_task(caller.call_until(stop))
            while recording.count < CALLS:
                await asyncio.sleep(0.05)
            stop.set()
    calls = read_files([path])
    report = check(calls)
    assert report.calls >= CALLS * 0.9, "most calls were answered"
    assert {call.operation for call in calls} >= {"submit", "get", "list", "priority", "labels", "cancel"}
    assert not report.contradictions, "\n".join(map(str, report.contradictions))


def test_a_client_is_recorded_as_it_is(pair: list[Orchestrator], tmp_path: Path) -> None:
    path = tmp_path / "calls.jsonl"
    with (
        path.open("w") as file,
        record(Client(Endpoint(trainer=pair[0].address)), Recording(file), "c") as client,
    ):
        run = client.submit(spec(labels={"a": "x"}), key="of a client").run
        client.set_priority(run.id, 7)
        client.cancel(run.id)
        client.get(run.id)
        facts = [message for message in client.watch(run.id, until_end=True) if message.facts]
    calls = read_files([path])
    assert [call.operation for call in calls] == [
        "submit",
        "priority",
        "cancel",
        "get",
        *["watch"] * len(facts),
    ]
    assert calls[0].created
    assert calls[0].given == {"labels": {"a": "x"}}
    assert calls[3].seen[run.id].phase == "CANCELLED"
    assert calls[3].seen[run.id].priority == 7
    assert not check(calls, linearizable=True).contradictions
