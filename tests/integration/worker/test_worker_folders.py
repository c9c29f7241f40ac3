"""Directories of ended runs leave a worker's disk once everything of them is stored, and never before."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from runspine.eventlog.subjects import worker_subject
from runspine.services.worker.machine.run_folders import Removal
from runspine.wire.v1.facts_pb2 import Fact, RemovedFolder, RunCompleted, RunStarted
from runspine.wire.v1.run_pb2 import Beat, MachineStatus
from tests.kit.waiting import eventually
from tests.kit.worker import Rig
from tests.kit.worker_with_s3 import Bay

# Nothing of an ended run is kept, and a sweep is near.
AT_ONCE: dict[str, Any] = {
    "RUNSPINE_KEEP_RUN_HOURS": "0",
    "RUNSPINE_SWEEP_SECONDS": "0.2",
    "RUNSPINE_MACHINE_SECONDS": "0.2",
}

# Leaves a model, a deep and closed folder, and links to what must stay.
LITTER = """
import json, os, sys
outside = sys.argv[1]
os.makedirs("a/b/c")
open("a/b/c/file", "w").write("x" * 5000)
os.symlink(outside, "a/folder")
os.symlink(os.path.join(outside, "file"), "a/b/file")
os.symlink(outside, "moved-1")
os.chmod("a/b", 0)
open("model.bin", "w").write("weights")
print(json.dumps({"type": "artifact", "kind": "model", "path": "model.bin"}), flush=True)
"""


async def complete(rig: Rig, run_id: str) -> None:
    """Decide, as the orchestrator does, that a run has ended."""
    await rig.decide(
        run_id,
        Fact(at=1, run_started=RunStarted(attempt=1, worker_id="w1")),
        Fact(at=2, run_completed=RunCompleted(attempt=1)),
    )


async def removed(rig: Rig) -> list[RemovedFolder]:
    facts = await rig.received(worker_subject("w1"))
    return [folder for fact in facts for folder in fact.folders_removed.folders]


async def machine(rig: Rig) -> MachineStatus:
    """The measurement in the newest heartbeat."""
    body = json.dumps({"last_by_subj": "beats.w1"}).encode()
    return Beat.FromString((await rig.link.request("$JS.API.DIRECT.GET.BEATS", body)).data).machine


def folder(rig: Rig, run_id: str) -> Path:
    return rig.folder / "w1" / "runs" / run_id


async def test_a_directory_goes_when_all_of_its_run_is_stored_and_links_are_not_followed(bay: Bay) -> None:
    outside = bay.folder / "outside"
    outside.mkdir()
    (outside / "file").write_text("mine")
    bay.worker(**AT_ONCE)
    other = await bay.python("import time; time.sleep(600)")
    await bay.started(other)
    run_id = await bay.submit("python", "-c", LITTER, str(outside))
    assert (await bay.exited(run_id)).exit_code == 0
    await bay.artifacts(run_id, 1)
    assert not await removed(bay), "the run has not ended yet: it may be tried again"
    await complete(bay, run_id)
    (gone,) = await eventually(lambda: removed(bay))
    assert (gone.run_id, gone.rule) == (run_id, "keep_run_hours=0")
    assert gone.bytes > 5000
    await eventually(lambda: not os.listdir(bay.folder / "w1" / "removing"))
    assert not folder(bay, run_id).exists()
    assert (outside / "file").read_text() == "mine"
    assert folder(bay, other).is_dir(), "the directory of a run that is held is not touched"

    async def status() -> MachineStatus | None:
        found = await machine(bay)
        return found if found.run_folders == 1 and found.HasField("run_folder_bytes") else None

    now = await eventually(status)
    assert 0 < now.disk_free <= now.disk_total
    assert not now.gpus


async def test_a_directory_stays_while_the_run_goes_on_or_its_files_wait_for_s3(frail: Bay) -> None:
    frail.worker(RUNSPINE_UPLOAD_WAIT="0", **AT_ONCE)
    await frail.online()
    frail.s3.stop()
    run_id = await frail.submit("python", "-c", LITTER, str(frail.folder))
    await frail.exited(run_id)
    await complete(frail, run_id)
    # A run that ends later and has nothing to upload goes first: sweeps have looked at both.
    later = await frail.submit("python", "-c", "print('done')")
    await frail.exited(later)
    await complete(frail, later)
    assert [each.run_id for each in await eventually(lambda: removed(frail))] == [later]
    assert folder(frail, run_id).is_dir()
    frail.s3.start()
    await frail.s3.ready()
    await frail.artifacts(run_id, 1)

    async def both() -> bool:
        return [each.run_id for each in await removed(frail)] == [later, run_id]

    await eventually(both)


async def test_a_worker_killed_while_it_removes_goes_on_after_its_restart(rig: Rig) -> None:
    worker = rig.worker(RUNSPINE_SWEEP_SECONDS="600")
    many = "import os\nfor n in range(2000): os.makedirs(f'{n % 50}/{n}'); open(f'{n % 50}/{n}/f', 'w')"
    run_id = await rig.python(many)
    await rig.exited(run_id)
    await complete(rig, run_id)
    worker.kill()
    removing = rig.folder / "w1" / "removing"
    second = rig.worker(**AT_ONCE)
    await eventually(lambda: removing.is_dir() and os.listdir(removing), poll=0.001)
    second.kill()
    left = [Removal.parse(name) for name in os.listdir(removing)]
    assert not folder(rig, run_id).exists(), "it was set aside before anything of it was removed"
    rig.worker(RUNSPINE_SWEEP_SECONDS="600")
    (gone,) = await eventually(lambda: removed(rig))
    await eventually(lambda: not os.listdir(removing))
    assert gone.run_id == run_id
    assert [(each.size, each.rule) for each in left if each] in ([], [(gone.bytes, gone.rule)])
    # A kill after the fact and before the rest: the next start records nothing twice.
    rig.workers[-1].kill()
    (removing / Removal(run_id, gone.bytes, gone.rule).name).mkdir()
    rig.worker(RUNSPINE_SWEEP_SECONDS="600")
    await eventually(lambda: not os.listdir(removing))
    assert await removed(rig) == [gone]
