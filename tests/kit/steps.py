"""Every step of a run, read from the TELEMETRY stream as any reader would."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from runspine.embedded.stack import Stack
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.tail import Tail
from runspine.wire.v1.telemetry_pb2 import Array, Batch, StepBlock


@dataclass(frozen=True, slots=True)
class Step:
    attempt: int
    slot: int
    episode_id: str
    index: int
    action: object
    reward: float
    flags: int


async def read_batches(stack: Stack, run_id: str) -> list[Batch]:
    """Each batch once, in the order of its number; none may be missing."""
    password = stack.credentials.nats["admin"]
    account = NatsAccount(f"nats://{stack.addresses['nats']}", "admin", password, "_INBOX_admin")
    found: dict[tuple[int, int], Batch] = {}
    async with NatsConnection(account, "reader") as link:
        async for delivery in Tail(link, "TELEMETRY", subject=f"telemetry.{run_id}.>").deliveries():
            batch = Batch.FromString(delivery.data)
            found[batch.attempt, batch.number] = batch
            if delivery.pending == 0:
                break
    for attempt in {attempt for attempt, _ in found}:
        numbers = sorted(number for a, number in found if a == attempt)
        assert numbers == list(range(1, len(numbers) + 1)), f"a batch of attempt {attempt} is missing"
    return [found[key] for key in sorted(found)]


async def read_steps(stack: Stack, run_id: str) -> list[Step]:
    batches = await read_batches(stack, run_id)
    return [
        step for batch in batches for block in batch.steps.blocks for step in _steps(batch.attempt, block)
    ]


def _steps(attempt: int, block: StepBlock) -> list[Step]:
    actions = values(block.action) if block.HasField("action") else list(block.action_json)
    rewards = values(block.reward)
    return [
        Step(
            attempt,
            block.slot,
            block.episode_id,
            block.first_step + n,
            actions[n],
            rewards[n],
            block.flags[n],
        )
        for n in range(block.count)
    ]


def values(array: Array) -> list:  # type: ignore[type-arg]
    flat = np.frombuffer(array.data, dtype=array.dtype)
    return flat.reshape(-1, *array.shape).tolist() if array.shape else flat.tolist()
