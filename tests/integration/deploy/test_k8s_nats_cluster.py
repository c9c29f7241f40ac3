"""NATS as deploy/k8s/nats/values.yaml sets it: three servers, three copies, one server killed."""

from __future__ import annotations

import asyncio
import json
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from runspine.eventlog.connection import NatsAccount, NatsConnection, NatsUnreachableError
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import USERS, inbox_of
from runspine.eventlog.port import Version
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import ensure_streams
from runspine.wire.v1.facts_pb2 import Fact
from tests.kit.paths import ROOT
from tests.kit.servers.nats import binary, free_port

VALUES = ROOT / "deploy" / "k8s" / "nats" / "values.yaml"


class Node:
    def __init__(self, folder: Path, name: str, ports: dict[str, tuple[int, int]]) -> None:
        self.folder, self.name = folder / name, name
        self.folder.mkdir()
        self.port, cluster = ports[name]
        config = yaml.safe_load(VALUES.read_text())["config"]
        # What the chart writes around the merged part.
        whole = {
            "server_name": name,
            "listen": f"127.0.0.1:{self.port}",
            "jetstream": {
                "store_dir": str(self.folder / "js"),
                "max_mem": 64 << 20,
                "max_file": 2 << 30,
                **config["jetstream"]["merge"],
            },
            "cluster": {
                "name": "nats",
                "listen": f"127.0.0.1:{cluster}",
                "routes": [f"nats-route://127.0.0.1:{route}" for _, route in ports.values()],
            },
            **config["merge"],
        }
        text = json.dumps(whole).replace('"<< 1MB >>"', "1MB")
        for user in USERS:
            text = text.replace(f'"<< $RUNSPINE_NATS_{user.upper()}_PASSWORD >>"', f'"pw-{user}"')
        assert "<<" not in text
        (self.folder / "nats.conf").write_text(text)
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [binary("nats-server"), "-c", str(self.folder / "nats.conf")], stdout=log, stderr=log
            )

    def kill(self) -> None:
        assert self.process is not None
        self.process.kill()
        self.process.wait()


@pytest.fixture
def nodes(tmp_path: Path) -> Iterator[list[Node]]:
    ports = {f"nats-{n}": (free_port(), free_port()) for n in range(3)}
    made = [Node(tmp_path, name, ports) for name in ports]
    for node in made:
        node.start()
    yield made
    for node in made:
        node.kill()


async def made(link: NatsConnection) -> bool:
    """Whether the streams are there: a cluster that has just begun has no leader yet."""
    try:
        await ensure_streams(link, replicas=3, telemetry_bytes=64 << 20)
    except (RuntimeError, NatsUnreachableError):
        return False
    return True


@pytest.mark.long
async def test_facts_are_on_three_servers_and_writing_goes_on_when_one_is_killed(nodes: list[Node]) -> None:
    account = NatsAccount(
        f"nats://127.0.0.1:{nodes[0].port}", "orchestrator", "pw-orchestrator", inbox_of("orchestrator")
    )
    async with NatsConnection(account, "orchestrator") as link, Publisher(link) as publisher:
        async with asyncio.timeout(90):
            while not await made(link):
                await asyncio.sleep(0.5)
        log = JetStreamLog(link, publisher, timeout=60)
        version = Version()
        for number in range(60):
            if number == 20:
                nodes[1].kill()
            if number == 40:
                nodes[1].start()
            version = await log.append("runs.r1", [Fact(at=number)], expected=version)
        history, last = await log.read("runs.r1")
        assert [fact.at for commit in history for fact in commit.commit.facts] == list(range(60))
        assert (last.number, (await log.extent("RUNS")).last) == (60, 60)
        info = json.loads((await link.request("$JS.API.STREAM.INFO.RUNS", b"")).data)
        assert info["config"]["num_replicas"] == 3
        assert len(info["cluster"]["replicas"]) == 2
