"""The deployment of deploy/k8s/base on hosts of its own: three nats-servers with three replicas, S3, two
orchestrators, two telemetry services for each partition, two artifacts services, a janitor, four workers.

Each is on a host (a network namespace) with its own NATS user and S3 key. Every nats-server has a disk that
can be filled and lose power. What ends is started again; a nats-server whose JetStream is off is restarted,
as the liveness probe of its chart does. Before each start of a nats-server its store is checked, as the init
container of deploy/k8s/nats does.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home
from runspine.embedded.ports import LOOPBACK, PortBook
from runspine.embedded.s3 import BUCKET, s3_part
from runspine.settings import ServiceSettings
from runspine.storage.blobs import BlobsUnavailableError, S3Blobs
from tests.chaos.cluster.members import RESTART_SECONDS, Exit, Member
from tests.chaos.mixed.clocks import Clocks
from tests.kit.servers.nats_cluster import ClusterNode, NatsCluster, Place
from tests.kit.servers.network import Network
from tests.kit.servers.power import PowerDomain, new_disk

NODES = ("n1", "n2", "n3")
WORKERS = 4
PORTS = {"orchestrator": 50055, "telemetry": 50056, "artifacts": 50057}
MODULES = {"janitor": "artifacts.janitor"}
# The chart asks every 30 s and restarts after three failures, 90 while a server starts; here every 3 s.
PROBE_SECONDS = 3.0
PROBE_FAILURES = 3
START_FAILURES = 15
READY_SECONDS = 180.0
UNMOUNT_SECONDS = 30.0


class ClusterSite:
    """Has what a client wants of a stack, and a hand on everything around it."""

    def __init__(
        self,
        folder: Path,
        slots: int,
        partitions: int,
        settings: Mapping[str, str],
        kept: Path,
        check_stores: bool,
    ) -> None:
        self.folder = folder
        # Where logs of nats-servers go that the probe restarts.
        self._kept = kept
        self.partitions = partitions
        self._slots = slots
        self._settings = settings
        self._chance = random.Random(1)
        self._check_stores = check_stores
        self._starting = {name: threading.Lock() for name in NODES}
        self.network = Network()
        self.home = Home.at(folder / "home")
        self.home.prepare()
        self.credentials: Credentials = load_credentials(self.home)
        (folder / "clocks").mkdir()
        self.clocks = Clocks(folder / "clocks") if Clocks.can_be_made() else None
        self.cluster = self._make_cluster()
        self.disks = {node.name: self._disk_of(node) for node in self.cluster.nodes}
        # Nodes that a fault holds down, or that are being restarted by one.
        self.held: set[str] = set()
        self.probe_restarts = 0
        self.members: dict[str, Member] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def token(self) -> str:
        return self.credentials.token

    @property
    def addresses(self) -> dict[str, str]:
        """One of each service, another each time."""
        return {service: self._chance.choice(self.all_addresses(service)) for service in PORTS}

    def all_addresses(self, service: str) -> list[str]:
        names = [name for name in self.members if name.startswith(f"{service}-")]
        return [f"{self.network.address(name)}:{PORTS[service]}" for name in names]

    def exits(self) -> list[Exit]:
        """Crashes: ends of processes that no fault caused."""
        return [exit_ for member in self.members.values() for exit_ in member.exits]

    async def start(self) -> None:
        await asyncio.to_thread(self.cluster.start)
        if self._check_stores:
            self.cluster.check_stores()
        self._tasks = [asyncio.create_task(self._keep(node)) for node in self.cluster.nodes]
        await self._start_s3()
        for name in self._names():
            self.network.add(name)
            self.members[name] = self._member(name)
            self.members[name].start()
        await self._until_ready()

    async def stop(self) -> None:
        for task in self._tasks:
            task.cancel()
        order = sorted(self.members.values(), key=lambda member: not member.name.startswith("worker"))
        await asyncio.gather(*(member.stop() for member in order))
        await asyncio.to_thread(self.cluster.stop)

    async def lose_power(self, node: ClusterNode) -> None:
        """It stops in the middle of a word, what was not synced is gone, then it is started again."""
        async with self._taken(node):
            if node.running:
                node.freeze()
            self.disks[node.name].cut()
            if node.running:
                node.kill()
            deadline = time.monotonic() + UNMOUNT_SECONDS
            while True:
                try:
                    await asyncio.to_thread(self.disks[node.name].unmount)
                    break
                except subprocess.CalledProcessError:
                    assert time.monotonic() < deadline, f"something still uses the disk of {node}"
                    await asyncio.sleep(0.1)
            await asyncio.to_thread(self.disks[node.name].mount)
            self.ballast(node).unlink(missing_ok=True)

    @contextlib.asynccontextmanager
    async def down(self, node: ClusterNode, *, killed: bool = False) -> AsyncIterator[None]:
        """Stopped, and started by nobody else; afterwards it is started again."""
        async with self._taken(node):
            if killed and node.running:
                node.kill()
            await asyncio.to_thread(node.stop)
            yield
            await asyncio.to_thread(node.start)

    @contextlib.asynccontextmanager
    async def _taken(self, node: ClusterNode) -> AsyncIterator[None]:
        """Only the caller starts the node, not the probe; a start that is under way ends before."""
        self.held.add(node.name)
        lock = self._starting[node.name]
        await asyncio.to_thread(lock.acquire)
        try:
            yield
        finally:
            lock.release()
            self.held.discard(node.name)

    def _start(self, node: ClusterNode) -> None:
        with self._starting[node.name]:
            if not node.running and node.name not in self.held:
                node.start()

    @property
    def stores_set_aside(self) -> int:
        return sum(len(node.set_aside) for node in self.cluster.nodes)

    def ballast(self, node: ClusterNode) -> Path:
        """What fills the disk of the node."""
        return node.store / "ballast"

    def _make_cluster(self) -> NatsCluster:
        places = []
        for name in NODES:
            host = self.network.add(name)
            places.append(Place(host, 4222, 6222, 8222, self.network.prefix(name)))
        cluster = NatsCluster(self.folder / "nats", places)
        for node in cluster.nodes:
            node.store.mkdir()
        return cluster

    def _disk_of(self, node: ClusterNode) -> PowerDomain:
        return new_disk(self.folder / f"{node.name}.img", node.store)

    def _names(self) -> list[str]:
        telemetry = [f"telemetry-{number}" for number in range(1, 2 * self.partitions + 1)]
        workers = [f"worker-{number}" for number in range(1, WORKERS + 1)]
        return [
            "orchestrator-1",
            "orchestrator-2",
            *telemetry,
            "artifacts-1",
            "artifacts-2",
            "janitor",
            *workers,
        ]

    async def _start_s3(self) -> None:
        address = self.network.add("s3")
        part = s3_part(self.home, self.credentials, _s3_ports(self.home), {})
        command = [word.replace(LOOPBACK, address) for word in part.command]
        member = Member("s3", self.network.prefix("s3"), command, part.variables, self.home.s3 / "s3.log")
        self.members["s3"] = member
        self._s3_endpoint = part.address.replace(LOOPBACK, address)
        member.start()
        await self._until_s3()

    async def _until_s3(self) -> None:
        blobs = self.blobs()
        deadline = time.monotonic() + READY_SECONDS
        while True:
            try:
                await blobs.ensure_bucket()
                await blobs.put(".ready", b"yes")
                return
            except BlobsUnavailableError:
                assert time.monotonic() < deadline, "S3 does not answer"
                await asyncio.sleep(0.2)

    def blobs(self) -> S3Blobs:
        """S3 with the keys of a person."""
        return S3Blobs(
            ServiceSettings(
                s3_endpoint=self._s3_endpoint,
                s3_access_key=self.credentials.s3_access_key,
                s3_secret_key=self.credentials.s3_secret_key,  # type: ignore[arg-type]
                s3_bucket=BUCKET,
            )
        )

    def _member(self, name: str) -> Member:
        service, _, number = name.partition("-")
        folder = self.folder / name
        folder.mkdir()
        command = service_command(sys.executable, service)
        variables = {**self._variables(service, folder), **self._own(service, name, number, folder)}
        if self.clocks:
            variables |= self.clocks.variables(name)
        return Member(name, self.network.prefix(name), command, variables, folder / "log")

    def _variables(self, service: str, folder: Path) -> dict[str, str]:
        key = self.credentials.s3_keys[service]
        return {
            **self.cluster.environment(service),
            "RUNSPINE_S3_ENDPOINT": self._s3_endpoint,
            "RUNSPINE_S3_ACCESS_KEY": key.access,
            "RUNSPINE_S3_SECRET_KEY": key.secret,
            "RUNSPINE_S3_BUCKET": BUCKET,
            "RUNSPINE_LOG_FORMAT": "json",
            "TMPDIR": str(folder),
            **self._settings,
        }

    def _own(self, service: str, name: str, number: str, folder: Path) -> dict[str, str]:
        if service == "worker":
            return {
                "RUNSPINE_WORKER_ID": f"cluster-{number}",
                "RUNSPINE_WORKER_DIR": str(folder / "worker"),
                "RUNSPINE_WORKER_SLOTS": str(self._slots),
                "RUNSPINE_DRAIN_SECONDS": "5",
                # Trainers write into the ledger, out of their sandboxes.
                "RUNSPINE_SANDBOX_PATHS": f"{self.folder}:rw",
            }
        if service not in PORTS:
            return {}
        partition = {"RUNSPINE_INGEST_PARTITIONS": str(self.partitions)}
        index = {"RUNSPINE_INGEST_PARTITION_INDEX": str((int(number) - 1) % self.partitions)}
        return {
            "RUNSPINE_GRPC_ADDRESS": f"{self.network.address(name)}:{PORTS[service]}",
            "RUNSPINE_TOKENS_FILE": str(self.home.tokens_file),
            # The network is closed by itself.
            "RUNSPINE_ALLOW_PLAINTEXT": "true",
            **({**partition, **index} if service == "telemetry" else {}),
            **({"RUNSPINE_JANITOR": "apart"} if service == "artifacts" else {}),
        }

    async def _until_ready(self) -> None:
        """Every listener accepts connections."""
        deadline = time.monotonic() + READY_SECONDS
        for service, port in PORTS.items():
            for address in self.all_addresses(service):
                while not await _listens(address.rpartition(":")[0], port):
                    assert time.monotonic() < deadline, f"{service} at {address} does not listen"
                    await asyncio.sleep(0.2)

    async def _keep(self, node: ClusterNode) -> None:
        """Start a node that has ended; restart one whose JetStream is off, or that does not come up."""
        failures, ready = 0, None
        while True:
            await asyncio.sleep(RESTART_SECONDS if failures == 0 else PROBE_SECONDS)
            if node.name in self.held:
                failures = 0
            elif not node.running:
                await asyncio.to_thread(self._start, node)
            else:
                answer = await asyncio.to_thread(node.ask, "healthz?js-enabled-only=true")
                if (answer or {}).get("status") == "ok":
                    failures, ready = 0, node.process
                    continue
                failures += 1
                most = PROBE_FAILURES if ready is node.process else START_FAILURES
                if failures > most and node.name not in self.held:
                    self.probe_restarts += 1
                    failures = 0
                    node.end_with_stacks()
                    shutil.copy(node.log, self._kept / f"{node.name}-restart-{self.probe_restarts}.log")


def service_command(python: str, service: str) -> list[str]:
    return [python, "-P", "-m", f"runspine.services.{MODULES.get(service, service)}"]


def _s3_ports(home: Home) -> PortBook:
    """Ports that no other S3 server of the machine has: it puts sockets named by them into /tmp."""
    first = 21000 + os.getpid() % 800 * 10
    names = ("s3", "s3-filer", "s3-master", "s3-volume", "s3-admin")
    return PortBook(home.ports_file, chosen={name: first + at for at, name in enumerate(names)})


async def _listens(host: str, port: int) -> bool:
    try:
        _, writer = await asyncio.wait_for(asyncio.open_connection(host, port), 2)
    except (OSError, TimeoutError):
        return False
    writer.close()
    return True


@contextlib.asynccontextmanager
async def open_cluster(
    folder: Path, slots: int, partitions: int, settings: Mapping[str, str], kept: Path, check_stores: bool
) -> AsyncIterator[ClusterSite]:
    site = ClusterSite(folder, slots, partitions, settings, kept, check_stores)
    try:
        await site.start()
        yield site
    finally:
        await site.stop()
