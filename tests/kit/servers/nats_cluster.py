"""Three real nats-servers in a cluster, as deploy/k8s/nats/values.yaml describes them.

Each node has the configuration of our manifests (users and permissions of every service, every write synced),
its own ports on loopback and its own directory. Streams are replicated when the orchestrator runs with
RUNSPINE_STREAM_REPLICAS=3, or after `ensure_streams(link, replicas=3)`.

    with nats_cluster(tmp_path) as cluster:
        environment = cluster.environment("orchestrator")  # NATS address, user, password, three replicas
        account = cluster.account("admin")                 # the same for NatsConnection
        leader = cluster.leader_of("RUNS")                 # the node that leads a stream, or None
        leader.kill()                                      # kill -9
        cluster.wait_for_leader("RUNS")                    # another one
        leader.start()
        with cluster.followers_of("RUNS")[0].frozen():     # SIGSTOP; continued at the end
            ...
        node.stop(); node.wipe(); node.start()             # a new disk: it copies everything from the others
        cluster.check_stores()                             # each start from now on is preceded by a check
        cluster.wait_until_whole()                         # every node up, every replica current

Leaders are asked over the monitoring port: no connection to NATS is needed, a frozen node is passed over.
`Place` puts a node somewhere else than on loopback, for example into a network namespace of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeVar

from runspine.clock import now_micros
from runspine.embedded.nats_config import NatsConfig, render
from runspine.eventlog.connection import NatsAccount
from runspine.eventlog.permissions import USERS, inbox_of
from runspine.eventlog.signing import PREFIXES, SigningKey, new_signing_key
from tests.kit.servers.nats import binary, free_port

NODES = 3
# An election takes up to nine seconds, and a shared machine is slow.
READY_SECONDS = 90.0
# How long a node with a damaged store waits for its peers.
PEERS_SECONDS = 60.0
MONITOR_SECONDS = 1.0

Found = TypeVar("Found")


@dataclass(frozen=True)
class Place:
    """Where a node runs: address, ports, and what its command line begins with (`ip netns exec …`)."""

    host: str = "127.0.0.1"
    client: int = field(default_factory=free_port)
    route: int = field(default_factory=free_port)
    monitor: int = field(default_factory=free_port)
    prefix: tuple[str, ...] = ()

    @property
    def url(self) -> str:
        return f"nats://{self.host}:{self.client}"


class ClusterNode:
    """One nats-server of the cluster."""

    def __init__(self, name: str, place: Place, directory: Path, config: str) -> None:
        self.name = name
        self.place = place
        self.url = place.url
        self.directory = directory
        self.store = directory / "js"
        self.process: subprocess.Popen[bytes] | None = None
        # Monitoring URLs of the others, when the store is to be checked before each start.
        self.peers: list[str] = []
        # Where damaged stores were moved to.
        self.set_aside: list[str] = []
        self._checking: subprocess.Popen[bytes] | None = None
        self._closed = False
        self._config = directory / "nats.conf"
        directory.mkdir(parents=True)
        self._config.write_text(config)

    def __repr__(self) -> str:
        return self.name

    @property
    def monitor_url(self) -> str:
        return f"http://{self.place.host}:{self.place.monitor}"

    @property
    def running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def start(self) -> None:
        """Start without waiting for it; see NatsCluster.wait_until_whole.

        With `peers`, the store is checked first, as the init container of deploy/k8s/nats does: the node does
        not start while its store is damaged and a peer is not healthy.
        """
        assert not self.running, f"{self.name} runs already"
        if (self.peers and not self._check_store()) or self._closed:
            return
        command = [*self.place.prefix, binary("nats-server"), "-c", str(self._config)]
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(command, stdout=log, stderr=log)

    def _check_store(self) -> bool:
        """Whether the node may start; a damaged store has been moved aside then."""
        words = [
            "--set-aside",
            "--peers",
            ",".join(self.peers),
            "--patience",
            f"{PEERS_SECONDS:.0f}",
            "--json",
        ]
        command = [sys.executable, "-m", "runspine", "nats-store", "check", str(self.store), *words]
        with (self.directory / "check.log").open("ab") as log:
            self._checking = subprocess.Popen(
                [*self.place.prefix, *command], stdout=subprocess.PIPE, stderr=log
            )
            emitted, _ = self._checking.communicate()
            log.write(emitted)
        if self._checking.returncode == 0 and (place := json.loads(emitted)["set_aside"]):
            self.set_aside.append(place)
        return self._checking.returncode == 0

    def close(self) -> None:
        """Stop; a start that is under way is given up."""
        self._closed = True
        if self._checking is not None:
            self._checking.kill()
        if self.running:
            self.thaw()
            self.stop()

    def kill(self) -> None:
        """kill -9."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        """SIGTERM: the node gives up what it leads, and exits."""
        if self.process is None or not self.running:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(30)
        except subprocess.TimeoutExpired:
            self.kill()

    def restart(self) -> None:
        self.stop()
        self.start()

    def wipe(self) -> None:
        """Delete what a stopped node has stored."""
        assert not self.running, f"{self.name} runs"
        shutil.rmtree(self.store, ignore_errors=True)

    def freeze(self) -> None:
        """SIGSTOP; it has taken effect when this returns."""
        assert self.process
        self.process.send_signal(signal.SIGSTOP)
        os.waitid(os.P_PID, self.process.pid, os.WSTOPPED | os.WNOWAIT)

    def thaw(self) -> None:
        assert self.process
        self.process.send_signal(signal.SIGCONT)

    @contextlib.contextmanager
    def frozen(self) -> Iterator[None]:
        self.freeze()
        try:
            yield
        finally:
            self.thaw()

    @property
    def log(self) -> Path:
        return self.directory / "nats.log"

    def output(self) -> str:
        return self.log.read_text()

    def end_with_stacks(self) -> None:
        """SIGQUIT: the stacks of its goroutines are in its log."""
        assert self.process
        self.process.send_signal(signal.SIGQUIT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(5)
        self.kill()

    def ask(self, path: str) -> dict[str, Any] | None:
        """The answer of the monitoring port; None when the node does not answer or is not healthy."""
        if not self.running:
            return None
        url = f"{self.monitor_url}/{path}"
        try:
            with urllib.request.urlopen(url, timeout=MONITOR_SECONDS) as answer:
                found: dict[str, Any] = json.load(answer)
        except (OSError, urllib.error.URLError, ValueError):
            return None
        return found

    def streams(self) -> dict[str, dict[str, Any]]:
        """What this node knows of each stream that it has a replica of: `cluster`, `state`, `config`."""
        answer = self.ask("jsz?accounts=true&streams=true&config=true") or {}
        return {
            stream["name"]: stream
            for account in answer.get("account_details", [])
            for stream in account.get("stream_detail", [])
        }


class NatsCluster:
    """The nodes, and questions about them."""

    def __init__(self, directory: Path, places: Sequence[Place] = ()) -> None:
        places = places or [Place() for _ in range(NODES)]
        self.passwords = {user: f"p{secrets.token_hex(8)}" for user in USERS}
        # Commits are signed, as the manifests have it.
        root = SigningKey(secrets.token_bytes(32))
        self.log_root = root.public.hex()
        self._signing = {role: new_signing_key(root, role, now_micros()) for role in PREFIXES}
        self.nodes = []
        for number, place in enumerate(places, 1):
            name = f"n{number}"
            config = _config(name, place, places, directory / name / "js", self.passwords)
            self.nodes.append(ClusterNode(name, place, directory / name, config))
        self.url = ",".join(node.url for node in self.nodes)

    def account(self, user: str, *nodes: ClusterNode) -> NatsAccount:
        """For NatsConnection: as this user, to all nodes or only to some."""
        url = ",".join(node.url for node in nodes) or self.url
        return NatsAccount(url, user, self.passwords[user], inbox_of(user))

    def environment(self, user: str, *nodes: ClusterNode) -> dict[str, str]:
        """Settings of a service that connects as this user."""
        return {
            "RUNSPINE_NATS_URL": self.account(user, *nodes).url,
            "RUNSPINE_NATS_USER": user,
            "RUNSPINE_NATS_PASSWORD": self.passwords[user],
            "RUNSPINE_STREAM_REPLICAS": str(len(self.nodes)),
            "RUNSPINE_LOG_ROOT": self.log_root,
            "RUNSPINE_SIGNING_KEY": self._signing.get(user, ""),
        }

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        self.wait_until_whole()

    def stop(self) -> None:
        for node in self.nodes:
            node.close()

    def check_stores(self) -> None:
        """From now on every node checks its store before it starts."""
        for node in self.nodes:
            node.peers = [other.monitor_url for other in self.nodes if other is not node]

    def node(self, name: str) -> ClusterNode:
        return next(node for node in self.nodes if node.name == name)

    def leader_of(self, stream: str) -> ClusterNode | None:
        """The node that leads the stream, by its own word; None while nobody does."""
        for node in self.nodes:
            known = node.streams().get(stream)
            if known is not None and known.get("cluster", {}).get("leader") == node.name:
                return node
        return None

    def term_of(self, stream: str) -> int:
        """The newest term of the stream that a node knows: an election begins another one."""
        terms = [0]
        for node in self.nodes:
            answer = node.ask("jsz?accounts=true&streams=true&raft=true") or {}
            details = [
                each for account in answer.get("account_details", []) for each in account["stream_detail"]
            ]
            groups = {each["name"]: each.get("stream_raft_group", "") for each in details}
            for known in (node.ask("raftz?acc=RUNSPINE") or {}).values():
                terms.append(known.get(groups.get(stream, ""), {}).get("term", 0))
        return max(terms)

    def followers_of(self, stream: str) -> list[ClusterNode]:
        """The running nodes that do not lead the stream."""
        leader = self.wait_for_leader(stream)
        return [node for node in self.nodes if node is not leader and node.running]

    def meta_leader(self) -> ClusterNode | None:
        """The node that decides on streams and consumers; None while there is none."""
        for node in self.nodes:
            answer = node.ask("jsz") or {}
            if answer.get("meta_cluster", {}).get("leader") == node.name:
                return node
        return None

    def wait_for_leader(self, stream: str) -> ClusterNode:
        return _wait(lambda: self.leader_of(stream), f"no leader of {stream}", self)

    def wait_until_whole(self) -> None:
        """Until every node is up, one leads, and every replica has what its leader has."""
        _wait(self.is_whole, "the cluster is not whole", self)

    def is_whole(self) -> bool:
        return self.meta_leader() is not None and all(
            (node.ask("healthz") or {}).get("status") == "ok" for node in self.nodes
        )


@contextlib.contextmanager
def nats_cluster(directory: Path, places: Sequence[Place] = ()) -> Iterator[NatsCluster]:
    """A running cluster; stopped at the end."""
    cluster = NatsCluster(directory, places)
    try:
        cluster.start()
        yield cluster
    finally:
        cluster.stop()


def _config(name: str, place: Place, places: Sequence[Place], store: Path, passwords: dict[str, str]) -> str:
    config = NatsConfig(
        listen=f"{place.host}:{place.client}",
        monitor=f"{place.host}:{place.monitor}",
        store_dir=str(store),
        passwords=passwords,
    )
    text = render(config)
    routes = ", ".join(f'"nats://{other.host}:{other.route}"' for other in places)
    assert "server_name: runspine\n" in text
    return (
        text.replace("server_name: runspine\n", f"server_name: {name}\n")
        + f'cluster {{ name: runspine, listen: "{place.host}:{place.route}", routes: [{routes}] }}\n'
    )


def _wait(found: Callable[[], Found | None], trouble: str, cluster: NatsCluster) -> Found:
    deadline = time.monotonic() + READY_SECONDS
    while time.monotonic() < deadline:
        if answer := found():
            return answer
        time.sleep(0.05)
    tails = "\n".join(f"--- {node}\n{node.output()[-2000:]}" for node in cluster.nodes)
    raise AssertionError(f"{trouble} after {READY_SECONDS:.0f} s\n{tails}")
