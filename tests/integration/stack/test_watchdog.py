"""A detached stack whose supervisor was killed comes back by itself; `down` ends it for good."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.embedded.background import start_detached, stop_running
from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.plan import StackOptions
from runspine.embedded.processes import identity_of
from runspine.embedded.record import StackRecord, running_record
from runspine.embedded.supervisor import StartFailedError
from runspine.rpc.endpoint import Endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.waiting import until

# Reports a checkpoint at each step and goes on from the last one it is given.
TRAINER = """
import json, os, pathlib, time
resume = os.environ.get("RUNSPINE_RESUME")
step = int(pathlib.Path(resume).read_text()) if resume else 0
while step < 40:
    step += 1
    path = pathlib.Path(f"{step}.ckpt")
    path.write_text(str(step))
    print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": str(path), "step": step}), flush=True)
    time.sleep(0.25)
"""


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Home]:
    place = Home.at(tmp_path / "home")
    yield place
    stop_running(place)


def detached(home: Home, *only: str) -> StackRecord:
    options = StackOptions(only=only or None, use_default_ports=False)
    return start_detached(home, options, lambda _: None)


def killed(record: StackRecord) -> StackRecord:
    os.kill(record.pid, signal.SIGKILL)
    return record


def back_again(home: Home, before: StackRecord) -> StackRecord | None:
    record = running_record(home)
    return record if record is not None and record.pid != before.pid and record.ready else None


def test_a_killed_supervisor_is_started_again_at_the_same_addresses(home: Home) -> None:
    before = detached(home, "nats")
    for _ in range(2):
        before = killed(before)
        after = until(lambda: back_again(home, before), 60)  # noqa: B023 - called here
        assert after.addresses == before.addresses
        assert after.watchdog == before.watchdog
        assert not identity_of(before.parts["nats"].pid), "parts end with their supervisor"
        before = after
    assert stop_running(home) is not None
    assert not identity_of(before.pid)
    assert not identity_of(before.watchdog)


def test_down_right_after_a_kill_ends_the_stack_for_good(home: Home) -> None:
    before = killed(detached(home, "nats"))
    stop_running(home)
    assert not identity_of(before.watchdog)
    deadline = time.monotonic() + 2
    while time.monotonic() < deadline:
        assert running_record(home) is None
        time.sleep(0.1)
    assert not home.stack_file.exists()


def test_a_killed_watchdog_leaves_the_stack_running_and_down_stops_it(home: Home) -> None:
    record = detached(home, "nats")
    os.kill(record.watchdog, signal.SIGKILL)
    until(lambda: not identity_of(record.watchdog), 30)
    assert running_record(home) is not None
    assert stop_running(home) is not None
    assert not identity_of(record.pid)


def test_a_start_that_fails_is_reported_and_not_repeated(home: Home) -> None:
    home.prepare()
    home.stack_file.with_name("credentials.json").write_text("not JSON")
    with pytest.raises(StartFailedError):
        detached(home, "nats")
    assert running_record(home) is None


@pytest.mark.long
@pytest.mark.timeout(300)
def test_a_run_goes_on_from_its_checkpoint_after_its_supervisor_was_killed(home: Home) -> None:
    before = detached(home)
    endpoint = Endpoint(
        trainer=before.addresses["orchestrator"],
        telemetry=before.addresses["telemetry"],
        artifacts=before.addresses["artifacts"],
        token=load_credentials(home).token,
        patience=60,
    )
    with Client(endpoint) as client:
        spec = RunSpec(runner="script", command=[sys.executable, "-c", TRAINER])
        run_id = client.submit(spec).run.id
        until(lambda: any(a.artifacts for a in client.get(run_id).attempts), 60)
        killed(before)
        until(lambda: back_again(home, before), 120)
        until(lambda: client.get(run_id).run.phase == COMPLETED, 120)
        attempts = client.get(run_id).attempts
    assert len(attempts) == 2
    assert attempts[1].resumed_from.step > 0
