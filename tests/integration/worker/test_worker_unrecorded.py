"""Nothing vanishes silently: what cannot be recorded, and values that are no numbers."""

from __future__ import annotations

from runspine.wire.v1.facts_pb2 import Counts
from runspine.wire.v1.run_pb2 import COMPLETED, Run
from runspine.wire.v1.spec_pb2 import Capture
from runspine.wire.v1.telemetry_pb2 import STDERR, WORKER
from tests.kit.worker import Rig

# Two names that are no numbers, one that is NaN from the third step on.
ODD = """
import runspine
run = runspine.init()
for step in range(100):
    run.log({"phase": "warm-up", "net": [1, 2], "loss": float("nan") if step > 2 else 0.5}, step=step)
run.log({"far": float("-inf"), "near": float("inf")}, step=100)
"""


async def test_what_cannot_be_recorded_is_stated_once_and_counted(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(ODD)
    exited = await rig.exited(run_id)
    assert exited.exit_code == 0
    counts = exited.counts
    assert (counts.metrics, counts.dropped, counts.not_finite, counts.malformed) == (102, 200, 99, 0)
    stated = [line.text for line in await rig.lines(run_id) if line.source == WORKER]
    assert [text for text in stated if "metric phase" in text] == [
        "not recorded: metric phase: could not convert string to float: 'warm-up'"
    ]
    assert sum("metric net" in text for text in stated) == 1
    assert [text.partition(":")[0] for text in stated if " is " in text and "step" in text] == [
        "loss is nan at step 3",
        "far is -inf at step 100",
        "near is inf at step 100",
    ]
    assert not [line for line in await rig.lines(run_id) if line.source == STDERR]
    assert exited.progress.counts == counts


# Frames that lie about their length, hold other columns than they state, or end with the process.
HOSTILE = r"""
import json, os, zlib
pipe = int(os.environ["RUNSPINE_TELEMETRY_FD"])

def write(data):
    while data:
        data = data[os.write(pipe, data):]

def frame(header, columns, length=None, checksum=None):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    payload = len(text).to_bytes(4, "little") + text + columns
    length = len(payload) if length is None else length
    check = zlib.crc32(payload) if checksum is None else checksum
    return b"\xffRSFRAME" + length.to_bytes(4, "little") + check.to_bytes(4, "little") + payload

columns = [["reward", "<f8", []], ["action", "<i8", []]]
good = {"type": "steps", "episode_id": "0-0", "slot": 0, "first": 0, "n": 4, "global_step": 0,
        "flags": 0, "t0": 1.0, "t1": 2.0, "columns": columns}
write(frame(good, bytes(64)))
write(frame({**good, "n": 1 << 31}, bytes(64)))
write(frame({**good, "columns": [["reward", "<f8", []], ["action", "<i8", [1 << 31, 1 << 31]]]}, bytes(64)))
many = {"type": "grid", "slots": 1 << 31, "rows": 1 << 31, "slot": 0, "whole": 0, "columns": columns}
write(frame(many, b""))
write(frame(b"[" * 5000, b""))
write(frame(good, bytes(64), checksum=1))
write(frame(good, bytes(64), length=(1 << 32) - 1))
write(b"\n" + frame({**good, "first": 4}, bytes(64)))
print("done", flush=True)
write(frame({**good, "first": 8}, bytes(64))[:-10])
os.kill(os.getpid(), 9)
"""


async def test_a_trainer_that_writes_damaged_frames_harms_its_own_run_alone(rig: Rig) -> None:
    rig.worker()
    run_id, other = await rig.python(HOSTILE), await rig.python(ODD)
    exited = await rig.exited(run_id)
    assert exited.signal == 9
    assert exited.counts.steps == 8
    assert exited.counts.malformed == 7
    stated = "\n".join(line.text for line in await rig.lines(run_id) if line.source == WORKER)
    for reason in ("not as long as it states", "checksum is wrong", "its length is", "cut in the middle"):
        assert reason in stated
    assert (await rig.exited(other)).exit_code == 0


async def test_a_run_may_ask_for_every_word_of_it(rig: Rig) -> None:
    rig.worker()
    run_id = await rig.python(ODD, capture=Capture(verbose=True))
    await rig.exited(run_id)
    printed = [line.text for line in await rig.lines(run_id) if line.source == STDERR]
    assert sum("runspine: metric phase" in text for text in printed) == 100


def test_a_run_with_such_values_is_marked() -> None:
    from runspine.cli.ui.follow import warnings
    from runspine.text.facts import counts_text

    counts = Counts(steps=1, dropped=3, not_finite=2)
    assert len(warnings(Run(phase=COMPLETED, counts=counts))) == 2
    assert "3 not recorded, 2 NaN or infinite" in counts_text(counts)
