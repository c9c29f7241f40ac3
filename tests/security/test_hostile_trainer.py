"""A hostile trainer in the stack of `runspine up`: of all escapes that it tries, none gets through."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import struct
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from tensorboard.compat.proto.event_pb2 import Event
from tensorboard.compat.proto.summary_pb2 import Summary

from runspine.embedded import Stack, running_stack
from runspine.services.worker.process.sandbox import ENGINES, SandboxError, find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.facts_pb2 import LIMIT
from runspine.wire.v1.run_pb2 import COMPLETED, FAILED, RUNNING
from runspine.wire.v1.spec_pb2 import Isolation, Limits, RunSpec
from tests.kit.client import PatientClient
from tests.kit.paths import ROOT
from tests.kit.trainers.bait import laid_out
from tests.kit.waiting import eventually

LEAST = 70
PATIENT = """
import os, pathlib, time
pathlib.Path('board').mkdir()
pathlib.Path('mine.txt').write_text('of another run')
while True:
    print('alive', flush=True)
    time.sleep(0.2)
"""
# What takes more than its share; by name, with its limits. The last one asks for more than the worker allows.
GREEDY: dict[str, tuple[str, Limits]] = {
    "start_processes_without_end": (
        "import os, time\nfor _ in range(2000):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
        Limits(processes=60),
    ),
    "take_all_memory": (
        "import time\nheld = []\nwhile len(held) < 60:\n    held.append(b'x' * (8 << 20)); time.sleep(0.01)\n"
        "time.sleep(60)",
        Limits(memory_mib=150),
    ),
    "fill_the_disk_with_files": (
        "import time\nfor n in range(300):\n    open(f'f{n}', 'wb').write(b'x' * (1 << 20))\ntime.sleep(60)",
        Limits(disk_mib=20),
    ),
    "write_one_file_without_end": (
        "import os\nos.truncate(os.open('big', os.O_CREAT | os.O_RDWR), 1 << 40)",
        Limits(disk_mib=20),
    ),
    "ask_for_more_processes_than_allowed": (
        "import os, time\nfor _ in range(2000):\n    if os.fork() == 0: time.sleep(60)\ntime.sleep(60)",
        Limits(processes=100_000),
    ),
}


async def submitted(client: PatientClient, *command: str, **fields: Any) -> str:
    spec = RunSpec(runner="script", command=command, isolation=Isolation(required=True), **fields)
    return str((await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id)


async def victim(client: PatientClient, stack: Stack) -> tuple[Path, psutil.Process]:
    """Another run on the same worker: a file of it, and its process as this machine sees it."""
    run_id = await submitted(client, "python", "-c", PATIENT)
    await client.until_phase(run_id, RUNNING)

    async def written() -> Path | None:
        return next(stack.home.worker.glob(f"*/runs/{run_id}/attempt-1/mine.txt"), None)

    path = await eventually(written)
    scalar = Summary(value=[Summary.Value(tag="of_another_run", simple_value=1.0)])
    record = Event(step=1, summary=scalar).SerializeToString()
    framed = struct.pack("<QI", len(record), 0) + record + bytes(4)
    (path.parent / "board" / "events.out.tfevents.1.other").write_bytes(framed)
    below = psutil.Process(stack.pid("worker")).children(recursive=True)
    return path, next(each for each in below if PATIENT in each.cmdline()[-1:])


def given(stack: Stack, other: Path, process: psutil.Process, seconds: float) -> dict[str, Any]:
    passwords = {**stack.credentials.nats, "s3": stack.credentials.s3_secret_key, "token": stack.token}
    return {
        "home": str(stack.home.path),
        "credentials": str(stack.home.credentials_file),
        "worker_dir": str(other.parents[3]),
        "worker": stack.pid("worker"),
        "other_file": str(other),
        "other_pid": process.pid,
        "digests": {name: hashlib.sha256(word.encode()).hexdigest() for name, word in passwords.items()},
        "sockets": [str(path) for path in Path("/tmp").glob("seaweedfs-*.sock")][:20],
        "nats": stack.addresses["nats"],
        "s3": stack.addresses["s3"],
        "s3_access_key": stack.credentials.s3_keys["worker"].access,
        "orchestrator": stack.addresses["orchestrator"],
        "ports": list(json.loads(stack.home.ports_file.read_text()).values()),
        "race_seconds": seconds,
    }


async def attacked(stack: Stack, folder: Path, seconds: float) -> dict[str, str]:
    """Run the hostile trainers; what came of each escape."""
    client = PatientClient(stack)
    other, process = await victim(client, stack)
    before = stack.home.credentials_file.read_bytes()
    project = folder / "project"
    shutil.copytree(ROOT / "tests/kit/trainers/hostile", project / "hostile")
    with laid_out(folder) as bait:
        given_text = json.dumps({**given(stack, other, process, seconds), **bait})
        command = ("python", "-m", "hostile", given_text)
        run_id = await submitted(client, *command, workdir=str(project), limits=Limits(disk_mib=512))
        await client.until_phase(run_id, COMPLETED, 120 + seconds)
    (found,) = stack.home.worker.glob(f"*/runs/{run_id}/attempt-1/escapes.json")
    report: dict[str, str] = json.loads(found.read_text())
    for name, (script, limits) in GREEDY.items():
        report[name] = await overstepped(client, script, limits)
    assert process.is_running(), "another run was ended"
    assert psutil.pid_exists(given_worker(given_text)), "the worker was ended"
    assert stack.home.credentials_file.read_bytes() == before
    left = [each for each in psutil.process_iter(["cmdline"]) if given_text in (each.info["cmdline"] or [])]
    assert not left, "a process of the trainer outlived it"
    await only_its_own_was_stored(client, run_id)
    return report


def given_worker(given_text: str) -> int:
    """The process of the worker as it was before."""
    return int(json.loads(given_text)["worker"])


async def overstepped(client: PatientClient, script: str, limits: Limits) -> str:
    """What came of a trainer that takes more than its limits."""
    run_id = await submitted(client, "python", "-c", script, limits=limits)
    await client.until_phase(run_id, FAILED)
    commits = await client.read_log("ATTEMPTS")
    facts = [fact for subject, commit in commits if subject.endswith(run_id) for fact in commit.facts]
    (exited,) = [fact.attempt_exited for fact in facts if fact.HasField("attempt_exited")]
    # Python turns the signal for too large a file into an error.
    refused = exited.outcome == LIMIT or "File too large" in exited.reason
    return f"{'refused' if refused else 'GOT'}: {exited.reason}"[:200]


async def only_its_own_was_stored(client: PatientClient, run_id: str) -> None:
    own = {hashlib.sha256(data).hexdigest() for data in (b"its own", b"")}
    commits = await client.read_log("ATTEMPTS")
    facts = [fact for subject, commit in commits if subject.endswith(run_id) for fact in commit.facts]
    stored = {fact.artifact_produced.digest for fact in facts if fact.HasField("artifact_produced")}
    assert stored <= own
    run = (await client.call("Get", wire.GetRequest(run_id=run_id))).run
    assert run.counts.metrics == 0, "scalars of another run were read"


def table(report: dict[str, str]) -> str:
    """The escapes with what came of each."""
    width = max(map(len, report))
    return "\n" + "\n".join(f"{name:{width}}  {result}" for name, result in report.items())


@pytest.mark.parametrize(
    ("engine", "seconds"),
    [
        pytest.param("auto", 1.0, id="quick"),
        *(pytest.param(engine, 60.0, id=engine, marks=pytest.mark.long) for engine in ENGINES),
    ],
)
async def test_of_all_escapes_none_gets_through(
    engine: str, seconds: float, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        wanted = "require" if engine == "auto" else engine
        await asyncio.to_thread(find_sandbox, wanted, SandboxPolicy(tmp_path / "probe"))
    except SandboxError as reason:
        pytest.skip(str(reason))
    settings = {
        "RUNSPINE_WORKER_SANDBOX": engine,
        "RUNSPINE_WORKER_PROCESSES": "400",
        # So that a run without metrics has none at all.
        "RUNSPINE_SYSTEM_SECONDS": "0",
    }
    async with running_stack(tmp_path / "home", slots=2, settings=settings) as stack:
        report = await attacked(stack, tmp_path, seconds)
    through = {name: result for name, result in report.items() if result.startswith("GOT")}
    untried = {name: result for name, result in report.items() if result.startswith("not tried")}
    with capsys.disabled():
        print(table(report), file=sys.stderr)
        print(
            f"{len(report) - len(untried)} escapes tried, {len(untried)} not, {len(through)} got through",
            file=sys.stderr,
        )
    assert not through
    assert len(report) - len(untried) >= LEAST
