"""People look at a running trainer: stacks of its processes, and a terminal in its sandbox."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runspine.domain.run import RunRefusedError
from runspine.rpc.auth import caller, caller_scope
from runspine.services.orchestrator.edges.run_processes import RunProcesses
from runspine.services.worker.process.sandbox import ENGINES, SandboxError, find_sandbox
from runspine.services.worker.process.sandbox_plan import SandboxPolicy
from runspine.wire.v1.processes_pb2 import (
    AttachBegan,
    AttachBegin,
    AttachEnded,
    AttachRequest,
    TerminalSize,
)
from runspine.wire.v1.run_pb2 import RUNNING, Run
from tests.kit.waiting import eventually
from tests.kit.worker import Rig

TRAINER = """
import subprocess, threading, time
def wait_here():
    threading.Event().wait()
threading.Thread(target=wait_here, daemon=True).start()
open("mine.txt", "w").write("of the trainer")
print("ready", flush=True)
subprocess.run(["sleep", "601"])
"""
# Capabilities, new privileges, filter of system calls.
STATUS = "grep -E '^(CapEff|CapBnd|NoNewPrivs|Seccomp):' /proc/self/status"


@dataclass
class Attached:
    """What a client got of one terminal."""

    began: AttachBegan = field(default_factory=AttachBegan)
    ended: AttachEnded = field(default_factory=AttachEnded)
    output: bytearray = field(default_factory=bytearray)

    @property
    def text(self) -> str:
        return self.output.decode().replace("\r\n", "\n")


@pytest.fixture
async def processes(rig: Rig) -> AsyncIterator[RunProcesses]:
    found = RunProcesses(rig.link)
    async with found.open():
        yield found


async def running(rig: Rig, sandbox: str, tmp_path: Path) -> Run:
    """A run of a worker with this sandbox, as the orchestrator's board has it."""
    if sandbox != "off":
        try:
            await asyncio.to_thread(find_sandbox, sandbox, SandboxPolicy(tmp_path / "probe"))
        except SandboxError as reason:
            pytest.skip(str(reason))
    rig.worker(RUNSPINE_WORKER_SANDBOX=sandbox)
    run_id = await rig.python(TRAINER)

    async def ready() -> bool:
        return "ready" in await rig.texts(run_id)

    await eventually(ready)
    return Run(id=run_id, attempt=1, worker_id="w1", phase=RUNNING, submitted_by="ann")


async def attached(
    processes: RunProcesses,
    run: Run,
    *command: str,
    keys: bytes = b"",
    after: str = "",
    got: Attached | None = None,
) -> Attached:
    """Attach, type once a text is shown, and wait for the end."""
    got = got or Attached()
    size = TerminalSize(rows=33, columns=77)
    first = AttachRequest(begin=AttachBegin(command=command, size=size, term="xterm"))

    async def requests() -> AsyncIterator[AttachRequest]:
        if keys:
            if after:
                await eventually(lambda: after in got.text)
            yield AttachRequest(input=keys)
        await asyncio.sleep(600)

    async for response in processes.attach(run, first, requests()):
        if response.HasField("began"):
            got.began.CopyFrom(response.began)
        got.output += response.output
        if response.HasField("ended"):
            got.ended.CopyFrom(response.ended)
    return got


@pytest.mark.parametrize("sandbox", ["off", *ENGINES])
async def test_a_terminal_is_where_the_trainer_is_and_can_do_no_more(
    rig: Rig, processes: RunProcesses, sandbox: str, tmp_path: Path
) -> None:
    run = await running(rig, sandbox, tmp_path)
    stacks = await processes.stacks(run)
    assert (stacks.worker_id, stacks.attempt, stacks.left_out) == ("w1", 1, 0)
    lines = [line for each in stacks.processes for line in each.lines]
    assert any("wait_here (<string>:4)" in line for line in lines), stacks
    assert {each.missing for each in stacks.processes} <= {"", "it runs no Python"}
    assert len(stacks.processes) == 2, stacks

    script = "cat mine.txt; echo; stty size; echo $RUNSPINE_RUN_ID $TERM; "
    script += f"{STATUS}; ls /proc | grep -c '^[0-9]'; exit 3"
    got = await attached(processes, run, "/bin/sh", "-c", script)
    lines = got.text.splitlines()
    assert lines[:3] == ["of the trainer", "33 77", f"{run.id} xterm"]
    assert (got.ended.exit_code, got.ended.reason) == (3, "")
    assert got.began.sandboxed == (sandbox != "off")
    if sandbox != "off":
        assert [line.split()[1].strip("0") for line in lines[3:7]] == ["", "", "1", "2"]
        # The sandbox's first process, the trainer, its child, this shell, ls and grep.
        assert int(lines[7]) <= 7
    failed = await attached(processes, run, "no-such-program")
    assert failed.ended.exit_code == 127
    # What is done by hand is none of the trainer's telemetry.
    recorded = await attached(
        processes, run, "python", "-c", "import runspine; runspine.log({'a': 1}, step=1)"
    )
    assert recorded.ended.exit_code == 0, recorded.text
    await rig.cancel(run.id)
    assert (await rig.exited(run.id)).counts.metrics == 0


async def test_keys_are_typed_and_a_flood_of_output_arrives_whole(
    rig: Rig, processes: RunProcesses, tmp_path: Path
) -> None:
    run = await running(rig, "auto", tmp_path)
    typed = await attached(processes, run, keys=b"stty -echo\necho $((6 * 7)) answers\nexit 5\n")
    assert "42 answers" in typed.text
    assert typed.ended.exit_code == 5
    flood = await attached(processes, run, "/bin/sh", "-c", "stty -opost; seq 1 400000")
    expected = "".join(f"{number}\n" for number in range(1, 400_001)).encode()
    assert hashlib.sha256(flood.output).digest() == hashlib.sha256(expected).digest()
    # Ctrl-C is for the program in the terminal.
    program = "trap 'echo caught; exit 9' INT; echo ready; while :; do sleep 0.1; done"
    stopped = await attached(processes, run, "/bin/sh", "-c", program, keys=b"\x03", after="ready")
    assert (stopped.ended.exit_code, "caught" in stopped.text) == (9, True)


@pytest.mark.parametrize("sandbox", ["off", "auto"])
async def test_a_terminal_ends_with_its_trainer_and_leaves_nothing(
    rig: Rig, processes: RunProcesses, sandbox: str, tmp_path: Path
) -> None:
    run = await running(rig, sandbox, tmp_path)
    got = Attached()
    program = "setsid sh -c 'trap \"\" HUP TERM; sleep 602' & echo here; wait"
    open_terminal = asyncio.create_task(attached(processes, run, "/bin/sh", "-c", program, got=got))

    async def shown() -> bool:
        return "here" in got.text

    await eventually(shown)
    await rig.cancel(run.id)
    await asyncio.wait_for(open_terminal, 60)
    assert got.ended.reason == "the trainer has ended"

    async def none_left() -> bool:
        commands = (path.read_bytes() for path in Path("/proc").glob("[0-9]*/cmdline"))
        with contextlib.suppress(OSError):
            return not any(command == b"sleep\x00602\x00" for command in commands)
        return False

    await eventually(none_left)
    await eventually(lambda: not list((rig.folder / "w1" / "attached").iterdir()))


async def test_a_terminal_is_for_the_owner_of_a_run_on_a_worker_that_allows_it(
    rig: Rig, processes: RunProcesses, tmp_path: Path
) -> None:
    run = await running(rig, "off", tmp_path)
    for name, scope, may in (("bob", "run", False), ("ann", "run", True), ("root", "admin", True)):
        caller.set(name)
        caller_scope.set(scope)
        if may:
            assert (await attached(processes, run, "true")).ended.exit_code == 0
            continue
        with pytest.raises(RunRefusedError, match="its owner or an admin may attach"):
            await attached(processes, run, "true")
    rig.workers[0].kill()
    other = rig.worker("w2", RUNSPINE_WORKER_ATTACH="false")
    run_id = await rig.python(TRAINER)
    await rig.started(run_id)
    closed = Run(id=run_id, attempt=1, worker_id="w2", phase=RUNNING, submitted_by="ann")

    async def refused() -> str:
        try:
            await attached(processes, closed, "true")
        except RunRefusedError as error:
            return "" if "does not run" in str(error) else str(error)
        raise AssertionError("a terminal was opened")

    assert "RUNSPINE_WORKER_ATTACH is false" in await eventually(refused)
    assert other.process.poll() is None
