"""Executes the schedule of faults and records what was done."""

from __future__ import annotations

import asyncio
import contextlib
import mmap
import os
import random
import signal
import time
from collections import Counter
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from tests.chaos.mixed.faults import Fault
from tests.chaos.mixed.site import Site
from tests.chaos.mixed.trainer import noise
from tests.chaos.mixed.workload import Workload


@dataclass(slots=True)
class Struck:
    """How often each fault struck, and what the checker must know of it."""

    counts: Counter[str] = field(default_factory=Counter)
    # Keys of objects in which a bit was flipped.
    flipped: set[str] = field(default_factory=set)
    # A worker that nobody could reach: which, from when to when, by the clock of this machine.
    unheard: list[tuple[str, float, float]] = field(default_factory=list)


class Striker:
    def __init__(self, site: Site, work: Workload, seed: int) -> None:
        self._site = site
        self._work = work
        self._chance = random.Random(seed)
        self.struck = Struck()

    async def strike(self, fault: Fault) -> None:
        """Do it; a fault may find nothing to strike: a process may be down from the one before."""
        began = time.monotonic()
        try:
            done = await self._do(fault)
        except (OSError, grpc.RpcError):
            done = False  # what it should strike has just gone, or cannot be asked for
        self.struck.counts[fault.name] += bool(done)
        for name in fault.targets:
            worker = name.removesuffix("-nats")
            if worker.startswith("worker") and fault.kind in ("freeze", "cut", "silence", "slow"):
                self.struck.unheard.append((worker, began, time.monotonic()))
        self._work.note(
            "fault",
            kind=fault.kind,
            targets=fault.targets,
            seconds=round(time.monotonic() - began, 3),
            **({"jump": fault.jump} if fault.jump else {}),
            struck=done,
        )

    async def _do(self, fault: Fault) -> bool | str:
        match fault.kind:
            case "kill" | "kill both":
                return self._kill(fault)
            case "freeze":
                return await self._freeze(fault)
            case "jump":
                assert self._site.clocks
                with self._site.clocks.jumped(fault.targets[0], fault.jump):
                    await asyncio.sleep(fault.seconds)
                return True
            case "flip":
                return await self._flip()
            case "fill":
                return await self._fill(fault.seconds)
            case "power":
                await self._site.lose_power()
                return True
        async with self._on_wire(fault):
            await asyncio.sleep(fault.seconds)
        return True

    def _kill(self, fault: Fault) -> bool:
        pids = [pid for part in fault.targets if (pid := self._site.stack.pid(part))]
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return bool(pids)

    async def _freeze(self, fault: Fault) -> bool:
        part = fault.targets[0]
        if not (pid := self._site.stack.pid(part)):
            return False
        os.kill(pid, signal.SIGSTOP)
        await asyncio.sleep(fault.seconds)
        # It may have been killed and replaced meanwhile.
        if self._site.stack.pid(part) == pid:
            os.kill(pid, signal.SIGCONT)
        return True

    @contextlib.asynccontextmanager
    async def _on_wire(self, fault: Fault) -> AsyncIterator[None]:
        wire = self._site.wires[fault.targets[0]]
        how = {
            "cut": wire.cut,
            "silence": lambda: wire.silent(forgotten=self._chance.random() < 0.5),
            "slow": wire.slow,
            "errors": wire.failing,
        }[fault.kind]
        async with how():
            yield

    async def _fill(self, seconds: float) -> bool:
        """The disk has not a byte left, also for root."""
        async with self._site.disk_lock:
            ballast = self._site.ballast
            with ballast.open("wb") as file:
                free = os.statvfs(ballast).f_bfree * os.statvfs(ballast).f_frsize
                while free > 1 << 12:
                    try:
                        os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
                    except OSError:
                        free //= 2
            await asyncio.sleep(seconds)
            ballast.unlink()
        return True

    async def _flip(self) -> bool | str:
        """One bit of a checkpoint, where the S3 server keeps it."""
        found = await self._work.a_checkpoint(self._chance)
        if found is None:
            return False
        async with self._site.disk_lock:
            wanted = noise(found.run_id, found.step)
            if not await asyncio.to_thread(
                flip, self._site.home.s3, wanted, self._chance.randrange(len(wanted) * 8)
            ):
                return False
        self.struck.flipped.add(found.key)
        return found.key


def flip(folder: Path, wanted: bytes, bit: int) -> bool:
    """One bit of the bytes, wherever they lie in the volumes."""
    struck = False
    for path in folder.rglob("*.dat"):
        if not path.stat().st_size:
            continue
        with path.open("r+b") as file, mmap.mmap(file.fileno(), 0) as volume:
            at = volume.find(wanted)
            while at >= 0:
                volume[at + bit // 8] ^= 1 << bit % 8
                struck = True
                at = volume.find(wanted, at + len(wanted))
    return struck
