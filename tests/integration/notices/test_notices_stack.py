"""Notices in a stack: a rule on a metric stops a real run, and the service is a part like any other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import CANCELLED
from runspine.wire.v1.spec_pb2 import Code, NoticeRule, RunSpec
from tests.kit.servers.notices_service import IMPATIENT, notices_file, webhook
from tests.kit.servers.receiver import Receiver
from tests.kit.waiting import eventually

SCORE = {"on": "threshold", "metric": "score", "channels": ["hook"]}
TRAINER = """
import json, time
for step in range(10_000):
    print(json.dumps({"type": "metric", "name": "score", "value": step / 10, "step": step}), flush=True)
    time.sleep(0.05)
"""


@pytest.mark.long
async def test_a_threshold_notifies_once_and_stops_the_run_though_the_service_is_killed(
    tmp_path: Path,
) -> None:
    with Receiver() as receiver:
        content = {
            "channels": {"hook": webhook(tmp_path, receiver.url)},
            "rules": [
                {"name": "all", "on": "ended", "channels": ["hook"]},
                {**SCORE, "name": "done", "above": 2, "stop": True},
                {**SCORE, "name": "never", "below": -1},
            ],
        }
        settings = {**IMPATIENT, "RUNSPINE_NOTICES_FILE": str(notices_file(tmp_path, content))}
        parts = {"nats", "s3", "orchestrator", "telemetry", "worker", "notices"}
        async with running_stack(tmp_path / "home", only=parts, settings=settings) as stack:
            with Client(find_endpoint({"RUNSPINE_HOME": str(tmp_path / "home")})) as client:
                rule = NoticeRule(on="started", channels=["hook"])
                command = [sys.executable, "-c", TRAINER]
                run = client.submit(
                    RunSpec(runner="script", command=command, notify=[rule], code=Code(image=True))
                ).run
                await eventually(lambda: len(receiver.accepted_ids()) == 1)
                await stack.until_restarted("notices", stack.kill("notices"))
                await eventually(lambda: client.get(run.id).run.phase == CANCELLED)
                await eventually(lambda: len(receiver.accepted_ids()) == 3)
        events = {post.id: (post.content["event"], post.content["rule"]) for post in receiver.accepted()}
        assert sorted(events.values()) == [
            ("ended", "stack/all"),
            ("started", "run/1"),
            ("threshold", "stack/done"),
        ]
