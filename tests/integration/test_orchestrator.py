"""The orchestrator as a process, against a real server. The test plays the workers, on the log."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections.abc import Awaitable, Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.log.link import Unreachable
from runspine.log.subjects import attempts_subject, beat_subject, worker_subject
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    LOST,
    AttemptExited,
    AttemptStarted,
    Counts,
    Fact,
    Progress,
    WorkerOnline,
)
from runspine.wire.v1.run_pb2 import (
    CANCELLED,
    CANCELLING,
    COMPLETED,
    FAILED,
    QUEUED,
    RUNNING,
    STALE,
    AttemptBeat,
    Beat,
    Offer,
    Run,
)
from runspine.wire.v1.spec_pb2 import Retry, RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub
from tests.fixtures.nats import NatsServer
from tests.fixtures.services import Orchestrator, orchestrator

Connect = Callable[..., Awaitable[Any]]
# Nobody beats for the runs of these tests, however long they take.
PATIENT = {"RUNSPINE_STALE_AFTER": "300", "RUNSPINE_LOST_AFTER": "600"}


@pytest.fixture
def served(nats_server: NatsServer, tmp_path: Path) -> Iterator[Orchestrator]:
    with orchestrator(nats_server, tmp_path, **PATIENT) as service:
        yield service


@pytest.fixture
def impatient(nats_server: NatsServer, tmp_path: Path) -> Iterator[Orchestrator]:
    with orchestrator(nats_server, tmp_path, RUNSPINE_STALE_AFTER="2", RUNSPINE_LOST_AFTER="4") as service:
        yield service


def spec(**fields: Any) -> RunSpec:
    return RunSpec(**{"runner": "script", "command": ["python", "train.py"], **fields})


def submit(stub: TrainerServiceStub, **fields: Any) -> Run:
    run: Run = stub.Submit(wire.SubmitRequest(spec=spec(**fields))).run
    return run


async def until(check: Callable[[], Any], seconds: float = 60.0) -> Any:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        value = check()
        if value:
            return value
        await asyncio.sleep(0.02)
    raise AssertionError("waited in vain")


async def until_async(check: Callable[[], Awaitable[Any]], wanted: Any, seconds: float = 60.0) -> None:
    deadline, found = time.monotonic() + seconds, None
    while True:
        # A server that is busy is asked again.
        with contextlib.suppress(Unreachable):
            if (found := await check()) == wanted:
                return
        assert time.monotonic() < deadline, f"{found} instead of {wanted}"
        await asyncio.sleep(0.03)


def phase_is(stub: TrainerServiceStub, run_id: str, phase: int) -> Callable[[], bool]:
    return lambda: stub.Get(wire.GetRequest(run_id=run_id)).run.phase == phase


class PlayedWorker:
    """A worker's words on the log, without a worker."""

    def __init__(self, client: Any, worker_id: str = "w1") -> None:
        self.client = client
        self.worker_id = worker_id

    async def say(self, subject: str, fact: Fact) -> None:
        _, version = await self.client.log.read(subject)
        await self.client.log.append(subject, [fact], expected=version)

    async def online(self) -> None:
        said = WorkerOnline(worker_id=self.worker_id, pools=["default"], slots=4)
        await self.say(worker_subject(self.worker_id), Fact(at=1, worker_online=said))

    async def start(self, run_id: str, attempt: int = 1) -> None:
        said = AttemptStarted(attempt=attempt, worker_id=self.worker_id)
        await self.say(attempts_subject(run_id), Fact(at=2, attempt_started=said))

    async def exit(self, run_id: str, attempt: int = 1, **fields: Any) -> None:
        said = AttemptExited(**{"attempt": attempt, "worker_id": self.worker_id, "outcome": EXITED, **fields})
        await self.say(attempts_subject(run_id), Fact(at=3, attempt_exited=said))

    async def beat(self, run_id: str, attempt: int = 1, step: int = 0) -> None:
        said = AttemptBeat(run_id=run_id, attempt=attempt, progress=Progress(step=step))
        beat = Beat(worker_id=self.worker_id, attempts=[said])
        await self.client.link.client.publish(beat_subject(self.worker_id), beat.SerializeToString())

    async def keep_beating(self, run_id: str) -> None:
        while True:
            await self.beat(run_id)
            await asyncio.sleep(0.2)

    async def offers(self) -> list[Offer]:
        body = json.dumps({"batch": 100, "seq": 1, "next_by_subj": "work.>"}).encode()
        replies = self.client.link.replies("$JS.API.DIRECT.GET.WORK", body)
        return [Offer.FromString(data) async for _, data in replies]

    async def count_offers(self) -> int:
        return len(await self.offers())


@pytest.fixture
async def worker(connect: Connect) -> PlayedWorker:
    return PlayedWorker(await connect("w1"))


async def test_a_run_goes_from_submit_to_its_end_by_facts_alone(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub, env="CartPole-v1", algo="ppo", seed=7)
    assert run.phase == QUEUED
    assert run.name.startswith("CartPole-v1__ppo__7__")
    await worker.start(run.id)
    await until(phase_is(stub, run.id, RUNNING))
    await worker.beat(run.id, step=42)
    await until(lambda: stub.Get(wire.GetRequest(run_id=run.id)).progress.step == 42)
    await worker.exit(run.id, counts=Counts(steps=100, episodes=3))
    await until(phase_is(stub, run.id, COMPLETED))
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
    assert "another spec" in error.value.details()
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
            assert error.value.details().startswith("spec")
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
    await until(phase_is(stub, run.id, STALE))
    await worker.beat(run.id)
    await until(phase_is(stub, run.id, RUNNING))
    await until(phase_is(stub, run.id, QUEUED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2
    assert [(o.run_id, o.attempt) for o in await worker.offers()] == [(run.id, 2)]
    await worker.exit(run.id, attempt=1)
    second = PlayedWorker(worker.client, "w2")
    await second.start(run.id, attempt=2)
    await until(phase_is(stub, run.id, RUNNING))
    await second.exit(run.id, attempt=2, exit_code=3, reason="exit code 3")
    await until(phase_is(stub, run.id, FAILED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.reason == "exit code 3"


async def set_beats(client: Any, **changes: object) -> None:
    """Change the stream of beats."""
    found = json.loads((await client.link.request("$JS.API.STREAM.INFO.BEATS", b"")).data)
    body = json.dumps({**found["config"], **changes}).encode()
    answer = json.loads((await client.link.request("$JS.API.STREAM.UPDATE.BEATS", body)).data)
    assert "error" not in answer, answer


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
    await until(phase_is(stub, run.id, RUNNING))
    # Beats are stored again, and this worker sends none: now it is he who is silent.
    await until(phase_is(stub, run.id, QUEUED))
    assert stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2


async def test_a_worker_lost_gives_the_run_back_at_once(served: Orchestrator, worker: PlayedWorker) -> None:
    stub = served.stub()
    run = submit(stub)
    await worker.start(run.id)
    await worker.exit(run.id, outcome=LOST, reason="restarted")
    await until(lambda: stub.Get(wire.GetRequest(run_id=run.id)).run.attempt == 2)


async def test_a_failing_run_backs_off_before_it_is_offered_again(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    run = submit(stub, retry=Retry(max_attempts=2, backoff_seconds=1.5))
    await worker.start(run.id)
    began = time.time()
    said = AttemptExited(attempt=1, outcome=EXITED, exit_code=1, reason="boom")
    await worker.say(attempts_subject(run.id), Fact(at=int(began * 1e6), attempt_exited=said))
    await until(phase_is(stub, run.id, QUEUED))

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
    await asyncio.sleep(0.5)
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
    await until(phase_is(stub, run.id, RUNNING))
    assert stub.Cancel(wire.CancelRequest(run_id=run.id)).run.phase == CANCELLING
    assert stub.Cancel(wire.CancelRequest(run_id=run.id)).run.phase == CANCELLING
    await worker.exit(run.id, outcome=2, signal=15)
    await until(phase_is(stub, run.id, CANCELLED))


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


async def test_two_orchestrators_at_once_make_one_decision_each(
    served: Orchestrator, nats_server: NatsServer, tmp_path: Path, worker: PlayedWorker
) -> None:
    with orchestrator(nats_server, tmp_path, **PATIENT) as second:
        one, two = served.stub(), second.stub()
        runs = [submit(one if n % 2 else two) for n in range(20)]
        for run in runs:
            await worker.start(run.id)
            await worker.exit(run.id, exit_code=run.id.encode()[-1] % 2, reason="odd")
        for run in runs:
            ending = FAILED if run.id.encode()[-1] % 2 else COMPLETED
            await until(phase_is(one, run.id, ending))
            await until(phase_is(two, run.id, ending))
            history, _ = await worker.client.log.read(f"runs.{run.id}")
            kinds = [f.WhichOneof("kind") for r in history for f in r.commit.facts]
            assert len(kinds) == len(set(kinds)) == 4, kinds
        await until_async(worker.offers, [])


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
    await until(lambda: [w.id for w in stub.ListWorkers(wire.ListWorkersRequest()).workers] == ["w1"])


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
    assert "Did you mean 'RUNS'?" in error.value.details()


async def test_a_restarted_orchestrator_finishes_what_happened_meanwhile(
    served: Orchestrator, worker: PlayedWorker
) -> None:
    stub = served.stub()
    runs = [submit(stub) for _ in range(5)]
    served.kill()
    for run in runs:
        await worker.start(run.id)
        await worker.exit(run.id)
    served.start()
    stub = served.stub()
    for run in runs:
        await until(phase_is(stub, run.id, COMPLETED))


@pytest.mark.parametrize("away", ["nothing", "nats"])
async def test_a_terminated_orchestrator_leaves_within_seconds(
    nats_server: NatsServer, tmp_path: Path, away: str
) -> None:
    for _ in range(3):
        with orchestrator(nats_server, tmp_path) as service:
            submit(service.stub())
            if away == "nats":
                nats_server.kill()
            assert service.process
            service.process.terminate()
            assert service.process.wait(30) == 0
        if away == "nats":
            nats_server.start()


async def test_tokens_decide_who_may_read_and_who_may_write(nats_server: NatsServer, tmp_path: Path) -> None:
    tokens = [
        {"name": "ann", "sha256": sha256(b"secret-ann").hexdigest(), "scope": "run"},
        {"name": "eve", "sha256": sha256(b"secret-eve").hexdigest(), "scope": "read"},
    ]
    file = tmp_path / "tokens.json"
    file.write_text(json.dumps(tokens))
    with orchestrator(nats_server, tmp_path, RUNSPINE_TOKENS_FILE=str(file)) as service:
        stub = service.stub()

        def as_user(token: str) -> dict[str, Any]:
            return {"metadata": [("authorization", f"Bearer {token}")]}

        ann, eve = as_user("secret-ann"), as_user("secret-eve")
        assert stub.Submit(wire.SubmitRequest(spec=spec()), **ann).run.submitted_by == "ann"
        assert stub.List(wire.ListRequest(), **eve).total == 1
        refused = [
            (lambda: stub.List(wire.ListRequest()), grpc.StatusCode.UNAUTHENTICATED),
            (lambda: stub.List(wire.ListRequest(), **as_user("guess")), grpc.StatusCode.UNAUTHENTICATED),
            (lambda: stub.Submit(wire.SubmitRequest(spec=spec()), **eve), grpc.StatusCode.PERMISSION_DENIED),
            (lambda: next(stub.Watch(wire.WatchRequest())), grpc.StatusCode.UNAUTHENTICATED),
        ]
        for call, code in refused:
            with pytest.raises(grpc.RpcError) as error:
                call()
            assert error.value.code() == code


@pytest.mark.parametrize(
    ("environment", "says"),
    [
        ({"RUNSPINE_GRPC_ADDRESS": "0.0.0.0:0"}, "set RUNSPINE_TOKENS_FILE"),
        ({"RUNSPINE_GRPC_ADDRESS": "nonsense"}, "RUNSPINE_GRPC_ADDRESS"),
        ({"RUNSPINE_OFFER_WINDOW": "many"}, "RUNSPINE_OFFER_WINDOW"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(
    nats_server: NatsServer, tmp_path: Path, environment: dict[str, str], says: str
) -> None:
    service = Orchestrator(nats_server, tmp_path, environment)
    service.start()
    assert service.process
    try:
        assert service.process.wait(20) != 0
    finally:
        service.stop()
    assert says in service.output()
