"""Everything a trainer prints, in any form, read back from the TELEMETRY stream value by value."""

from __future__ import annotations

import asyncio
import json
import math
import time

import pytest

from runspine.eventlog.subjects import TELEMETRY
from runspine.eventlog.tail import Tail
from runspine.services.worker.telemetry.assembly.assembler import MALFORMED_LINE
from runspine.wire.v1.facts_pb2 import EXITED
from runspine.wire.v1.telemetry_pb2 import STDERR, WORKER, Batch
from tests.kit.samples.columns import actions_of, blocks_of, observations_of, values_of
from tests.kit.servers.nats import free_port
from tests.kit.waiting import slowdown
from tests.kit.worker import Rig, prometheus

# One of everything that is hard, and a burst of 20,000 steps of three agents with actions that are lists.
HARD = r"""
import base64, json, math, os, struct, sys
def emit(**record):
    print(json.dumps(record))
print("x" * (8 << 20))
sys.stdout.flush()
sys.stdout.buffer.write(bytes(range(256)).replace(b"\n", b"") + b"\n")
emit(type="nonsense", kept="whole")
emit(type="metric", name="odd", value=math.nan, step=1)
emit(type="metric", name="odd", value=-math.inf, step=2)
for number in range(20_000):
    agent = ("red", "green", "blue")[number % 3]
    step = number // 3
    emit(type="step", episode_id="e", step=step, agent_id=agent, slot=number % 3, action=[step, -number],
        reward=number / 7, terminated=False, truncated=False, obs=[number + 0.25, 1e-9 * number])
sys.stdout.flush()
out = int(os.environ["RUNSPINE_TELEMETRY_FD"])
def column(dtype, shape, data):
    return {"dtype": dtype, "shape": shape, "data": base64.b64encode(data).decode()}
for first in range(0, 5120, 256):
    rows = range(first, first + 256)
    record = {"type": "steps", "episode_id": "c", "slot": 9, "first": first, "n": 256,
        "action": column("<i8", [], struct.pack("<256q", *rows)),
        "reward": column("<f8", [], struct.pack("<256d", *(row / 3 for row in rows))),
        "flags": base64.b64encode(bytes(255) + bytes([first == 5120 - 256])).decode(),
        "obs": column("<f4", [2], struct.pack("<512f", *range(512)))}
    data = (json.dumps(record) + "\n").encode()
    while data:
        data = data[os.write(out, data):]
os.write(out, b"words on the descriptor\n")
print('{"type": "step"}', file=sys.stderr)
"""


async def test_everything_is_kept_counted_right_and_exact(rig: Rig) -> None:
    metrics = free_port()
    rig.worker(RUNSPINE_METRICS_ADDRESS=f"127.0.0.1:{metrics}")
    run_id = await rig.python(HARD)
    exited = await rig.exited(run_id, seconds=60)
    assert (exited.outcome, exited.exit_code) == (EXITED, 0)
    batches = await rig.batches(run_id)
    assert [batch.number for batch in batches] == list(range(1, len(batches) + 1))
    assert all(batch.ByteSize() <= 512 << 10 for batch in batches)
    counts = exited.counts
    assert (counts.steps, counts.metrics, counts.malformed, counts.episodes) == (25_120, 2, 1, 1)
    check_steps(batches)
    check_columns(batches)
    check_words(batches, counts.log_lines)
    (odd,) = [block for batch in batches for block in batch.metrics.blocks]
    assert (odd.name, list(odd.steps)) == ("odd", [1, 2])
    assert math.isnan(odd.values[0])
    assert odd.values[1] == -math.inf
    (ended,) = [episode for batch in batches for episode in batch.episodes.episodes]
    assert (ended.episode_id, ended.steps, ended.flags) == ("c", 5120, 1)
    assert getattr(ended, "return") == pytest.approx(sum(row / 3 for row in range(5120)))
    assert (exited.progress.step, exited.progress.episodes) == (25_120, 1)
    seen = await asyncio.to_thread(prometheus, metrics)
    assert (seen["runspine_worker_steps_total"], seen["runspine_worker_malformed_lines_total"]) == (25_120, 1)
    assert seen["runspine_worker_spool_bytes"] == 0
    assert seen["runspine_worker_publish_seconds_count"] == len(batches)
    assert not list((rig.folder / "w1" / "spool").iterdir())


def check_steps(batches: list[Batch]) -> None:
    for slot, agent in enumerate(("red", "green", "blue")):
        numbers = list(range(slot, 20_000, 3))
        blocks = blocks_of(batches, "e", agent)
        assert {block.slot for block in blocks} == {slot}
        assert [value for block in blocks for value in actions_of(block)] == [[n // 3, -n] for n in numbers]
        rewards = [value for block in blocks for value in values_of(block.reward, block.count)]
        assert rewards == [number / 7 for number in numbers]
        seen = [value for block in blocks for value in observations_of(block)]
        assert seen == [[number + 0.25, 1e-9 * number] for number in numbers]


def check_columns(batches: list[Batch]) -> None:
    blocks = blocks_of(batches, "c")
    assert [value for block in blocks for value in actions_of(block)] == list(range(5120))
    rewards = [value for block in blocks for value in values_of(block.reward, block.count)]
    assert rewards == [row / 3 for row in range(5120)]
    assert b"".join(block.flags for block in blocks) == bytes(5119) + b"\1"
    assert [row for block in blocks for row in observations_of(block)][:3] == [[0, 1], [2, 3], [4, 5]]


def check_words(batches: list[Batch], count: int) -> None:
    lines = [line for batch in batches for line in batch.logs.lines]
    assert len(lines) == count
    assert sorted(line.number for line in lines) == list(range(1, count + 1))
    assert sum(len(line.text) for line in lines if set(line.text) == {"x"}) == 8 << 20
    texts = [line.text for line in lines]
    garbage = bytes(range(256)).replace(b"\n", b"").decode("utf-8", "replace")
    assert garbage in texts
    assert '{"type": "nonsense", "kept": "whole"}' in texts
    assert "words on the descriptor" in texts
    assert [line.text for line in lines if line.source == STDERR] == ['{"type": "step"}']
    remarks = [line.text for line in lines if line.source == WORKER]
    assert [text.partition(" (")[0].partition(":")[0] for text in remarks] == [
        MALFORMED_LINE,
        "odd is nan at step 1",
    ]


@pytest.mark.alone
async def test_a_step_is_seen_by_a_subscriber_soon_after_it_is_printed(rig: Rig) -> None:
    rig.worker()
    busy = slowdown()
    run_id = await rig.python(
        "import json, time\ntime.sleep(0.5)\nfor i in range(100):\n"
        "    step = {'episode_id': 'a', 'action': 0, 'reward': 1, 'terminated': False, 'truncated': False}\n"
        "    print(json.dumps({'type': 'step', 'step': i, 't': time.time(), **step}), flush=True)\n"
        "    time.sleep(0.02)"
    )
    late: list[float] = []
    count = 0
    deliveries = Tail(rig.link, TELEMETRY, subject=f"telemetry.{run_id}.1.step").deliveries()
    async with asyncio.timeout(120):
        async for delivery in deliveries:
            now = time.time()
            for block in Batch.FromString(delivery.data).steps.blocks:
                late.append(now - block.first_at / 1e6)
                count += block.count
            if count == 100:
                break
    await deliveries.aclose()
    late.sort()
    print(f"\nsteps seen after {late[len(late) // 2] * 1e3:.0f} ms (median), {late[-1] * 1e3:.0f} ms (worst)")
    assert late[len(late) // 2] < 0.25 * max(busy, slowdown())


async def test_a_trainer_with_a_secret_in_its_columns_keeps_its_data(rig: Rig) -> None:
    # "AAAA" is what zeros look like in base64: the data must survive, the words must not.
    rig.worker(API_TOKEN="AAAA", RUNSPINE_WORKER_SECRETS="API_TOKEN")
    zero = {"shape": [], "data": "AAAAAAAAAAA="}
    columns = {"action": {"dtype": "<i8", **zero}, "reward": {"dtype": "<f8", **zero}, "flags": "AA=="}
    emitted = json.dumps({"type": "steps", "episode_id": "AAAA", "first": 0, "n": 1, **columns})
    run_id = await rig.python(f"print({emitted!r}); print('AAAA')", secrets=["API_TOKEN"])
    exited = await rig.exited(run_id)
    assert (exited.counts.steps, exited.counts.malformed) == (1, 0)
    batches = await rig.batches(run_id)
    (block,) = [block for batch in batches for block in batch.steps.blocks]
    assert (actions_of(block), block.episode_id) == ([0], "[secret API_TOKEN]")
    assert await rig.texts(run_id) == ["[secret API_TOKEN]"]
