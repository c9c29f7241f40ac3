"""Runs under an orchestrator with a real server. The test plays the workers, on the log."""

from __future__ import annotations

import asyncio
import json
import time
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.eventlog.subjects import artifacts_subject, attempts_subject, worker_subject
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    LOST,
    ArtifactPruned,
    AttemptExited,
    Counts,
    Fact,
    FoldersRemoved,
    RetentionSet,
)
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    QUEUED,
    RUNNING,
    STALE,
    MachineStatus,
)
from runspine.wire.v1.spec_pb2 import Limits, Retry
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PlayedWorker, phase_is, spec, submit, until_async
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually


async def test_a_run_goes_from_submit_to_its_end_by_facts_alone(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub, env="CartPole-v1", algo="ppo", seed=7)
    assert run.phase == QUEUED
    assert run.name.startswith("CartPole-v1__ppo__7__")
    await worker.start(run.id)
    await eventually(phase_is(stub, run.id, RUNNING))
    await worker.beat(run.id, step=42)
    await eventually(lambda: stub.Get(wire.GetRequest(run_id=run.id)).progress.step == 42)
    await worker.exit(run.id, counts=Counts(steps=100, episodes=3))
    await eventually(phase_is(stub, run.id, COMPLETED))
    got = stub.Get(wire.GetRequest(run_id=run.id))
    assert got.run.counts.steps == 100
    assert [a.number for a in got.attempts] == [1]
    kinds = [
        fact.WhichOneof("kind")
        for event in stub.Watch(wire.WatchRequest(run_id=run.id, until_end=True))
        for fact in event.facts
    ]
    assert kinds == ["run_submitted", "run_queued", "run_started", "run_completed"]


async def test_asking_twice_with_one_key_is_asking_once(served: Orchestrator) -> None:
    stub = served.stub()
    asked = [stub.Submit.future(wire.SubmitRequest(spec=spec(), idempotency_key="k1")) for _ in range(8)]
    answers = [future.result() for future in asked]
    assert len({answer.run.id for answer in answers}) == 1
    assert sum(answer.created for answer in answers) == 1
    with pytest.raises(grpc.RpcError) as error:
        stub.Submit(wire.SubmitRequest(spec=spec(seed=99), idempotency_key="k1"))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
    assert "another spec" in error.value.details()  # type: ignore[operator]
    assert stub.List(wire.ListRequest()).total == 1


async def test_bad_input_reaches_the_caller_and_nothing_reaches_the_log(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    bad = [
        spec(runner="scirpt"),
        spec(priority=1000),
        spec(name="a\x00b"),
        spec(notes="x" * (10 << 20)),
        spec(command=[]),
    ]
    for wrong in bad:
        for call in (
            lambda wrong=wrong: stub.Submit(wire.SubmitRequest(spec=wrong)),
            lambda wrong=wrong: stub.Validate(wire.ValidateRequest(spec=wrong)),
        ):
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT
            assert error.value.details().startswith("spec")  # type: ignore[union-attr]
    for request, code in (
        (wire.GetRequest(run_id="nobody"), grpc.StatusCode.NOT_FOUND),
        (wire.GetRequest(run_id=""), grpc.StatusCode.NOT_FOUND),
    ):
        with pytest.raises(grpc.RpcError) as error:
            stub.Get(request)
        assert error.value.code() == code
    assert (await worker.client.log.extent("RUNS")).last == 0


@pytest.mark.alone
async def test_silence_makes_a_run_stale_then_requeues_it_and_the_late_word_is_ignored(
    impatient: Orchestrator, worker: PlayedWorker
) -> None:
    stub = impatient.stub()
    run = submit(stub)
    await worker.start(run.id)
    await worker.beat(run.id)
    await eventually(phase_is(stub, run.id, STALE))
    await worker.beat(run.id)
    await eventually(phase_is(stub, run.id, RUNNING))
    await eventually(phase_is(stub, run.id, QUEUED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2
    assert [(o.run_id, o.attempt) for o in await worker.offers()] == [(run.id, 2)]
    await worker.exit(run.id, attempt=1)
    second = PlayedWorker(worker.client, "w2")
    await second.start(run.id, attempt=2)
    await eventually(phase_is(stub, run.id, RUNNING))
    await second.exit(run.id, attempt=2, exit_code=3, reason="exit code 3")
    await eventually(phase_is(stub, run.id, FAILED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.reason == "exit code 3"


async def set_beats(client: Any, **changes: object) -> None:
    """Change the stream of beats."""
    found = json.loads((await client.link.request("$JS.API.STREAM.INFO.BEATS", b"")).data)
    body = json.dumps({**found["config"], **changes}).encode()
    answer = json.loads((await client.link.request("$JS.API.STREAM.UPDATE.BEATS", body)).data)
    assert "error" not in answer, answer


@pytest.mark.long
@pytest.mark.alone
async def test_no_run_is_given_up_while_the_stream_of_beats_takes_none(
    impatient: Orchestrator, worker: PlayedWorker
) -> None:
    """As after a full disk, when nats-server writes to some streams and not to others."""
    stub = impatient.stub()
    run = submit(stub)

    async def is_running() -> bool:
        return phase_is(stub, run.id, RUNNING)()

    await worker.start(run.id)
    beating = asyncio.create_task(worker.keep_beating(run.id))
    await until_async(is_running, True)
    # However long the server takes for it, the last word of the worker is fresh when it is done.
    await set_beats(worker.client, discard="new", max_bytes=1)
    # A message that takes the place of another is still let in.
    answer = json.loads((await worker.client.link.request("$JS.API.STREAM.PURGE.BEATS", b"")).data)
    assert answer["success"]
    beating.cancel()
    await asyncio.sleep(10)
    now = stub.Get(wire.GetRequest(run_id=run.id)).run
    assert (now.phase, now.attempt) in ((RUNNING, 1), (STALE, 1))
    await set_beats(worker.client, discard="old", max_bytes=-1)
    await worker.beat(run.id)
    await eventually(phase_is(stub, run.id, RUNNING))
    # Beats are stored again, and this worker sends none: now it is he who is silent.
    await eventually(phase_is(stub, run.id, QUEUED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2


async def test_a_worker_lost_gives_the_run_back_at_once(served: Orchestrator, worker: PlayedWorker) -> None:
    stub = served.stub()
    run = submit(stub)
    await worker.start(run.id)
    await worker.exit(run.id, outcome=LOST, reason="restarted")
    await eventually(lambda: stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2)


async def test_a_failing_run_backs_off_before_it_is_offered_again(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub, retry=Retry(max_attempts=2, backoff_seconds=1.5))
    await worker.start(run.id)
    began = time.time()
    emitted = AttemptExited(attempt=1, outcome=EXITED, exit_code=1, reason="boom")
    await worker.emit(attempts_subject(run.id), Fact(at=int(began * 1e6), attempt_exited=emitted))
    await eventually(phase_is(stub, run.id, QUEUED))

    async def attempts_offered() -> list[int]:
        return [offer.attempt for offer in await worker.offers()]

    await until_async(attempts_offered, [2])
    assert time.time() - began >= 1.5


async def test_cancel_of_a_queued_run_takes_its_offer_away(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub)
    await until_async(worker.count_offers, 1)
    assert stub.Cancel(wire.CancelRequest(run_id=run.id, reason="typo")).run.phase == CANCELLED
    await until_async(worker.offers, [])
    await worker.start(run.id)  # a worker that was quicker than the cancel
    await worker.exit(run.id)
    # Facts of workers are followed in order: when the next run has completed, those of this one were read.
    marker = submit(stub)
    await worker.start(marker.id)
    await worker.exit(marker.id)
    await eventually(phase_is(stub, marker.id, COMPLETED))
    got = stub.Get(wire.GetRequest(run_id=run.id)).run
    assert (got.phase, got.reason) == (CANCELLED, "typo")
    with pytest.raises(grpc.RpcError) as error:
        stub.SetPriority(wire.SetPriorityRequest(run_id=run.id, priority=3))
    assert error.value.code() == grpc.StatusCode.FAILED_PRECONDITION


async def test_cancel_of_a_running_run_waits_for_the_workers_word(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub)
    await worker.start(run.id)
    await eventually(phase_is(stub, run.id, RUNNING))
    assert stub.Cancel(wire.CancelRequest(run_id=run.id)).run.phase == CANCELLING
    assert stub.Cancel(wire.CancelRequest(run_id=run.id)).run.phase == CANCELLING
    await worker.exit(run.id, outcome=2, signal=15)
    await eventually(phase_is(stub, run.id, CANCELLED))


async def test_offers_stand_in_order_of_priority_even_when_it_changes(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    low, normal = submit(stub, priority=10), submit(stub)
    high = submit(stub, priority=90)

    async def standing() -> list[str]:
        return [offer.run_id for offer in await worker.offers()]

    await until_async(standing, [high.id, normal.id, low.id])
    stub.SetPriority(wire.SetPriorityRequest(run_id=low.id, priority=100))
    await until_async(standing, [low.id, high.id, normal.id])


async def test_watching_resumes_from_a_position_without_loss_or_doubling(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    first, second = submit(stub), submit(stub)
    watch = stub.Watch(wire.WatchRequest())
    seen = [next(watch) for _ in range(2)]
    watch.cancel()
    assert [event.run_id for event in seen] == [first.id, second.id]
    third = submit(stub)
    resumed = stub.Watch(wire.WatchRequest(after=seen[0].position))
    assert [next(resumed).run_id for _ in range(2)] == [second.id, third.id]
    resumed.cancel()


async def test_watching_carries_facts_of_artifacts_and_workers_to_clients_that_ask(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub)
    pruned = Fact(at=1, artifact_pruned=ArtifactPruned(digest="d", kind="video", rule="max_videos_per_run=2"))
    rules = Fact(at=2, retention_set=RetentionSet(scope="default"))
    removed = Fact(at=3, folders_removed=FoldersRemoved(worker_id="w1"))
    await worker.emit(artifacts_subject(run.id), pruned)
    await worker.emit(artifacts_subject("retention"), rules)
    await worker.emit(worker_subject("w1"), removed)
    await worker.start(run.id)
    await eventually(phase_is(stub, run.id, RUNNING))
    await worker.exit(run.id)

    everything = stub.Watch(wire.WatchRequest(streams=["ARTIFACTS", "ATTEMPTS"]))
    by_stream: dict[str, list[wire.WatchResponse]] = {"": [], "ARTIFACTS": [], "ATTEMPTS": []}
    # Streams arrive independently of each other; each has its own order.
    while (
        len(by_stream["ARTIFACTS"]) < 2
        or removed not in [fact for event in by_stream["ATTEMPTS"] for fact in event.facts]
        or len([event for event in by_stream[""] if event.facts]) < 3
    ):
        event = next(everything)
        by_stream[event.stream].append(event)
    everything.cancel()
    assert [event.facts[0] for event in by_stream["ARTIFACTS"]] == [pruned, rules]
    assert [event.run_id for event in by_stream["ARTIFACTS"]] == [run.id, ""]
    assert by_stream["ARTIFACTS"][1].subject == "artifacts.retention"

    # Each stream is resumed from its own position.
    request = wire.WatchRequest(
        streams=["ARTIFACTS"], positions={"ARTIFACTS": by_stream["ARTIFACTS"][0].position}, after=2**40
    )
    resumed = stub.Watch(request)
    assert next(resumed).facts[0] == rules
    resumed.cancel()

    # Of one run, and until its end: what the streams hold by then.
    own = list(stub.Watch(wire.WatchRequest(run_id=run.id, until_end=True, streams=["ARTIFACTS"])))
    assert [event.facts[0] for event in own if event.stream] == [pruned]
    # A client that does not ask gets RUNS alone, as before.
    old = list(stub.Watch(wire.WatchRequest(run_id=run.id, until_end=True)))
    assert [event.stream for event in old if event.facts] == ["", "", ""]
    with pytest.raises(grpc.RpcError) as error:
        next(stub.Watch(wire.WatchRequest(streams=["TELEMETRY"])))
    assert error.value.code() == grpc.StatusCode.INVALID_ARGUMENT


async def test_resubmit_makes_a_new_run_that_names_its_parent(served: Orchestrator) -> None:
    stub = served.stub()
    old = submit(stub, env="CartPole-v1", algo="ppo", name="mine")
    again = stub.Resubmit(wire.ResubmitRequest(run_id="mine")).run
    assert (again.parent, again.name, again.spec) == (old.id, "mine", old.spec)
    changed = stub.Resubmit(wire.ResubmitRequest(run_id=old.id, spec=spec(seed=5))).run
    assert (changed.parent, changed.spec.seed) == (old.id, 5)


async def test_labels_are_set_and_removed(served: Orchestrator) -> None:
    stub = served.stub()
    run = submit(stub, labels={"group": "a", "keep": "1"})
    stub.SetLabels(wire.SetLabelsRequest(run_id=run.id, labels={"group": "", "note": "good"}))
    assert dict(stub.Get(wire.GetRequest(run_id=run.id)).run.labels) == {"keep": "1", "note": "good"}
    assert stub.List(wire.ListRequest(labels={"note": "good"})).total == 1


async def test_workers_and_runners_are_listed(served: Orchestrator, worker: PlayedWorker) -> None:
    stub = served.stub()
    assert "script" in [r.name for r in stub.ListRunners(wire.ListRunnersRequest()).runners]
    notices = stub.Validate(wire.ValidateRequest(spec=spec())).notices
    assert "no worker serves pool 'default'" in notices[0]
    await worker.online()
    await eventually(lambda: [w.id for w in stub.ListWorkers(wire.ListWorkersRequest()).workers] == ["w1"])


async def test_a_run_that_fits_no_disk_is_accepted_with_a_notice(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    await worker.online()

    async def measured() -> bool:
        await worker.measure(MachineStatus(disk_total=8 << 30, disk_free=1 << 30))
        workers = stub.ListWorkers(wire.ListWorkersRequest()).workers
        return bool(workers and workers[0].machine.disk_free == 1 << 30)

    await eventually(measured)
    wanted = spec(limits=Limits(disk_mib=2000))
    notice = "no worker of pool 'default' has that much free now: the most is 1,024 MiB"
    assert any(notice in each for each in stub.Validate(wire.ValidateRequest(spec=wanted)).notices)
    request = wire.SubmitRequest(spec=wanted, idempotency_key="once")
    first = stub.Submit(request)
    assert first.created
    assert any(notice in each for each in first.notices)
    again = stub.Submit(request)
    assert (again.run.id, again.created, list(again.notices)) == (first.run.id, False, [])


async def test_the_log_is_read_raw_and_described(served: Orchestrator) -> None:
    stub = served.stub()
    run = submit(stub)
    records = list(stub.ReadLog(wire.ReadLogRequest(stream="RUNS")))
    assert [r.subject for r in records] == [f"runs.{run.id}"]
    assert sha256(records[0].commit).digest() == records[0].digest
    assert {s.name: s.last_sequence for s in stub.DescribeLog(wire.DescribeLogRequest()).streams} == {
        "RUNS": 1,
        "ATTEMPTS": 0,
        "ARTIFACTS": 0,
    }
    with pytest.raises(grpc.RpcError) as error:
        list(stub.ReadLog(wire.ReadLogRequest(stream="RUN")))
    assert "Did you mean 'RUNS'?" in error.value.details()  # type: ignore[operator]


def test_a_token_that_may_only_read_starts_no_launch_check(nats_server: NatsServer, tmp_path: Path) -> None:
    tokens = [
        {"name": scope, "sha256": sha256(scope.encode()).hexdigest(), "scope": scope}
        for scope in ("read", "run")
    ]
    (tmp_path / "tokens.json").write_text(json.dumps(tokens))
    with orchestrator(nats_server, tmp_path, RUNSPINE_TOKENS_FILE=str(tmp_path / "tokens.json")) as service:
        request = wire.ValidateRequest(spec=spec())
        reasons = {
            scope: service.stub()
            .Validate(request, metadata=[("authorization", f"Bearer {scope}")])
            .preflight.reason
            for scope in ("read", "run")
        }
    assert "may only read" in reasons["read"]
    assert "no worker serves pool" in reasons["run"]
