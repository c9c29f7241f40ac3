"""Code of runs on a worker: fetched, verified and copied before a trainer starts, or not started at all."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import shutil
import venv
from pathlib import Path

import pytest

from runspine.code.tree import FORMAT, LINK, TreeEntry
from runspine.storage.keys import code_key
from runspine.wire.v1.facts_pb2 import EXITED, NOT_STARTED
from runspine.wire.v1.spec_pb2 import Code
from tests.kit.code import code_in, store_tree
from tests.kit.waiting import eventually
from tests.kit.worker_with_s3 import Bay

MAIN = b"""
import json, os, pathlib, sys
from pkg import value
data = pathlib.Path("../data/in.txt").read_text()
print("cwd", os.path.relpath(os.getcwd(), os.environ["RUNSPINE_RUN_DIR"]), value.V, data, flush=True)
pathlib.Path("../data/in.txt").write_text("changed by the run")
pathlib.Path("runs/x").mkdir(parents=True)
pathlib.Path("runs/x/events.out.tfevents.1").write_text("event")
pathlib.Path("model.bin").write_text("weights")
print(json.dumps({"type": "artifact", "kind": "checkpoint", "path": "model.bin", "step": 1}), flush=True)
"""
PROJECT = {
    "app/main.py": MAIN,
    "app/pkg/__init__.py": b"",
    "app/pkg/value.py": b"V = 1\n",
    "app/runs/old/events.out.tfevents.0": b"of an earlier run elsewhere",
    "data/in.txt": b"input",
    "run.sh": b"#!/bin/sh\nexec python app/main.py\n",
}


def cached(bay: Bay, data: bytes, worker: str = "w1") -> Path:
    return bay.folder / worker / "code" / "files" / hashlib.sha256(data).hexdigest()


async def run_main(bay: Bay, tree_code: Code) -> str:
    return await bay.submit("python", "main.py", code=tree_code)


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_program_runs_in_a_copy_of_its_code_with_its_paths(bay: Bay, sandbox: str) -> None:
    link = TreeEntry("app/link.py", LINK, target="pkg/value.py")
    tree = await store_tree(await bay.s3.ready(), PROJECT, link)
    bay.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    for _ in range(2):
        run_id = await run_main(bay, code_in(tree, "app"))
        assert (await bay.exited(run_id)).exit_code == 0
        # What the first run wrote into its copy, the second does not see.
        assert "cwd work/app 1 input" in await bay.texts(run_id)
        found = {(each.kind, each.name) for each in await bay.artifacts(run_id, 2)}
        assert found == {("checkpoint", "model.bin"), ("tensorboard", "runs/x/events.out.tfevents.1")}
    assert cached(bay, b"V = 1\n").stat().st_mode & 0o222 == 0
    assert (bay.folder / "w1" / "runs" / run_id / "attempt-1/work/app/link.py").is_symlink()


@pytest.mark.parametrize("sandbox", ["auto", "off"])
async def test_a_program_runs_with_the_virtualenv_of_its_project(
    bay: Bay, tmp_path: Path, sandbox: str
) -> None:
    """It stays where it is, outside of the tree; the program reads it there."""
    place = tmp_path / "project" / ".venv"
    await asyncio.to_thread(venv.create, place, symlinks=True)
    package = next(place.glob("lib/python3*/site-packages")) / "special.py"
    package.write_text("NAME = 'of the virtualenv'")
    main = b"import special; open('written', 'w').write('1'); print('special', special.NAME)"
    tree = await store_tree(await bay.s3.ready(), {"main.py": main})
    bay.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    python = f"{place}/bin/python"
    for words in ([python, "main.py"], ["env", "A=1", python, "main.py"], ["sh", "-c", f"{python} main.py"]):
        run_id = await bay.submit(*words, code=code_in(tree))
        assert (await bay.exited(run_id)).exit_code == 0, await bay.texts(run_id)
        assert "special of the virtualenv" in await bay.texts(run_id)
        assert (bay.folder / "w1" / "runs" / run_id / "attempt-1/work/written").is_file()


async def test_a_program_of_the_tree_keeps_its_executable_bit(bay: Bay) -> None:
    tree = await store_tree(await bay.s3.ready(), {"run.sh": b"#!/bin/sh\necho from the script\n"})
    bay.worker()
    run_id = await bay.submit("./run.sh", code=code_in(tree))
    assert (await bay.exited(run_id)).exit_code == 0
    assert "from the script" in await bay.texts(run_id)


@pytest.mark.parametrize("harm", ["changed", "truncated", "link", "writable", "removed", "manifest"])
async def test_a_poisoned_cache_is_noticed_before_use(bay: Bay, harm: str) -> None:
    tree = await store_tree(await bay.s3.ready(), PROJECT)
    bay.worker()
    first = await run_main(bay, code_in(tree, "app"))
    assert (await bay.exited(first)).exit_code == 0
    path = cached(bay, b"V = 1\n")
    if harm == "manifest":
        path = bay.folder / "w1" / "code" / "trees" / tree.digest
    poison(path, harm)
    second = await run_main(bay, code_in(tree, "app"))
    assert (await bay.exited(second)).exit_code == 0
    assert "cwd work/app 1 input" in await bay.texts(second)
    if harm not in ("removed", "manifest"):
        assert any("this host's copy was changed" in text for text in await bay.remarks(second))


def poison(path: Path, harm: str) -> None:
    path.chmod(0o600)
    match harm:
        case "changed" | "manifest":
            path.write_bytes(b"V = 9\n")
        case "truncated":
            path.write_bytes(b"")
        case "link":
            other = path.with_name("other")
            other.write_bytes(b"V = 9\n")
            path.unlink()
            path.symlink_to(other)
        case "writable":
            path.chmod(0o666)
        case "removed":
            path.unlink()


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file to another user")
async def test_a_file_of_another_user_in_the_cache_is_not_used(bay: Bay) -> None:
    tree = await store_tree(await bay.s3.ready(), PROJECT)
    bay.worker()
    assert (await bay.exited(await run_main(bay, code_in(tree, "app")))).exit_code == 0
    os.chown(cached(bay, b"V = 1\n"), 12345, 12345)
    run_id = await run_main(bay, code_in(tree, "app"))
    assert (await bay.exited(run_id)).exit_code == 0
    assert any("belongs to another user (12345)" in text for text in await bay.remarks(run_id))
    assert cached(bay, b"V = 1\n").stat().st_uid == 0


@pytest.mark.parametrize(
    "entries",
    [
        [["file", "../../escaped", 1, "ab" * 32]],
        [["file", "/etc/escaped", 1, "ab" * 32]],
        [["link", "out", "/etc"], ["file", "out/escaped", 1, "ab" * 32]],
        [["link", "out", "../../.."]],
        [["device", "null", 1, 3]],
    ],
)
async def test_a_hostile_tree_never_starts_and_writes_nothing(bay: Bay, entries: list[list[object]]) -> None:
    lines = [json.dumps({"format": FORMAT}), *map(json.dumps, entries)]
    data = ("\n".join(lines) + "\n").encode()
    digest = hashlib.sha256(data).hexdigest()
    blobs = await bay.s3.ready()
    await blobs.put(code_key(digest, tree=True), data)
    await blobs.put(code_key("ab" * 32), b"x")
    bay.worker()
    run_id = await bay.submit("true", code=Code(tree=digest))
    exited = await bay.exited(run_id)
    assert (exited.outcome, exited.reason[:6]) == (NOT_STARTED, "code: ")
    assert not list(bay.folder.rglob("*escaped*"))


async def test_bytes_in_s3_that_are_not_of_their_digest_do_not_start(bay: Bay) -> None:
    blobs = await bay.s3.ready()
    tree = await store_tree(blobs, {**PROJECT, "app/own.py": b"own of this test"})
    await blobs.put(code_key(hashlib.sha256(b"own of this test").hexdigest()), b"other bytes here")
    bay.worker()
    exited = await bay.exited(await run_main(bay, code_in(tree, "app")))
    assert exited.outcome == NOT_STARTED
    assert "app/own.py is damaged in S3" in exited.reason


async def test_a_file_that_is_gone_from_s3_is_named_after_it_was_confirmed(bay: Bay) -> None:
    files = {**PROJECT, "app/lost.py": b"lost in this test"}
    tree = await store_tree(await bay.s3.ready(), files, without=("app/lost.py",))
    bay.worker(RUNSPINE_CHECKPOINT_PATIENCE="1")
    exited = await bay.exited(await run_main(bay, code_in(tree, "app")))
    assert exited.outcome == NOT_STARTED
    assert "app/lost.py is gone from S3" in exited.reason


async def test_a_run_waits_for_s3_and_starts_with_its_whole_tree(frail: Bay) -> None:
    tree = await store_tree(await frail.s3.ready(), PROJECT)
    frail.worker()
    await frail.online()
    frail.s3.stop()
    run_id = await run_main(frail, code_in(tree, "app"))

    async def waits() -> bool:
        return "its code cannot be fetched" in (await frail.waits_for(run_id) or "")

    await eventually(waits)
    frail.s3.start()
    exited = await frail.exited(run_id)
    assert (exited.outcome, exited.exit_code) == (EXITED, 0)
    assert "cwd work/app 1 input" in await frail.texts(run_id)


CHECK = b"""
import hashlib, json, os, pathlib
root = pathlib.Path(".")
names = sorted(str(path) for path in root.rglob("*") if path.is_file())
whole = hashlib.sha256()
for name in names:
    whole.update(name.encode() + b"\\0" + pathlib.Path(name).read_bytes())
print("tree", len(names), whole.hexdigest(), flush=True)
"""


def expected(files: dict[str, bytes]) -> str:
    whole = hashlib.sha256()
    for name in sorted(files):
        whole.update(name.encode() + b"\0" + files[name])
    return f"tree {len(files)} {whole.hexdigest()}"


async def killed_again_and_again(frail: Bay, kills: int) -> None:
    """Kill the worker or S3 while it materialises a tree of its own; then the run must have all of it."""
    blobs = await frail.s3.ready()
    worker = frail.worker()
    for number in range(kills):
        files = {f"d{index % 7}/{number}-{index}.txt": b"%d %d" % (number, index) for index in range(200)}
        files["check.py"] = CHECK
        tree = await store_tree(blobs, files)
        drafts = frail.folder / "w1" / "code" / "files"
        before = len(list(drafts.iterdir())) if drafts.is_dir() else 0
        run_id = await frail.submit("python", "check.py", code=code_in(tree))
        least = before + (number * 37) % 190 + 1
        await eventually(lambda d=drafts, n=least: d.is_dir() and len(list(d.iterdir())) >= n)  # type: ignore[misc]
        if number % 3 == 1:
            frail.s3.stop()
            frail.s3.start()
            await frail.s3.ready()
        else:
            worker.kill()
            worker = frail.worker()
        exited = await ended(frail, run_id)
        assert exited == [0], f"kill {number}: {exited}"
        assert await frail.texts(run_id) == [expected(files)]


async def ended(frail: Bay, run_id: str) -> list[int]:
    """Exit codes of attempts that ran; one that was lost with its worker is offered again."""
    attempt = 1

    async def probe() -> list[int] | None:
        nonlocal attempt
        facts = await frail.attempts(run_id)
        done = [fact.attempt_exited for fact in facts if fact.HasField("attempt_exited")]
        codes = [each.exit_code for each in done if each.outcome == EXITED]
        if done and not codes and done[-1].attempt == attempt:
            attempt += 1
            await frail.again(run_id, attempt)
        return codes or None

    return await eventually(probe)


@pytest.mark.long
async def test_no_run_starts_with_half_a_tree_when_its_worker_or_s3_is_killed(frail: Bay) -> None:
    await killed_again_and_again(frail, 3)


@pytest.mark.long
async def test_no_run_starts_with_half_a_tree_after_thirty_kills(frail: Bay) -> None:
    await killed_again_and_again(frail, 30)


async def test_code_that_was_not_used_for_long_is_evicted(bay: Bay) -> None:
    tree = await store_tree(await bay.s3.ready(), PROJECT)
    bay.worker(RUNSPINE_CODE_CACHE_MIB="0")
    assert (await bay.exited(await run_main(bay, code_in(tree, "app")))).exit_code == 0
    old = bay.folder / "w1" / "code" / "files" / ("cd" * 32)
    shutil.copy(cached(bay, b"V = 1\n"), old)
    os.utime(old, (1e9, 1e9))
    bay.workers[-1].kill()
    bay.worker(RUNSPINE_CODE_CACHE_MIB="0")
    assert (await bay.exited(await run_main(bay, code_in(tree, "app")))).exit_code == 0
    await eventually(lambda: not old.exists())
    assert cached(bay, b"V = 1\n").exists()
