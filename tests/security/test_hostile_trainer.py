"""A hostile trainer in the stack of `runspine up`: of all escapes that it tries, none gets through."""

from __future__ import annotations

import asyncio
import hashlib
import json
import shutil
import sys
from multiprocessing.shared_memory import SharedMemory
from pathlib import Path
from typing import Any

import psutil
import pytest

from runspine.embedded import Stack, running_stack
from runspine.services.worker.process.sandbox import ENGINES, SandboxError, find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, RUNNING
from runspine.wire.v1.spec_pb2 import Isolation, Limits, RunSpec
from tests.kit.client import PatientClient
from tests.kit.paths import ROOT
from tests.kit.waiting import eventually

LEAST = 40
PATIENT = "import time, pathlib; pathlib.Path('mine.txt').write_text('of another run'); time.sleep(600)"


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
    below = psutil.Process(stack.pid("worker")).children(recursive=True)
    return path, next(each for each in below if PATIENT in each.cmdline()[-1:])


def given(stack: Stack, other: Path, process: psutil.Process, secret: Path, seconds: float) -> dict[str, Any]:
    passwords = {**stack.credentials.nats, "s3": stack.credentials.s3_secret_key, "token": stack.token}
    return {
        "home": str(stack.home.path),
        "credentials": str(stack.home.credentials_file),
        "worker_dir": str(other.parents[3]),
        "worker": stack.pid("worker"),
        "other_file": str(other),
        "other_pid": process.pid,
        "secret_file": str(secret),
        "digests": {name: hashlib.sha256(word.encode()).hexdigest() for name, word in passwords.items()},
        "sockets": [str(path) for path in Path("/tmp").glob("seaweedfs-*.sock")][:20],
        "nats": stack.addresses["nats"],
        "s3": stack.addresses["s3"],
        "orchestrator": stack.addresses["orchestrator"],
        "race_seconds": seconds,
    }


async def attacked(stack: Stack, folder: Path, seconds: float) -> dict[str, str]:
    """Run the hostile trainer; what it reports of each escape."""
    client = PatientClient(stack)
    other, process = await victim(client, stack)
    secret = folder / "user" / "secret"
    secret.parent.mkdir()
    secret.write_text("of the user")
    before = stack.home.credentials_file.read_bytes()
    project = folder / "project"
    shutil.copytree(ROOT / "tests/kit/trainers/hostile", project / "hostile")
    memory = SharedMemory(create=True, size=16)
    try:
        given_text = json.dumps({**given(stack, other, process, secret, seconds), "shm": [memory.name]})
        command = ("python", "-m", "hostile", given_text)
        run_id = await submitted(client, *command, workdir=str(project), limits=Limits(disk_mib=512))
        await client.until_phase(run_id, COMPLETED, 120 + seconds)
    finally:
        memory.close()
        memory.unlink()
    assert process.is_running(), "another run was ended"
    assert psutil.pid_exists(stack.pid("worker")), "the worker was ended"
    assert stack.home.credentials_file.read_bytes() == before
    assert not (secret.parent / "hostile").exists()
    left = [each for each in psutil.process_iter(["cmdline"]) if given_text in (each.info["cmdline"] or [])]
    assert not left, "a process of the trainer outlived it"
    await only_its_own_was_stored(client, run_id)
    (found,) = stack.home.worker.glob(f"*/runs/{run_id}/attempt-1/escapes.json")
    report: dict[str, str] = json.loads(found.read_text())
    return report


async def only_its_own_was_stored(client: PatientClient, run_id: str) -> None:
    own = hashlib.sha256(b"its own").hexdigest()
    commits = await client.read_log("ATTEMPTS")
    facts = [fact for subject, commit in commits if subject.endswith(run_id) for fact in commit.facts]
    stored = {fact.artifact_produced.digest for fact in facts if fact.HasField("artifact_produced")}
    assert stored <= {own}


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
    settings = {"RUNSPINE_WORKER_SANDBOX": engine}
    async with running_stack(tmp_path / "home", slots=2, settings=settings) as stack:
        report = await attacked(stack, tmp_path, seconds)
    through = {name: result for name, result in report.items() if result.startswith("GOT")}
    with capsys.disabled():
        print(f"\n{len(report)} escapes tried, {len(through)} got through", file=sys.stderr)
    assert not through
    assert len(report) >= LEAST
