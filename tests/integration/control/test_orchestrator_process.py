"""The orchestrator as a process: two at once, restarted, terminated, with tokens and with wrong settings."""

from __future__ import annotations

import json
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import pytest

from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED
from tests.kit.orchestrator import Orchestrator, orchestrator
from tests.kit.played_worker import PATIENT, PlayedWorker, phase_is, spec, submit, until_async
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually


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
            await eventually(phase_is(one, run.id, ending))
            await eventually(phase_is(two, run.id, ending))
            history, _ = await worker.client.log.read(f"runs.{run.id}")
            kinds = [f.WhichOneof("kind") for r in history for f in r.commit.facts]
            assert len(kinds) == len(set(kinds)) == 4, kinds
        await until_async(worker.offers, [])


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
        await eventually(phase_is(stub, run.id, COMPLETED))


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
    ("environment", "reports"),
    [
        ({"RUNSPINE_GRPC_ADDRESS": "0.0.0.0:0"}, "set RUNSPINE_TOKENS_FILE"),
        ({"RUNSPINE_GRPC_ADDRESS": "nonsense"}, "RUNSPINE_GRPC_ADDRESS"),
        ({"RUNSPINE_OFFER_WINDOW": "many"}, "RUNSPINE_OFFER_WINDOW"),
    ],
)
def test_a_wrong_setting_stops_the_start_and_is_named(
    nats_server: NatsServer, tmp_path: Path, environment: dict[str, str], reports: str
) -> None:
    service = Orchestrator(nats_server, tmp_path, environment)
    service.start()
    assert service.process
    try:
        assert service.process.wait(20) != 0
    finally:
        service.stop()
    assert reports in service.output()
