"""A stack whose every connection goes over a wire of ours, on a disk and by clocks of its own.

Where the machine lets us: a disk needs root, clocks a C compiler. Faults that need what is missing are
left out, and the report lists them.
"""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import subprocess
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from pathlib import Path

import psutil

from runspine.embedded.home import Home
from runspine.embedded.plan import PARTS, StackOptions
from runspine.embedded.stack import Stack, supervised
from tests.chaos.mixed.clocks import Clocks
from tests.chaos.mixed.wires import Wire
from tests.kit.servers.power import PowerDomain

SERVERS = ("nats", "s3")
SERVICES = ("orchestrator", "telemetry", "artifacts", "worker-1", "worker-2")
CLIENT = "client-orchestrator"
UNMOUNT_SECONDS = 30.0


class Site:
    """Has what a client wants of a Stack, and a hand on everything around it."""

    def __init__(
        self,
        home: Path,
        slots: int,
        settings: Mapping[str, str],
        disk: PowerDomain | None,
        clocks: Clocks | None,
    ) -> None:
        only = set(PARTS) - {"dashboard"}
        self._request = StackOptions(2, slots, ("default",), only, use_default_ports=False, settings=settings)
        self.home = Home.at(home)
        # What fills the disk.
        self.ballast = self.home.path / "ballast"
        self.disk = disk
        self.clocks = clocks
        self.wires = {f"{service}-{server}": Wire() for service in SERVICES for server in SERVERS}
        self.wires[CLIENT] = Wire()
        # A fault that fills the disk or cuts its power needs it exclusively.
        self.disk_lock = asyncio.Lock()
        self._running = contextlib.AsyncExitStack()
        self.stack: Stack

    @property
    def addresses(self) -> dict[str, str]:
        return {**self.stack.addresses, "orchestrator": self.wires[CLIENT].address}

    @property
    def token(self) -> str:
        return self.stack.token

    def targets(self) -> dict[str, Sequence[str]]:
        """What each kind of fault can strike here."""
        parts = (*SERVERS, *SERVICES)
        to_s3 = [name for name in self.wires if name.endswith("-s3")]
        return {
            **dict.fromkeys(("kill", "kill both", "freeze"), parts),
            **dict.fromkeys(("cut", "silence", "slow"), tuple(self.wires)),
            "errors": to_s3,
            "flip": ["a checkpoint"],
            "jump": list(SERVICES) if self.clocks else [],
            "fill": ["the disk"] if self.disk else [],
            "power": ["the machine"] if self.disk else [],
        }

    async def start(self) -> None:
        self.stack = await self._running.enter_async_context(
            supervised(self.home, self._request, lambda _: None)
        )
        self._rewire()
        await self.stack.start()

    async def stop(self) -> None:
        await self._running.aclose()

    async def lose_power(self) -> None:
        """Everything stops in the middle of a word; what was not synced is gone; then the machine is back."""
        assert self.disk
        async with self.disk_lock:
            processes = psutil.Process().children(recursive=True)
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.suspend()
            self.disk.cut()
            for process in processes:
                with contextlib.suppress(psutil.NoSuchProcess):
                    process.kill()
            # The supervisor lives in our own process: it has to let go of a disk that is dead.
            with contextlib.suppress(OSError):
                await self._running.aclose()
            await self._mount_again()
            self._running = contextlib.AsyncExitStack()
            await self.start()

    async def _mount_again(self) -> None:
        assert self.disk
        deadline = time.monotonic() + UNMOUNT_SECONDS
        while True:
            try:
                await asyncio.to_thread(self.disk.unmount)
                break
            except subprocess.CalledProcessError:
                assert time.monotonic() < deadline, "something still uses the disk"
                await asyncio.sleep(0.2)
        await asyncio.to_thread(self.disk.mount)
        # Taken away just before the power went, it may be there again.
        self.ballast.unlink(missing_ok=True)

    def _rewire(self) -> None:
        """Before the parts start: give each the addresses of its own wires instead of the servers'."""
        for name in SERVERS:
            host, _, port = self.stack.addresses[name].rpartition(":")
            for service in SERVICES:
                self.wires[f"{service}-{name}"].target = (host, int(port))
        host, _, port = self.stack.addresses["orchestrator"].rpartition(":")
        self.wires[CLIENT].target = (host, int(port))
        for service in SERVICES:
            supervisor = self.stack._supervisor.supervisors[service]
            supervisor.part = dataclasses.replace(
                supervisor.part, variables={**supervisor.part.variables, **self._variables(service)}
            )

    def _variables(self, service: str) -> dict[str, str]:
        return {
            "RUNSPINE_NATS_URL": f"nats://{self.wires[f'{service}-nats'].address}",
            "RUNSPINE_S3_ENDPOINT": self.wires[f"{service}-s3"].address,
            **(self.clocks.variables(service) if self.clocks else {}),
        }


@contextlib.asynccontextmanager
async def open_site(
    home: Path, slots: int, settings: Mapping[str, str], disk: PowerDomain | None, clocks: Clocks | None
) -> AsyncIterator[Site]:
    site = Site(home, slots, settings, disk, clocks)
    for wire in site.wires.values():
        await wire.start()
    try:
        await site.start()
        yield site
    finally:
        await site.stop()
        for wire in site.wires.values():
            await wire.stop()
