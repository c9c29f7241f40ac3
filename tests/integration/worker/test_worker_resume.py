"""Checkpoints into S3 and back: uploads, resume, warm start, and what must never leave the worker."""

from __future__ import annotations

import asyncio
import base64
import json
import time
from collections.abc import AsyncIterator
from urllib.parse import quote

import pytest

from runspine.storage.blobs import S3Blobs
from runspine.wire.v1.facts_pb2 import HANDED_BACK, NOT_STARTED
from runspine.wire.v1.spec_pb2 import WarmStart
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay


async def test_a_checkpoint_is_in_s3_under_its_digest_before_the_run_ends(bay: Bay) -> None:
    bay.worker()
    run_id = await bay.count(2)
    assert (await bay.exited(run_id)).exit_code == 0
    kinds = [fact.WhichOneof("kind") for fact in await bay.attempts(run_id)]
    assert kinds == ["attempt_started", "artifact_produced", "artifact_produced", "attempt_exited"]
    second = (await bay.artifacts(run_id))[1]
    assert (second.kind, second.name, second.step, second.attempt) == ("checkpoint", "step-2.json", 2, 1)
    assert second.meta["score"].number == 1.5
    stored = await S3Blobs(bay.s3.settings()).get(second.key)
    assert stored == json.dumps({"step": 2, "run": run_id}).encode()
    assert second.key == f"artifacts/sha256/{second.digest[:2]}/{second.digest}"
    assert second.size == len(stored)
    assert not any((bay.folder / "w1" / "uploads").iterdir())


async def test_the_next_attempt_goes_on_elsewhere_after_its_worker_was_killed(bay: Bay) -> None:
    first = bay.worker("w1")
    run_id = await bay.count(6, 0.3)
    done = (await bay.artifacts(run_id, 2))[-1]
    first.kill()
    newest = (await bay.artifacts(run_id))[-1]
    assert newest.step >= done.step
    await bay.again(run_id, 2)
    bay.worker("w2")
    started = await bay.start_of(run_id, 2)
    assert started.worker_id == "w2"
    source = started.resumed_from
    assert (source.run_id, source.attempt, source.digest, source.step) == (
        run_id,
        1,
        newest.digest,
        newest.step,
    )
    assert (await bay.exited(run_id, 2)).exit_code == 0
    assert f"from {newest.step} resume" in await bay.texts(run_id)
    steps = [artifact.step for artifact in await bay.artifacts(run_id) if artifact.attempt == 2]
    assert steps == list(range(newest.step + 1, 7))


async def test_a_damaged_checkpoint_is_skipped_and_stored_again(bay: Bay) -> None:
    bay.worker(RUNSPINE_CHECKPOINT_PATIENCE="1")
    run_id = await bay.count(3)
    await bay.exited(run_id)
    blobs = S3Blobs(bay.s3.settings())
    _, second, third = await bay.artifacts(run_id)
    good = await blobs.get(third.key)
    assert good
    await blobs.put(third.key, good[:-1] + b"!")
    await bay.again(run_id, 2)
    assert (await bay.start_of(run_id, 2)).resumed_from.step == 2
    assert (await bay.exited(run_id, 2)).exit_code == 0
    emitted = await bay.remarks(run_id)
    assert any("checkpoint at step 3 is not used" in text and "SHA-256" in text for text in emitted)
    # Attempt 2 has made the same bytes again.
    assert await blobs.get(third.key) == good
    await blobs.delete(third.key)
    await blobs.put(second.key, b"short")
    await bay.again(run_id, 3)
    assert (await bay.start_of(run_id, 3)).resumed_from.step == 1
    await bay.exited(run_id, 3)
    emitted = await bay.remarks(run_id)
    assert any("step 3 is not used: it is gone from S3" in text for text in emitted)
    assert any("step 2 is not used: it has 5 bytes" in text for text in emitted)


async def test_a_run_without_any_good_checkpoint_starts_over_and_reports_it(bay: Bay) -> None:
    bay.worker(RUNSPINE_CHECKPOINT_PATIENCE="1")
    run_id = await bay.count(1)
    await bay.exited(run_id)
    (only,) = await bay.artifacts(run_id)
    await S3Blobs(bay.s3.settings()).delete(only.key)
    await bay.again(run_id, 2)
    assert (await bay.exited(run_id, 2)).exit_code == 0
    assert not (await bay.start_of(run_id, 2)).HasField("resumed_from")
    assert "from 0 None" in await bay.texts(run_id)
    assert any("starts again from step 0" in text for text in await bay.remarks(run_id))


@pytest.mark.long
async def test_s3_away_delays_uploads_but_neither_the_run_nor_its_count(frail: Bay) -> None:
    worker = frail.worker(RUNSPINE_UPLOAD_WAIT="1")
    run_id = await frail.count(3, 1.5)
    await frail.artifacts(run_id, 1)
    frail.s3.stop()
    down = time.monotonic()
    # It does not come back before the run has ended.
    assert (await frail.exited(run_id)).exit_code == 0
    assert any("not uploaded yet" in text for text in await frail.remarks(run_id))
    assert len(await frail.artifacts(run_id)) < 3
    # The intent survives the worker that made it.
    worker.kill()
    frail.worker(RUNSPINE_UPLOAD_WAIT="1")
    await asyncio.sleep(max(0.0, 15 - (time.monotonic() - down)))
    frail.s3.start()
    blobs = await frail.s3.ready()
    found = await frail.artifacts(run_id, 3)
    assert sorted(artifact.step for artifact in found) == [1, 2, 3]
    for artifact in found:
        assert await blobs.stat(artifact.key) == artifact.size

    async def forgotten() -> bool:
        return not any((frail.folder / "w1" / "uploads").iterdir())

    await eventually(forgotten)
    assert len(await frail.artifacts(run_id)) == 3


async def test_while_s3_is_away_the_next_attempt_waits_instead_of_starting_over(frail: Bay) -> None:
    frail.worker()
    run_id = await frail.count(1)
    await frail.exited(run_id)
    frail.s3.stop()
    await frail.again(run_id, 2)
    assert "its checkpoint cannot be fetched" in await eventually(lambda: frail.waits_for(run_id))
    frail.s3.start()
    await frail.s3.ready()
    assert (await frail.start_of(run_id, 2)).resumed_from.step == 1


async def test_a_checkpoint_that_a_working_s3_does_not_give_is_waited_for_before_it_is_given_up(
    bay: Bay,
) -> None:
    bay.worker()  # with the patience that it has by itself
    run_id = await bay.count(2)
    await bay.exited(run_id)
    blobs = S3Blobs(bay.s3.settings())
    second = (await bay.artifacts(run_id))[1]
    data = await blobs.get(second.key)
    assert data
    await blobs.delete(second.key)
    await bay.again(run_id, 2)
    reason = await eventually(lambda: bay.waits_for(run_id))
    assert reason.startswith("its checkpoint at step 2: it is gone from S3; it is requested again for 30 s")
    await asyncio.sleep(2)
    assert not any(fact.attempt_started.attempt == 2 for fact in await bay.attempts(run_id))
    # As when a server that was killed has come up again in full.
    await blobs.put(second.key, data)
    assert (await bay.start_of(run_id, 2)).resumed_from.step == 2


async def test_a_draining_worker_lets_a_trainer_save_and_the_next_goes_on_from_there(bay: Bay) -> None:
    first = bay.worker("w1")
    run_id = await bay.count(1000, 0.2)
    await bay.artifacts(run_id, 1)
    first.term()
    assert await asyncio.to_thread(first.process.wait, 60) == 0
    exited = await bay.exited(run_id)
    assert exited.outcome == HANDED_BACK
    saved = (await bay.artifacts(run_id))[-1]
    await bay.again(run_id, 2)
    bay.worker("w2")
    assert (await bay.start_of(run_id, 2)).resumed_from.digest == saved.digest


async def test_a_run_can_begin_with_another_runs_checkpoint(bay: Bay) -> None:
    bay.worker()
    old = await bay.count(3)
    await bay.exited(old)
    first, _, last = await bay.artifacts(old)
    newest = await bay.count(5, warm_start=WarmStart(run_id=old))
    await bay.exited(newest)
    source = (await bay.start_of(newest, 1)).resumed_from
    assert (source.run_id, source.digest, source.step) == (old, last.digest, 3)
    assert f"started warm from step 3 of attempt 1 of run {old}" in await bay.remarks(newest)
    assert "from 3 warm_start" in await bay.texts(newest)
    chosen = await bay.count(2, warm_start=WarmStart(run_id=old, digest=first.digest))
    await bay.exited(chosen)
    assert (await bay.start_of(chosen, 1)).resumed_from.digest == first.digest
    for wanted, reason in (
        (WarmStart(run_id=old, digest="a" * 64), f"run {old} has no checkpoint {'a' * 64}"),
        (WarmStart(run_id="01JCZW9T3N5Q8R7V2K4M6P0XYB"), "has no checkpoint"),
    ):
        exited = await bay.exited(await bay.count(1, warm_start=wanted))
        assert exited.outcome == NOT_STARTED
        assert reason in exited.reason


async def test_a_run_can_begin_with_an_imported_checkpoint(bay: Bay) -> None:
    bay.worker()
    old = await bay.count(3)
    await bay.exited(old)
    last = (await bay.artifacts(old))[-1]
    place = f"import-{last.digest[:32]}"
    wanted = WarmStart(run_id=place, digest=last.digest, name="weights.json", given="champion")
    run_id = await bay.count(5, warm_start=wanted)
    await bay.exited(run_id)
    source = (await bay.start_of(run_id, 1)).resumed_from
    assert (source.run_id, source.digest, source.warm_start) == (place, last.digest, True)
    assert f"started warm from imported checkpoint {place} (champion)" in await bay.remarks(run_id)
    assert "from 3 warm_start" in await bay.texts(run_id)


async def test_only_plain_files_of_the_run_are_uploaded(bay: Bay) -> None:
    bay.worker()
    script = """
import json, os
os.symlink("/etc/hostname", "link")
os.mkfifo("pipe")
os.mkdir("folder")
open("good", "w").write("fine")
os.symlink("good", "inner")
for path in ("/etc/hostname", "../../../lock", "link", "pipe", "folder", "absent", "a\\0b", "inner"):
    print(json.dumps({"type": "artifact", "kind": "model", "path": path}), flush=True)
"""
    run_id = await bay.python(script)
    await bay.exited(run_id)
    (uploaded,) = await bay.artifacts(run_id, 1)
    assert uploaded.name == "good"
    refused = [text for text in await bay.remarks(run_id) if text.startswith("artifact ")]
    assert len(refused) == 7
    assert sum("outside the run's directory" in text for text in refused) == 3
    assert sum("not a regular file" in text for text in refused) == 2


async def test_a_file_replaced_after_it_was_announced_is_uploaded_as_it_was(frail: Bay) -> None:
    frail.worker(RUNSPINE_UPLOAD_WAIT="0.5")
    frail.s3.stop()
    script = """
import glob, json, os, sys, time
for step in (1, 2):
    open("draft", "w").write(f"weights {step}")
    os.replace("draft", "latest")
    print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "latest", "step": step}), flush=True)
    while len(glob.glob(os.path.join(sys.argv[1], "*.json"))) < step: time.sleep(0.02)
os.remove("latest")
"""
    run_id = await frail.submit("python", "-c", script, str(frail.folder / "w1" / "uploads"))
    assert (await frail.exited(run_id)).exit_code == 0
    frail.s3.start()
    blobs = await frail.s3.ready()
    found = await frail.artifacts(run_id, 2)
    assert [await blobs.get(artifact.key) for artifact in found] == [b"weights 1", b"weights 2"]


async def test_a_file_overwritten_in_place_is_never_stored_under_a_wrong_digest(frail: Bay) -> None:
    frail.worker(RUNSPINE_UPLOAD_WAIT="20")
    frail.s3.stop()
    script = """
import glob, json, os, sys, time
for step in (1, 2):
    open("latest", "w").write(f"weights {step}")
    print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "latest", "step": step}), flush=True)
    while len(glob.glob(os.path.join(sys.argv[1], "*.json"))) < step: time.sleep(0.02)
"""
    run_id = await frail.submit("python", "-c", script, str(frail.folder / "w1" / "uploads"))
    await both_handed_in(frail)
    frail.s3.start()
    blobs = await frail.s3.ready()
    assert (await frail.exited(run_id)).exit_code == 0
    (kept,) = await frail.artifacts(run_id, 1)
    assert (kept.step, await blobs.get(kept.key)) == (2, b"weights 2")
    assert any("latest was overwritten" in text for text in await frail.remarks(run_id))


async def both_handed_in(bay: Bay) -> None:
    """Both of its files have been handed in."""

    async def probe() -> bool:
        return len(list((bay.folder / "w1" / "uploads").glob("*.json"))) == 2

    await eventually(probe)


SECRET = "k3y/with+signs=and some-length"
LEAKY = """
import base64, json, os, sys, time, urllib.parse
key = os.environ["WANDB_API_KEY"]
forms = [key, urllib.parse.quote(key, safe=""), base64.b64encode(f"user:{key}".encode()).decode()]
for form in forms:
    print("out", form, flush=True)
    print("err", form, file=sys.stderr, flush=True)
print(json.dumps({"type": "config", "args": {"key": key}}), flush=True)
print(json.dumps({"type": "metric", "name": f"loss/{key}", "value": 1.0}), flush=True)
for name, content in (("leaky.txt", f"token: {key}"), ("clean.txt", "nothing here")):
    open(name, "w").write(content)
    record = {"type": "artifact", "kind": key, "path": name, "name": f"{name} {key}", "meta": {key: [key, 1]}}
    print(json.dumps(record), flush=True)
while not os.path.exists(sys.argv[1]): time.sleep(0.02)  # until the worker has had its look at it
os.remove("leaky.txt")
raise RuntimeError(f"bad key {key}")
"""


async def test_no_secret_is_left_anywhere_after_a_run_that_used_one(bay: Bay) -> None:
    bay.worker(WANDB_API_KEY=SECRET)
    looked = bay.folder / "looked"
    run_id = await bay.submit("python", "-c", LEAKY, str(looked), secrets=["WANDB_API_KEY"])

    async def noticed() -> bool:
        return any("holds the value of secret" in text for text in await bay.remarks(run_id))

    await eventually(noticed)
    looked.touch()
    exited = await bay.exited(run_id)
    assert exited.exit_code == 1
    (uploaded,) = await bay.artifacts(run_id, 1)
    assert uploaded.name == "clean.txt [secret WANDB_API_KEY]"
    assert any("holds the value of secret WANDB_API_KEY" in text for text in await bay.remarks(run_id))

    places: dict[str, bytes] = {}
    for stream in ("RUNS", "ATTEMPTS", "TELEMETRY", "ARTIFACTS", "WORK", "BEATS"):
        places |= {f"{stream} {n}": data async for n, data in messages(bay, stream)}
    assert any(name.startswith("TELEMETRY") for name in places)
    blobs = S3Blobs(bay.s3.settings())
    for key in await blobs.keys(""):
        places[f"s3 {key}"] = await blobs.get(key) or b""
    assert f"s3 {uploaded.key}" in places
    for path in (bay.folder / "w1").rglob("*"):
        if path.is_file():
            places[str(path)] = path.read_bytes()
    assert any(name.endswith("stdout.log") for name in places)
    text = SECRET.encode()
    forms = {text, quote(SECRET, safe="").encode(), json.dumps(SECRET)[1:-1].encode()}
    forms |= {base64.b64encode(b"user:" + text)[7:-4], base64.b64encode(text)[:-4]}
    leaks = [(name, form) for name, data in places.items() for form in forms if form in data]
    assert leaks == []


async def messages(bay: Bay, stream: str) -> AsyncIterator[tuple[int, bytes]]:
    """Every message of a stream, headers included, as stored."""
    info = json.loads((await bay.link.request(f"$JS.API.STREAM.INFO.{stream}", b"")).data)
    for number in range(info["state"]["first_seq"], info["state"]["last_seq"] + 1):
        body = json.dumps({"seq": number}).encode()
        answer = json.loads((await bay.link.request(f"$JS.API.STREAM.MSG.GET.{stream}", body)).data)
        if "message" in answer:
            found = answer["message"]
            yield number, base64.b64decode(found.get("data", "")) + base64.b64decode(found.get("hdrs", ""))
