"""Notices with a real orchestrator: rules in specs, actions, tests of channels, and the dead-letter list."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from runspine.errors import InvalidError, RunNotFoundError
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import STOPPED
from runspine.wire.v1.run_pb2 import CANCELLED, CANCELLING
from runspine.wire.v1.spec_pb2 import NoticeRule
from tests.kit.orchestrator import orchestrator
from tests.kit.played_worker import PATIENT, PlayedWorker, spec
from tests.kit.servers.nats import NatsServer
from tests.kit.servers.notices_service import notices_file, notices_process, webhook
from tests.kit.servers.receiver import Receiver
from tests.kit.waiting import eventually

Connect = Callable[..., Awaitable[Any]]


def listed(client: Client, **fields: Any) -> list[tuple[str, int, str]]:
    """Target, state and reason of each notice, newest first."""
    answer = client.list_notices(wire.ListNoticesRequest(**fields))
    return [(each.due.target, each.state, each.reason) for each in answer.notices]


async def test_rules_of_a_run_act_and_dead_notices_are_sent_when_asked_for(
    nats_server: NatsServer, connect: Connect, tmp_path: Path
) -> None:
    worker = PlayedWorker(await connect("w1"))
    moved, good = Receiver(status=307), Receiver()
    with orchestrator(nats_server, tmp_path, **PATIENT) as service, moved, good:
        service.stub()
        client = Client(Endpoint(trainer=service.address, patience=30.0))
        with pytest.raises(InvalidError, match=r"spec\.notify.*there are no channels"):
            client.submit(spec(notify=[NoticeRule(on="failed", channels=["good"])]))
        channels = {"good": webhook(tmp_path, good.url), "moved": webhook(tmp_path, moved.url)}
        settings = {"RUNSPINE_ADDRESS": service.address, "RUNSPINE_NOTICES_TRIES": "2"}
        file = notices_file(tmp_path, {"channels": channels})
        with notices_process(nats_server.url, tmp_path, file, **settings):
            await eventually(lambda: client.list_notices(wire.ListNoticesRequest()).channels)
            with pytest.raises(InvalidError, match=r"spec\.notify\[0\]\.channels.*'god'"):
                client.submit(spec(notify=[NoticeRule(on="failed", channels=["god"])]))
            await rules_act(client, worker, good)
            await channels_are_tested(client, good, moved)
        client.close()


async def rules_act(client: Client, worker: PlayedWorker, good: Receiver) -> None:
    rule = NoticeRule(on="started", channels=["good"], stop=True, labels={"seen": "yes"})
    run = client.submit(spec(notify=[rule])).run
    await worker.online()
    await worker.start(run.id)
    await eventually(lambda: client.get(run.id).run.phase == CANCELLING)
    await eventually(lambda: client.get(run.id).run.labels["seen"] == "yes")
    assert "rule run/1" in client.get(run.id).run.reason
    await worker.exit(run.id, outcome=STOPPED)
    await eventually(lambda: client.get(run.id).run.phase == CANCELLED)
    await eventually(lambda: {state for _, state, _ in listed(client, run_id=run.id)} == {wire.SENT})
    assert [target for target, _, _ in listed(client, run_id=run.id)] == [
        "action/label",
        "action/stop",
        "good",
    ]
    [post] = good.accepted()
    assert post.content["run"]["id"] == run.id


async def channels_are_tested(client: Client, good: Receiver, moved: Receiver) -> None:
    with pytest.raises(InvalidError, match=r"channel.*'god'"):
        client.test_channel("god")
    test_id = client.test_channel("good")
    await eventually(lambda: listed(client, run_id=test_id) == [("good", wire.SENT, "")])
    test_id = client.test_channel("moved")
    reason = "the receiver answered with 307; redirects are not followed"
    await eventually(lambda: listed(client, run_id=test_id) == [("moved", wire.DEAD, reason)])
    [dead] = client.list_notices(wire.ListNoticesRequest(dead=True)).notices
    with pytest.raises(RunNotFoundError, match="no dead notice"):
        client.retry_notice("0" * 12)
    moved.status = 200
    client.retry_notice(dead.due.id[:12])
    await eventually(lambda: listed(client, run_id=test_id) == [("moved", wire.SENT, reason)])
    assert {post.id for post in moved.posts} == {dead.due.id}
    assert listed(client, dead=True) == []
