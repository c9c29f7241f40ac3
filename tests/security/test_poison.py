"""Messages that are not commits, on every stream, while services run."""

from __future__ import annotations

import sys
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.embedded.home import Home
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.connection import NatsConnection
from runspine.eventlog.port import Version
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.release import release
from runspine.eventlog.streams import declarations
from runspine.eventlog.subjects import attempts_subject, run_subject
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import Fact, RunSubmitted
from runspine.wire.v1.run_pb2 import COMPLETED, QUARANTINED, QUEUED, RUNNING, Phase, Run
from tests.kit.background_stack import Shell, stack
from tests.kit.orchestrator import Orchestrator
from tests.kit.played_worker import PlayedWorker, phase_is, spec, submit
from tests.kit.samples.poison import (
    SENDERS,
    Poisoner,
    account_of,
    by_stream,
    core_subjects,
    fact_subjects,
    other_subjects,
)
from tests.kit.waiting import eventually, until

TRAINER = """
import pathlib, time
for step in range(%d):
    print(f"global_step={step}, episodic_return=1.0", flush=True)
while not pathlib.Path(%r).exists():
    time.sleep(0.1)
print("global_step=1000, episodic_return=1.0", flush=True)
"""


async def test_a_foreign_message_on_a_run_stops_nothing_but_that_run(
    served: Orchestrator, worker: PlayedWorker, connect: Any
) -> None:
    admin = await connect("admin")
    stub = served.stub()
    poisoned, whole = submit(stub, seed=1), submit(stub, seed=2)
    await admin.link.client.request(run_subject(poisoned.id), b"\xff not a commit", timeout=30)
    await worker.start(whole.id)
    await eventually(phase_is(stub, whole.id, RUNNING))
    await eventually(phase_is(stub, poisoned.id, QUARANTINED))
    got = stub.Get(wire.GetRequest(run_id=poisoned.id)).run
    assert got.quarantine.subject == run_subject(poisoned.id)
    assert "commit 2 has no digest" in got.reason
    assert "runspine events release" in got.reason
    listed = stub.List(wire.ListRequest(phases=[QUARANTINED])).runs
    assert [each.run.id for each in listed] == [poisoned.id]
    with pytest.raises(grpc.RpcError) as refused:
        stub.Cancel(wire.CancelRequest(run_id=poisoned.id))
    assert refused.value.code() == grpc.StatusCode.DATA_LOSS
    assert "events release" in (refused.value.details() or "")
    served.kill()
    served.start()
    stub = served.stub()
    assert stub.Get(wire.GetRequest(run_id=poisoned.id)).run.phase == QUARANTINED
    await worker.exit(whole.id)
    await eventually(phase_is(stub, whole.id, COMPLETED))
    await release(admin.log, run_subject(poisoned.id), by="test", reason="a foreign message")
    await eventually(phase_is(stub, poisoned.id, QUEUED))
    await worker.start(poisoned.id)
    await worker.exit(poisoned.id)
    await eventually(phase_is(stub, poisoned.id, COMPLETED))
    assert not stub.DescribeLog(wire.DescribeLogRequest()).quarantines


async def test_a_submit_on_the_subject_of_a_worker_makes_no_run(
    served: Orchestrator, worker: PlayedWorker, connect: Any
) -> None:
    admin = await connect("admin")
    stub = served.stub()
    forged = RunSubmitted(run_id="forged", name="forged", spec=spec(), submitted_by="root")
    data = seal(Version(), [Fact(at=1, run_submitted=forged)], "id", "orchestrator")
    headers = {DIGEST: digest_of(data).hex()}
    await admin.link.client.request(attempts_subject("forged"), data, headers=headers, timeout=30)
    await eventually(lambda: stub.DescribeLog(wire.DescribeLogRequest()).quarantines)
    [found] = stub.DescribeLog(wire.DescribeLogRequest()).quarantines
    assert (found.subject, found.reason) == ("attempts.forged", "run_submitted is not a fact of attempts.*")
    assert not stub.List(wire.ListRequest()).runs


async def _poison(home: Home, shell: Shell, victims: list[str], healthy: list[str], strings: int) -> set[str]:
    """Put so many messages on every stream; the subjects of facts that were poisoned."""
    worker = shell.json("workers")["workers"][0]["id"]
    async with AsyncExitStack() as open_here:

        async def connected(user: str) -> NatsConnection:
            return await open_here.enter_async_context(NatsConnection(account_of(home, user), user))

        services = {user: await connected(user) for user in set(SENDERS.values())}
        poisoner = Poisoner(await connected("admin"), strings, services)
        await poisoner.collect_commits()
        subjects = list(fact_subjects(victims, worker, max(5, strings // 20)))
        for subject in subjects:
            await poisoner.store(subject)
        others = [subject for run_id in healthy for subject in other_subjects(run_id, worker)]
        cores = [subject for run_id in healthy for subject in core_subjects(run_id, worker)]
        streams = by_stream(subjects + others)
        assert set(streams) == {each["name"] for each in declarations()}
        for number in range(strings):
            for within in streams.values():
                await poisoner.store(within[number % len(within)])
            await poisoner.send(cores[number % len(cores)])
    return set(subjects)


async def _survives(home: Path, runs: int, strings: int, steps: int) -> None:
    # Trainers are sandboxed: they see the folder that they start in.
    poured = home.parent / "seen" / "poured"
    poured.parent.mkdir()
    script = TRAINER % (steps, str(poured))
    with stack(home, "--workers", "1", "--slots", str(runs)) as shell:
        client = Client(find_endpoint(shell.environment))

        def wait(run_id: str, phase: Phase) -> Run:
            until(lambda: client.get(run_id).run.phase == phase, 400, f"{run_id} is {Phase.Name(phase)}")
            return client.get(run_id).run

        waiting = spec(command=[sys.executable, "-c", script], workdir=str(poured.parent))
        ids = [client.submit(waiting).run.id for _ in range(runs)]
        victims, healthy = ids[: runs // 3], ids[runs // 3 :]
        for run_id in ids:
            wait(run_id, RUNNING)
        poisoned = await _poison(Home.at(home), shell, victims, healthy, strings)
        poured.touch()
        for run_id in healthy:
            assert wait(run_id, COMPLETED).counts.episodes == steps + 1
        found = client.quarantines()
        assert {each.subject for each in found} == poisoned
        assert all(each.reason for each in found)
        status = shell.json("status")
        assert status["healthy"]
        assert {part["name"]: part["restarts"] for part in status["parts"] if part["restarts"]} == {}
        shell.kill("orchestrator", "worker", "telemetry", "artifacts")
        shell.ready()
        [again] = shell.submit("print('global_step=1, episodic_return=1.0')")
        wait(again, COMPLETED)
        assert {each.subject for each in client.quarantines()} == poisoned
        for number, run_id in enumerate(victims):
            if number % 3 == 0:
                assert client.get(run_id).run.phase == QUARANTINED
                shell("events", "release", f"runs.{run_id}", "--reason", "tested")
                wait(run_id, COMPLETED)


async def test_poison_on_every_stream_stops_no_service_and_no_other_run(tmp_path: Path) -> None:
    await _survives(tmp_path / "home", runs=3, strings=20, steps=12)


@pytest.mark.long
async def test_a_thousand_poisons_stop_none_of_fifty_runs(tmp_path: Path) -> None:
    await _survives(tmp_path / "home", runs=75, strings=1000, steps=60)
