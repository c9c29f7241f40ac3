"""A worker killed half-way, its run resumed on another worker: bit for bit the undisturbed run."""

from __future__ import annotations

import asyncio
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
import torch

from runspine.embedded import running_stack
from runspine.embedded.stack import Stack
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED
from runspine.wire.v1.spec_pb2 import RunSpec, Value
from tests.kit.client import PatientClient
from tests.kit.steps import Step, read_steps

STEPS, ENVS = 16_384, 4
PARTS = {"nats", "s3", "orchestrator", "artifacts", "worker"}
SPEC = RunSpec(
    runner="builtin",
    algo="ppo",
    env="CartPole-v1",
    seed=3,
    total_steps=STEPS,
    params={"checkpoint_every": Value(integer=2048)},
)


async def submit(client: PatientClient, name: str) -> str:
    spec = RunSpec()
    spec.CopyFrom(SPEC)
    spec.name = name
    run_id: str = (await client.call("Submit", wire.SubmitRequest(spec=spec))).run.id
    return run_id


async def kill_the_worker_half_way(stack: Stack, client: PatientClient, run_id: str) -> str:
    """Kill the worker that holds the run once a good part of it is stored; the worker's id."""
    while True:
        got = await client.call("Get", wire.GetRequest(run_id=run_id))
        stored = [a.step for attempt in got.attempts for a in attempt.artifacts if a.kind == "checkpoint"]
        if stored and max(stored) >= 4096 and got.progress.step > max(stored) + 300:
            break
        assert got.run.phase != COMPLETED, "too fast to be killed in the middle"
        await asyncio.sleep(0.05)
    victim: str = got.run.worker_id
    part = f"worker-{victim.rsplit('-', 1)[1]}"
    await stack.kill_permanently(part)
    return victim


def by_slot(steps: list[Step], resumed_at: int = 0) -> dict[int, list[tuple[object, ...]]]:
    """What each env went through; of the first attempt only what the second went on from."""
    kept: dict[int, list[tuple[object, ...]]] = {}
    early: Counter[int] = Counter()
    for step in sorted(steps, key=lambda s: s.attempt):
        early[step.slot] += step.attempt == 1
        if step.attempt == 1 and resumed_at and early[step.slot] > resumed_at // ENVS:
            continue
        kept.setdefault(step.slot, []).append((step.index, step.action, step.reward, step.flags))
    return kept


def final_state(home: Path, run_id: str) -> dict[str, Any]:
    """The last checkpoint of a run, whichever worker wrote it."""
    found = list(home.glob(f"worker/*/runs/{run_id}/attempt-*/checkpoints/step-{STEPS}.pt"))
    assert len(found) == 1, found
    state: dict[str, Any] = torch.load(found[0], weights_only=True)
    return state


def differences(one: Any, other: Any, where: str = "") -> list[str]:
    """Places where two checkpoints are not bit for bit the same; times and ids aside."""
    if isinstance(one, torch.Tensor):
        same = one.dtype == other.dtype and one.numpy().tobytes() == other.numpy().tobytes()
        return [] if same else [where]
    if isinstance(one, dict):
        keys = sorted({*one, *other}, key=str)
        return [d for k in keys for d in differences(one.get(k), other.get(k), f"{where}/{k}")]
    if isinstance(one, list | tuple):
        if len(one) != len(other):
            return [f"{where}: {len(one)} and {len(other)} long"]
        pairs = enumerate(zip(one, other, strict=True))
        return [d for n, (a, b) in pairs for d in differences(a, b, f"{where}/{n}")]
    return [] if one == other else [f"{where}: {one!r} and {other!r}"]


@pytest.mark.long
@pytest.mark.chaos
@pytest.mark.timeout(300)
async def test_a_run_resumed_elsewhere_ends_bit_for_bit_as_if_undisturbed(tmp_path: Path) -> None:
    home = tmp_path / "home"
    quick = {"RUNSPINE_STALE_AFTER": "2", "RUNSPINE_LOST_AFTER": "3", "OMP_NUM_THREADS": "1"}
    async with running_stack(home, workers=2, slots=1, only=PARTS, settings=quick) as stack:
        client = PatientClient(stack)
        calm = await submit(client, "undisturbed")
        await client.until_phase(calm, COMPLETED, 120)
        disturbed = await submit(client, "disturbed")
        victim = await kill_the_worker_half_way(stack, client, disturbed)
        await client.until_phase(disturbed, COMPLETED, 120)
        got = await client.call("Get", wire.GetRequest(run_id=disturbed))
        steps = {run_id: await read_steps(stack, run_id) for run_id in (calm, disturbed)}
    first, second = got.attempts
    assert second.worker_id != victim
    assert second.resumed_from.step >= 4096
    assert second.resumed_from.attempt == first.number
    weights = [final_state(home, run_id) for run_id in (calm, disturbed)]
    for part in ("agent", "optimizer", "random"):
        one, other = (state["parts"][part] for state in weights)
        assert differences(one, other, part) == []
    received = by_slot(steps[disturbed], resumed_at=second.resumed_from.step)
    assert received == by_slot(steps[calm])
    assert sum(map(len, received.values())) == STEPS
