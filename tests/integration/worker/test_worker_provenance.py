"""What an attempt ran with is on the log with its start, and the list of packages in S3."""

from __future__ import annotations

import hashlib
import platform
import subprocess
import sys
from pathlib import Path

from runspine.services.worker.claim.capacity import CapacityShare
from runspine.services.worker.claim.provenance import ProvenanceReader
from runspine.storage.blobs import S3Blobs
from runspine.storage.keys import packages_key
from runspine.wire.v1.facts_pb2 import Capacity
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay


async def test_an_attempt_starts_with_its_provenance(bay: Bay) -> None:
    bay.worker(RUNSPINE_IMAGE="example.org/train@sha256:abc")
    run_id = await bay.submit("python", "-c", "pass", seed=7, variables={"PYTHONHASHSEED": "0"})
    assert (await bay.exited(run_id)).exit_code == 0
    found = (await bay.start_of(run_id, 1)).provenance
    assert found.python == f"{platform.python_implementation()} {platform.python_version()}"
    assert (found.python_path, found.machine) == (sys.executable, platform.machine())
    assert found.cpus > 0
    assert found.memory_mib > 0
    assert platform.release() in found.system
    assert (found.determinism["seed"], found.determinism["PYTHONHASHSEED"]) == ("7", "0")
    assert found.determinism["OMP_NUM_THREADS"] == "1"
    assert found.image == "example.org/train@sha256:abc"
    blobs = S3Blobs(bay.s3.settings())
    listed = await eventually(lambda: blobs.get(packages_key(found.packages)))
    assert hashlib.sha256(listed).hexdigest() == found.packages
    lines = listed.decode().splitlines()
    assert len(lines) == found.package_count
    assert any(line.startswith("protobuf==") for line in lines)


async def test_another_program_has_no_python_and_a_run_starts_without_s3(frail: Bay) -> None:
    frail.worker()
    await frail.online()
    frail.s3.stop()
    run_id = await frail.submit("true")
    assert (await frail.exited(run_id)).exit_code == 0
    found = (await frail.start_of(run_id, 1)).provenance
    assert (found.python, found.packages) == ("", "")
    assert found.system


async def test_an_interpreter_is_asked_again_after_an_installation_and_never_one_of_the_run(
    bay: Bay, tmp_path: Path
) -> None:
    environment = tmp_path / "venv"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", environment], check=True)
    python = str(environment / "bin" / "python")
    reader = ProvenanceReader(await bay.s3.ready(), Capacity(), tmp_path / "worker")
    share = CapacityShare(1, 1, ())
    first = await reader.describe(RunSpec(), [python], {}, share)
    assert first.python
    assert first.package_count == 0
    folder = next(environment.glob("lib/python*/site-packages"))
    (folder / "extra-1.5.dist-info").mkdir()
    (folder / "extra-1.5.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: Extra\nVersion: 1.5\n"
    )
    second = await reader.describe(RunSpec(), [python], {}, share)
    assert second.package_count == 1
    assert await S3Blobs(bay.s3.settings()).get(packages_key(second.packages)) == b"extra==1.5\n"
    inside = tmp_path / "worker" / "runs" / "x" / "python"
    inside.parent.mkdir(parents=True)
    inside.write_text("#!/bin/sh\ntouch was_started\n")
    inside.chmod(0o755)
    assert not (await reader.describe(RunSpec(), [str(inside)], {}, share)).python
    assert not list(tmp_path.rglob("was_started"))
