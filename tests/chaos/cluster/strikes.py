"""Executes faults of a cluster and records what was done."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import sys
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from runspine.eventlog.subjects import FACT_STREAMS
from tests.chaos.cluster.faults import ClusterFault, Targets
from tests.chaos.cluster.gaps import Strike
from tests.chaos.cluster.prober import Prober
from tests.chaos.cluster.site import NODES, ClusterSite, service_command
from tests.kit.servers.nats_cluster import ClusterNode

LEADER, FOLLOWER = "nats-leader", "nats-follower"
STREAM = "RUNS"
# An empty record has 30 bytes.
SMALL_BLOCK = 64
# How often a bit flips after a kill -9, not after a clean end.
KILLED = 0.7
# A fault on one node's disk waits until the cluster is whole again: a second one would take the majority.
ON_DISK = {"power", "fill", "wipe", "flip", "rolling"}
RECOVERY_SECONDS = 90.0
WHOLE_SECONDS = 1.5
SETTLE_SECONDS = 1.0


@dataclass(slots=True)
class Struck:
    """How often each fault struck, and what the checkers must know of it."""

    counts: Counter[str] = field(default_factory=Counter)
    # Alone, for the time without service.
    alone: list[Strike] = field(default_factory=list)
    # A worker that nobody could reach: which, from when to when.
    unheard: list[tuple[str, float, float]] = field(default_factory=list)
    not_whole: list[str] = field(default_factory=list)
    flipped: list[str] = field(default_factory=list)


class ClusterStriker:
    def __init__(
        self, site: ClusterSite, prober: Prober, seed: int, note: Callable[..., None], older: str = ""
    ) -> None:
        self._site = site
        self._prober = prober
        self._chance = random.Random(f"{seed} strikes")
        self._note = note
        self._older = older
        self._disks = asyncio.Lock()
        self.struck = Struck()

    def targets(self) -> Targets:
        """What each kind of fault can strike."""
        services = [name for name in self._site.members if name != "s3"]
        nodes = [LEADER, FOLLOWER]
        pairs = [f"{LEADER} to {FOLLOWER}", f"{FOLLOWER} to {LEADER}", f"{FOLLOWER} to {FOLLOWER}"]
        pairs += [f"{name} to {LEADER}" for name in ("orchestrator-1", "worker-1", "telemetry-1")]
        pairs += [f"{LEADER} to {name}" for name in ("orchestrator-2", "worker-2", "artifacts-1")]
        return {
            "kill": [*nodes, "s3", *services],
            "freeze": [*nodes, "s3", *services],
            "cut off": [*nodes, "s3", *services],
            "one way": pairs,
            "slow": [*nodes, "orchestrator-1", "worker-3", "telemetry-2"],
            "jump": services if self._site.clocks else [],
            "power": nodes,
            "fill": nodes,
            "wipe": nodes,
            "flip": [FOLLOWER],
            "rolling": ["nats-servers", "services"],
            "upgrade": [name for name in services if name != "janitor"] if self._older else [],
        }

    async def strike_alone(self, fault: ClusterFault) -> None:
        """And wait until everything has recovered."""
        term = await asyncio.to_thread(self._site.cluster.term_of, STREAM)
        began = time.monotonic()
        await self.strike(fault)
        await self._until_recovered(fault)
        recovered = time.monotonic()
        # Also because a follower no longer received from the leader: no vote is asked for before an election.
        elected = await asyncio.to_thread(self._site.cluster.term_of, STREAM) != term
        self.struck.alone.append(Strike(fault.name, began, recovered, elected))
        await asyncio.sleep(SETTLE_SECONDS)

    async def strike(self, fault: ClusterFault) -> str:
        """Do it; the name of the node or process that it struck, empty when it found nothing to strike."""
        if fault.kind in ON_DISK:
            async with self._disks:
                struck = await self._timed(fault)
                await self._until_recovered(fault)
                return struck
        if self._disks.locked() and (LEADER in fault.target or FOLLOWER in fault.target):
            return ""
        return await self._timed(fault)

    async def _timed(self, fault: ClusterFault) -> str:
        began = time.monotonic()
        struck = await self._do(fault)
        self.struck.counts[fault.name] += bool(struck)
        seconds = round(time.monotonic() - began, 3)
        self._note(
            "fault", kind=fault.kind, target=fault.target, struck=struck, seconds=seconds, jump=fault.jump
        )
        for name in {struck, *fault.target.split(" to ")}:
            if name.startswith("worker") and fault.kind in ("freeze", "cut off", "one way", "slow"):
                self.struck.unheard.append((name, began, time.monotonic()))
        return struck

    async def _do(self, fault: ClusterFault) -> str:
        match fault.kind:
            case "rolling":
                return await (self._roll_nodes() if fault.target == "nats-servers" else self._roll_services())
            case "one way":
                return await self._one_way(fault)
            case "upgrade":
                return await self._upgrade(fault.target)
        name = await self._resolve(fault.target)
        if not name:
            return ""
        match fault.kind:
            case "kill":
                return name if self._kill(name) else ""
            case "freeze":
                return name if await self._freeze(name, fault.seconds) else ""
            case "jump":
                assert self._site.clocks
                with self._site.clocks.jumped(name, fault.jump):
                    await asyncio.sleep(fault.seconds)
            case "cut off" | "slow":
                how = self._site.network.cut_off if fault.kind == "cut off" else self._site.network.slow
                with how(name):
                    await asyncio.sleep(fault.seconds)
            case _:
                await self._on_disk(fault, self._site.cluster.node(name))
        return name

    async def _on_disk(self, fault: ClusterFault, node: ClusterNode) -> None:
        match fault.kind:
            case "power":
                await self._site.lose_power(node)
            case "fill":
                await self._fill(node, fault.seconds)
            case "wipe":
                await self._wipe(node)
            case "flip":
                await self._flip(node)

    async def _resolve(self, target: str, other_than: str = "") -> str:
        """A member or host by name; a nats-server by its part in the stream of runs right now."""
        if target not in (LEADER, FOLLOWER):
            return target
        leader = await asyncio.to_thread(self._site.cluster.leader_of, STREAM)
        if leader is None:
            return ""
        if target == LEADER:
            return leader.name
        others = [
            node.name
            for node in self._site.cluster.nodes
            if node not in (leader,) and node.name != other_than
        ]
        return self._chance.choice(others)

    def _kill(self, name: str) -> bool:
        if name in NODES:
            node = self._site.cluster.node(name)
            if not node.running or name in self._site.held:
                return False
            node.kill()
            return True
        return self._site.members[name].kill()

    async def _freeze(self, name: str, seconds: float) -> bool:
        if name in NODES:
            node = self._site.cluster.node(name)
            if not node.running or name in self._site.held:
                return False
            process = node.process
            self._site.held.add(name)  # a probe would restart it
            node.freeze()
            await asyncio.sleep(seconds)
            if node.process is process and node.running:
                node.thaw()
            self._site.held.discard(name)
            return True
        member = self._site.members[name]
        pid = member.pid
        if pid is None or not member.send(signal.SIGSTOP):
            return False
        await asyncio.sleep(seconds)
        # It may have been killed and replaced meanwhile.
        if member.pid == pid:
            member.send(signal.SIGCONT)
        return True

    async def _one_way(self, fault: ClusterFault) -> str:
        first, _, second = fault.target.partition(" to ")
        source = await self._resolve(first)
        target = await self._resolve(second, other_than=source)
        if not source or not target:
            return ""
        with self._site.network.one_way(source, target):
            await asyncio.sleep(fault.seconds)
        return source

    async def _fill(self, node: ClusterNode, seconds: float) -> None:
        """The disk of one node has not a byte left."""
        ballast = self._site.ballast(node)
        with ballast.open("wb") as file:
            free = os.statvfs(node.store).f_bfree * os.statvfs(node.store).f_frsize
            while free > 1 << 12:
                try:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, free)
                except OSError:
                    free //= 2
        await asyncio.sleep(seconds)
        ballast.unlink()

    async def _wipe(self, node: ClusterNode) -> None:
        """A new disk: it copies everything from the others."""
        async with self._site.down(node):
            node.wipe()
            node.store.mkdir(exist_ok=True)

    async def _flip(self, node: ClusterNode) -> None:
        """One bit of a stream of facts or of its Raft log while the node is down; then another node leads."""
        folders = await asyncio.to_thread(flippable, node)
        # A server that ends cleanly leaves nothing in its Raft logs.
        async with self._site.down(node, killed=self._chance.random() < KILLED):
            found = [(stream, path) for stream, folder in folders for path in blocks_of(node, folder)]
            stream, block = self._chance.choice(found)
            at = flip_a_bit(block, self._chance)
            place = f"{node.name} {block.relative_to(node.store)} {at}"
            self.struck.flipped.append(place)
            self._note("flipped", place=place)
        if not await self._until_whole("flip"):
            return
        leader = await asyncio.to_thread(self._site.cluster.wait_for_leader, stream)
        leader.kill()

    async def _roll_nodes(self) -> str:
        for node in self._site.cluster.nodes:
            async with self._site.down(node):
                pass
            if not await self._until_whole("rolling nats-servers"):
                break
        return "nats-servers"

    async def _roll_services(self) -> str:
        for name, member in self._site.members.items():
            if name != "s3":
                member.terminate()
                await asyncio.sleep(3)
        return "services"

    async def _upgrade(self, name: str) -> str:
        """Another release for a while: the older one, then this one again."""
        member, service = self._site.members[name], name.partition("-")[0]
        await member.restart_with(service_command(self._older, service))
        await asyncio.sleep(8)
        await member.restart_with(service_command(sys.executable, service))
        return name

    async def _until_recovered(self, fault: ClusterFault) -> None:
        """All nodes whole, all processes alive, writes acknowledged; for some time."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        since = time.monotonic()
        while time.monotonic() < deadline:
            if not await self._is_whole():
                since = time.monotonic()
            elif time.monotonic() - since > WHOLE_SECONDS:
                return
            await asyncio.sleep(0.1)
        self.struck.not_whole.append(fault.name)
        self._note("not whole", after=fault.name)

    async def _until_whole(self, fault: str) -> bool:
        """All nodes; False, and kept, when it takes too long."""
        deadline = time.monotonic() + RECOVERY_SECONDS
        while time.monotonic() < deadline:
            if await asyncio.to_thread(self._site.cluster.is_whole):
                return True
            await asyncio.sleep(0.1)
        self.struck.not_whole.append(fault)
        self._note("not whole", after=fault)
        return False

    async def _is_whole(self) -> bool:
        if not self._prober.writes or not all(member.pid for member in self._site.members.values()):
            return False
        return await asyncio.to_thread(self._site.cluster.is_whole)


def flippable(node: ClusterNode) -> list[tuple[str, str]]:
    """Each stream of facts with its folder, and with the folder of its Raft log while the node is up."""
    answer = node.ask("jsz?accounts=true&streams=true&raft=true") or {}
    found = [(name, f"streams/{name}") for name in FACT_STREAMS]
    for account in answer.get("account_details", []):
        for stream in account.get("stream_detail", []):
            group = stream.get("stream_raft_group")
            if stream["name"] in FACT_STREAMS and group:
                found.append((stream["name"], f"_js_/{group}"))
    return found


def blocks_of(node: ClusterNode, folder: str) -> list[Path]:
    """Its blocks with records."""
    found = (node.store / "jetstream").rglob(f"{folder}/msgs/*.blk")
    return sorted(path for path in found if path.stat().st_size > SMALL_BLOCK)


def flip_a_bit(path: os.PathLike[str], chance: random.Random) -> str:
    """Where it is, as text."""
    with open(path, "r+b") as file:
        size = file.seek(0, os.SEEK_END)
        at = chance.randrange(size // 4, size)
        file.seek(at)
        byte = file.read(1)[0]
        file.seek(at)
        file.write(bytes([byte ^ (1 << chance.randrange(8))]))
    return f"byte {at} of {size}"
