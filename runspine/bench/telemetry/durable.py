"""Runs trainers under a real worker, and checks that each step is archived exactly once."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pyarrow as pa

from runspine.bench.telemetry.store import blobs_of
from runspine.bench.telemetry.walks import walk
from runspine.domain.run import ENDED
from runspine.embedded.stack import Stack
from runspine.services.telemetry.core.arrays import joined, numpy
from runspine.services.telemetry.core.step_counter import row_counters
from runspine.services.telemetry.edges.manifest_chain import ManifestChain
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.wire.v1 import trainer_pb2 as wire
from runspine.wire.v1.run_pb2 import COMPLETED, Phase
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2_grpc import TrainerServiceStub

START_SECONDS = 120.0
# Rarely: polling costs the measured servers. Manifests hold the time at which they were written.
POLL_SECONDS = 0.25


class WrongArchiveError(Exception):
    """The archive does not hold what was sent."""


@dataclass(frozen=True, slots=True)
class TrainerLoad:
    """Work of each trainer of a group."""

    trainers: int
    steps: int
    policy: str = "learning"
    rate: float = 0.0
    seed: int = 1
    # "metrics": the reward of each step by `run.log`, and nothing else. "vector": steps of 512 envs at once.
    kind: str = "steps"

    @property
    def total(self) -> int:
        return self.trainers * self.steps

    @property
    def stored(self) -> str:
        """The kind of telemetry that it is in the archive."""
        return "metrics" if self.kind == "metrics" else "steps"


@dataclass(slots=True)
class TrainerGroup:
    """Trainers that have been started and wait for `begin`."""

    load: TrainerLoad
    runs: list[str]
    go: Path
    began: float = 0.0
    seeds: dict[str, int] = field(default_factory=dict)

    def begin(self) -> None:
        self.began = time.time()
        self.go.touch()


def sandbox_with(folder: Path) -> dict[str, str]:
    """Settings of a stack whose trainers read and write this folder, outside of their runs."""
    folder.mkdir(parents=True, exist_ok=True)
    return {"RUNSPINE_SANDBOX_PATHS": f"{folder}:rw"}


class DurableBench:
    """A stack, and trainers on it."""

    def __init__(self, stack: Stack, folder: Path) -> None:
        self.stack = stack
        self._folder = folder
        self._channel = grpc.aio.insecure_channel(stack.addresses["orchestrator"])
        self._trainer: Any = TrainerServiceStub(self._channel)
        self.auth = [("authorization", f"Bearer {stack.token}")]
        self._groups = 0

    async def close(self) -> None:
        await self._channel.close(None)

    @asynccontextmanager
    async def group(self, load: TrainerLoad) -> AsyncIterator[TrainerGroup]:
        """Start a group; every trainer has its steps prepared and waits for `begin`."""
        self._groups += 1
        folder = self._folder / f"group-{self._groups}"
        folder.mkdir(parents=True)
        group = TrainerGroup(load, [], folder / "go")
        for number in range(load.trainers):
            seed = load.seed + number
            spec = RunSpec(runner="script", command=_command(load, seed, folder / str(number), group.go))
            answer = await self._trainer.Submit(wire.SubmitRequest(spec=spec), metadata=self.auth)
            group.runs.append(answer.run.id)
            group.seeds[answer.run.id] = seed
        deadline = time.monotonic() + START_SECONDS
        while not all((folder / str(n)).exists() for n in range(load.trainers)):
            if time.monotonic() > deadline:
                raise WrongArchiveError(f"trainers did not start: {await self._phases(group)}")
            await asyncio.sleep(0.02)
        yield group

    async def _phases(self, group: TrainerGroup) -> list[str]:
        requests = [wire.GetRequest(run_id=run_id) for run_id in group.runs]
        runs = [(await self._trainer.Get(each, metadata=self.auth)).run for each in requests]
        return [f"{Phase.Name(run.phase)} {run.reason}".strip() for run in runs]

    async def ended(self, group: TrainerGroup) -> None:
        """Wait until each run has completed. Raises WrongArchiveError."""
        for run_id in group.runs:
            while True:
                got = await self._trainer.Get(wire.GetRequest(run_id=run_id), metadata=self.auth)
                if got.run.phase in ENDED:
                    break
                await asyncio.sleep(POLL_SECONDS)
            if got.run.phase != COMPLETED:
                raise WrongArchiveError(f"run {run_id} is {Phase.Name(got.run.phase)}: {got.run.reason}")

    async def archived(self, group: TrainerGroup) -> float:
        """Time at which the manifest that completes the group was written."""
        chain = ManifestChain(blobs_of(self.stack), 0, 1)
        await chain.load()
        while True:
            held = sum(s.rows for run_id in group.runs for s in chain.archive.of(run_id, group.load.stored))
            if held >= group.load.total:
                return chain.archive.at / 1e6
            await asyncio.sleep(POLL_SECONDS)
            await chain.refresh()

    async def prove(self, group: TrainerGroup) -> int:
        """Read everything back and compare it; return its bytes at rest. Raises WrongArchiveError."""
        blobs = blobs_of(self.stack)
        chain, store = ManifestChain(blobs, 0, 1), SegmentStore(blobs, 1 << 20)
        await chain.load()
        size = 0
        for run_id in group.runs:
            found = chain.archive.of(run_id, group.load.stored)
            size += sum(segment.size for segment in found)
            tables = [await store.whole(segment) for segment in found]
            check = {"steps": _check, "vector": _check_vector, "metrics": _check_scalars}[group.load.kind]
            await asyncio.to_thread(check, run_id, tables, group.load, group.seeds[run_id])
        return size


def _command(load: TrainerLoad, seed: int, ready: Path, go: Path) -> list[str]:
    options = {
        "--policy": load.policy, "--steps": load.steps, "--seed": seed, "--rate": load.rate,
        "--ready": ready, "--go": go, "--kind": load.kind,
    }  # fmt: skip
    return [
        sys.executable,
        "-m",
        "runspine.bench.telemetry.trainer",
        *(str(x) for pair in options.items() for x in pair),
    ]


def _check(run_id: str, tables: list[Any], load: TrainerLoad, seed: int) -> None:
    """Check that every (slot, episode, step) is there once, as the trainer made it."""
    numbers: dict[str, int] = {}
    keys = np.concatenate([_keys(table, numbers) for table in tables] or [np.empty(0)])
    different = len(np.unique(keys))
    if len(keys) != load.steps or different != load.steps:
        lost, doubled = load.steps - different, len(keys) - different
        raise WrongArchiveError(f"run {run_id}: of {load.steps} steps {lost} are lost and {doubled} doubled")
    order = np.argsort(np.concatenate([row_counters(table) for table in tables]), kind="stable")
    made = walk(load.policy, load.steps, seed)
    for name, sent in (("action", made.actions), ("flags", made.flags)):
        if not np.array_equal(np.concatenate([numpy(t, name) for t in tables])[order], sent):
            raise WrongArchiveError(f"run {run_id}: {name} is not what the trainer sent")
    seen = np.concatenate([joined(t.column("observation")).flatten().to_numpy() for t in tables])
    if not np.array_equal(seen.reshape(-1, 4)[order].view(np.uint32), made.observations.view(np.uint32)):
        raise WrongArchiveError(f"run {run_id}: observations are not what the trainer saw, bit for bit")


def _check_vector(run_id: str, tables: list[Any], load: TrainerLoad, seed: int) -> None:
    """Check that every step of every env is there once, as the trainer made it."""
    slots, steps = (np.concatenate([numpy(t, name) for t in tables]) for name in ("slot", "step"))
    names = [name for t in tables for name in joined(t.column("episode_id").cast(pa.string())).to_pylist()]
    episodes = np.array([int(name.partition("-")[2]) for name in names], np.int64)
    keys = np.stack([slots.astype(np.int64), episodes, steps.astype(np.int64)])
    different = np.unique(keys, axis=1).shape[1]
    if len(steps) != load.steps or different != load.steps:
        lost, doubled = load.steps - different, len(steps) - different
        raise WrongArchiveError(f"run {run_id}: of {load.steps} steps {lost} are lost and {doubled} doubled")
    order, made = np.lexsort(keys[::-1]), walk(load.policy, load.steps, seed)
    for name, sent in (("action", made.actions), ("flags", made.flags)):
        if not np.array_equal(np.concatenate([numpy(t, name) for t in tables])[order], sent):
            raise WrongArchiveError(f"run {run_id}: {name} is not what the trainer sent")
    seen = np.concatenate([joined(t.column("observation")).flatten().to_numpy() for t in tables])
    if not np.array_equal(seen.reshape(-1, 4)[order].view(np.uint32), made.observations.view(np.uint32)):
        raise WrongArchiveError(f"run {run_id}: observations are not what the trainer saw, bit for bit")


def _check_scalars(run_id: str, tables: list[Any], load: TrainerLoad, _: int) -> None:
    """Check that every step's scalar is there once, as the trainer logged it."""
    steps = np.sort(np.concatenate([numpy(table, "step") for table in tables] or [np.empty(0)]))
    if not np.array_equal(steps, np.arange(load.steps)):
        raise WrongArchiveError(
            f"run {run_id}: {len(np.unique(steps))} of {load.steps} scalars, {len(steps)} rows"
        )
    if not all((numpy(table, "value") == 1.0).all() for table in tables):
        raise WrongArchiveError(f"run {run_id}: value is not what the trainer sent")


def _keys(table: Any, numbers: dict[str, int]) -> Any:
    """(slot, episode, step) of each row as one number."""
    column = joined(table.column("episode_id"))
    codes = column if pa.types.is_dictionary(column.type) else column.dictionary_encode()
    known = [numbers.setdefault(text, len(numbers)) for text in codes.dictionary.to_pylist()]
    episodes = np.array(known, np.int64)[codes.indices.to_numpy(zero_copy_only=False)]
    return (
        episodes << 40 | numpy(table, "slot").astype(np.int64) << 32 | numpy(table, "step").astype(np.int64)
    )
