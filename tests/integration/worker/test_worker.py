"""The worker against a real nats-server and real processes."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import signal
import sys
from typing import Any

import pytest

from runspine.eventlog.subjects import worker_subject
from runspine.wire.v1.facts_pb2 import EXITED, NOT_STARTED
from runspine.wire.v1.run_pb2 import Beat
from runspine.wire.v1.spec_pb2 import Value
from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, WORKER
from tests.kit.servers.nats import NatsServer
from tests.kit.waiting import eventually
from tests.kit.worker import Rig, forgotten, kept


async def test_a_script_runs_and_its_end_and_every_line_are_on_the_log(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python("import sys; print('one'); print('two'); print('three', file=sys.stderr)")
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.exit_code, exited.reason) == (EXITED, 0, "exit code 0")
    assert exited.counts.log_lines == 3
    assert exited.stderr_tail == "three"
    lines = await rig.lines(run_id)
    assert sorted(line.text for line in lines) == ["one", "three", "two"]
    assert [line.number for line in lines] == [1, 2, 3]
    assert {line.source for line in lines} == {STDOUT, STDERR}
    assert await rig.waiting_offers() == 0
    started = (await rig.started(run_id)).attempt_started
    assert started.worker_id == "w1"
    assert started.command[0] == sys.executable
    files = kept(started.directory)
    assert (files["stdout.log"], files["stderr.log"]) == ("one\ntwo\n", "three\n")
    assert json.loads(files["command.json"])["command"] == list(started.command)
    await forgotten(rig)


async def test_a_worker_announces_itself_and_sends_heartbeats(rig: Rig) -> None:
    worker = rig.worker(slots=3)
    online = (await rig.online()).worker_online
    assert (online.worker_id, online.slots, list(online.pools)) == ("w1", 3, ["default"])
    assert [runner.name for runner in online.runners if runner.takes_command] == ["script"]
    run_id = await rig.python(
        "print('global_step=9, episodic_return=[1.5]', flush=True); import time; time.sleep(60)"
    )

    async def probe() -> Beat | None:
        message = await rig.link.request("$JS.API.DIRECT.GET.BEATS", b'{"last_by_subj":"beats.w1"}')
        beat = Beat.FromString(message.data) if message.data else Beat()
        return beat if beat.attempts and beat.attempts[0].progress.step else None

    beat = await eventually(probe)
    assert (beat.attempts[0].run_id, beat.attempts[0].attempt) == (run_id, 1)
    assert beat.attempts[0].progress.last_return == 1.5
    worker.term()
    assert await asyncio.to_thread(worker.process.wait, 60) == 0
    emitted = await rig.received(worker_subject("w1"))
    assert [fact.WhichOneof("kind") for fact in emitted] == ["worker_online", "worker_offline"]


async def test_a_failing_script_leaves_a_reason_to_act_on(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(
        "import sys; print('boom: bad lr', file=sys.stderr); print(file=sys.stderr); sys.exit(3)"
    )
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.exit_code) == (EXITED, 3)
    assert exited.reason == "exit code 3: boom: bad lr"


async def test_a_script_killed_by_a_signal_is_reported_with_that_signal(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)")
    exited = await rig.exited(run_id)
    assert exited.signal == signal.SIGSEGV
    assert exited.reason.startswith("killed by SIGSEGV: a crash in native code. ")


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"command": ["no-such-program"]}, "program no-such-program is not on the worker's PATH"),
        ({"command": ["true"], "workdir": "/no/such/folder"}, "workdir /no/such/folder does not exist"),
        ({"command": ["true"], "secrets": ["WANDB_ABSENT"]}, "secret WANDB_ABSENT is not set"),
        ({"command": ["true"], "secrets": ["RUNSPINE_NATS_URL"]}, "belongs to the worker itself"),
    ],
)
async def test_a_run_that_cannot_start_ends_with_the_reason(
    rig: Rig, fields: dict[str, Any], reason: str
) -> None:
    rig.worker()
    command = fields.pop("command")
    run_id = await rig.submit(*command, **fields)
    exited = await rig.exited(run_id)
    assert exited.outcome == NOT_STARTED
    assert reason in exited.reason
    lines = await rig.lines(run_id)
    assert [(line.source, line.text) for line in lines] == [(WORKER, exited.reason)]


async def test_an_offer_given_to_two_workers_runs_once(rig: Rig) -> None:
    rig.worker("w1")
    rig.worker("w2")
    await rig.online("w1")
    await rig.online("w2")
    marks = rig.folder / "marks"
    os.mkdir(marks)
    script = f"open({str(marks / 'mark')!r}, 'a').write('x')"
    runs = [await rig.python(script, offers=3) for _ in range(5)]
    for run_id in runs:
        await rig.exited(run_id)

    async def none_left() -> bool:
        return await rig.waiting_offers() == 0

    await eventually(none_left)
    assert kept(str(rig.folder / "marks")) == {"mark": "xxxxx"}
    for run_id in runs:
        kinds = [fact.WhichOneof("kind") for fact in await rig.attempts(run_id)]
        assert kinds == ["attempt_started", "attempt_exited"]


async def test_a_late_word_on_an_earlier_attempt_does_not_lose_the_next(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python("raise SystemExit(1)")
    await rig.exited(run_id)
    await rig.requeue(run_id, 2)
    await rig.offer(run_id, 2)
    assert (await rig.exited(run_id, attempt=2)).exit_code == 1


async def test_a_killed_server_costs_no_line_and_no_end(rig: Rig, nats_server: NatsServer) -> None:
    rig.worker()
    script = "import time\nfor i in range(400):\n    print('line', i, flush=True)\n    time.sleep(0.01)"
    run_id = await rig.python(script)

    async def some() -> bool:
        return len(await rig.lines(run_id)) > 30

    for _ in range(2):
        await eventually(some)
        nats_server.kill()
        await asyncio.sleep(0.7)
        nats_server.start()
        await asyncio.sleep(0.5)
    exited = await rig.exited(run_id)
    assert (exited.outcome, exited.exit_code, exited.counts.log_lines) == (EXITED, 0, 400)
    assert await rig.texts(run_id) == [f"line {i}" for i in range(400)]
    numbers = [batch.number for batch in await rig.batches(run_id)]
    assert numbers == list(range(1, len(numbers) + 1))


async def test_a_run_that_ends_while_the_server_is_away_is_reported_later(
    rig: Rig, nats_server: NatsServer
) -> None:
    rig.worker()
    go, gone = rig.folder / "go", rig.folder / "gone"
    run_id = await rig.python(
        "import os, time; print('here', flush=True)\n"
        f"while not os.path.exists({str(go)!r}): time.sleep(0.02)\n"
        f"print('gone', flush=True); open({str(gone)!r}, 'w').close()"
    )

    async def here() -> bool:
        return await rig.texts(run_id) == ["here"]

    await eventually(here)
    nats_server.kill()
    go.touch()

    async def ended() -> bool:
        return gone.exists()

    await eventually(ended)
    await asyncio.sleep(1)
    nats_server.start()
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0
    assert await rig.texts(run_id) == ["here", "gone"]


async def test_a_line_of_five_megabytes_arrives_whole(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python("print('é' * 2_500_000); print('after')")
    exited = await rig.exited(run_id)
    lines = await rig.lines(run_id)
    assert "".join(line.text for line in lines[:-1]) == "é" * 2_500_000
    assert lines[-1].text == "after"
    assert exited.counts.log_lines == len(lines)
    assert all(batch.ByteSize() < 512 << 10 for batch in await rig.batches(run_id))


async def test_bytes_that_are_not_text_do_not_stop_the_reader(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(r"import sys; sys.stdout.buffer.write(b'a\xff\xfeb\n\x80\nend')")
    await rig.exited(run_id)
    assert await rig.texts(run_id) == ["a��b", "�", "end"]


async def test_a_secret_reaches_the_trainer_and_nothing_else(rig: Rig) -> None:
    secret = "tok-5f2a9c1e77d0"
    worker = rig.worker(API_TOKEN=secret, RUNSPINE_WORKER_SECRETS="API_TOKEN")
    script = (
        "import os, sys; v = os.environ['API_TOKEN']; assert len(v) == 16; print('using', v);"
        "sys.exit('refused ' + v + ' ' + sys.argv[1])"
    )
    run_id = await rig.submit("python", "-c", script, secret, secrets=["API_TOKEN"])
    exited = await rig.exited(run_id)
    assert exited.reason == "exit code 1: refused [secret API_TOKEN] [secret API_TOKEN]"
    assert "using [secret API_TOKEN]" in await rig.texts(run_id)
    received = str(await rig.attempts(run_id)) + str(await rig.batches(run_id)) + worker.log()
    assert secret not in received
    files = kept((await rig.started(run_id)).attempt_started.directory)
    assert all(secret not in text for text in files.values())


async def test_the_trainer_sees_the_spec_and_little_else(rig: Rig) -> None:
    rig.worker(HIDDEN="no", RUNSPINE_NATS_PASSWORD="no")
    run_id = await rig.python(
        "import os, json; print(json.dumps(dict(os.environ), indent=0))",
        seed=7,
        env="CartPole-v1",
        algo="ppo",
        total_steps=100,
        variables={"LR": "0.1"},
        params={"depth": Value(integer=3)},
    )
    await rig.exited(run_id)
    seen = json.loads("".join(await rig.texts(run_id)))
    assert {k: v for k, v in seen.items() if k.startswith("RUNSPINE_")} == {
        "RUNSPINE_RUN_ID": run_id,
        "RUNSPINE_ATTEMPT": "1",
        "RUNSPINE_RUN_DIR": (await rig.started(run_id)).attempt_started.directory,
        "RUNSPINE_SEED": "7",
        "RUNSPINE_ENV_ID": "CartPole-v1",
        "RUNSPINE_ENV_KWARGS": "{}",
        "RUNSPINE_ALGO": "ppo",
        "RUNSPINE_TOTAL_STEPS": "100",
        "RUNSPINE_PARAMS": '{"depth": 3}',
        "RUNSPINE_PROTOCOL": "1",
        "RUNSPINE_FRAMES": "1",
        "RUNSPINE_TELEMETRY_FD": seen["RUNSPINE_TELEMETRY_FD"],
        "RUNSPINE_TELEMETRY_PIPE": seen["RUNSPINE_TELEMETRY_PIPE"],
        "RUNSPINE_TELEMETRY_SOCKET": seen["RUNSPINE_TELEMETRY_SOCKET"],
        "RUNSPINE_INSTRUMENT": "native",
        "RUNSPINE_VIEW": seen["RUNSPINE_VIEW"],
    }
    assert (seen["LR"], seen["PYTHONUNBUFFERED"]) == ("0.1", "1")
    assert "HIDDEN" not in seen


async def test_several_pools_are_served_and_a_missing_consumer_is_waited_for(rig: Rig) -> None:
    worker = rig.worker(RUNSPINE_WORKER_POOLS="gpu,default")
    await rig.online()
    first = await rig.python("print('cpu')")
    assert (await rig.exited(first)).exit_code == 0
    await rig.consumer("gpu")
    second = await rig.python("print('gpu')", pool="gpu")
    assert (await rig.exited(second)).exit_code == 0
    assert '"level": "error"' not in worker.log()


async def test_progress_is_a_fact_now_and_then(rig: Rig) -> None:
    rig.worker(RUNSPINE_PROGRESS_SECONDS="0.3")
    run_id = await rig.python(
        "import json, time\nfor i in range(20):\n"
        "    step = {'episode_id': 'a', 'action': 0, 'reward': 1, 'terminated': False, 'truncated': False}\n"
        "    print(json.dumps({'type': 'step', 'step': i, **step}), flush=True); time.sleep(0.1)"
    )
    exited = await rig.exited(run_id)
    assert exited.counts.steps == 20
    assert await rig.texts(run_id) == []
    received = [fact for fact in await rig.attempts(run_id) if fact.HasField("attempt_progressed")]
    assert len(received) >= 2
    assert all(later.at - earlier.at > 250_000 for earlier, later in itertools.pairwise(received))
    steps = [emitted.attempt_progressed.progress.counts.steps for emitted in received]
    assert steps == sorted(set(steps))


async def test_a_second_process_with_the_same_directory_is_refused(rig: Rig) -> None:
    first = rig.worker()
    await rig.online()
    second = rig.worker()
    assert await asyncio.to_thread(second.process.wait, 60) == 2
    assert f"process {first.process.pid}" in second.log()
