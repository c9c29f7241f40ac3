"""The owner of NATS' disk rewrites history, with stolen signing keys: witnesses name the first position."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runspine.anchors.witnesses import StoredWitnesses, WitnessFile, witness_key
from runspine.anchors.writer import AnchorWriter
from runspine.eventlog import Recorded, Version
from runspine.eventlog.api import ask
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.publisher import MESSAGE_ID
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.signing import Keyring, SigningKey, new_signing_key
from runspine.eventlog.streams import ensure_streams
from runspine.ids import new_ulid
from runspine.storage.anchor_blobs import AnchorBlobs
from runspine.wire.v1.facts_pb2 import Fact, RunCompleted, RunFailed, RunQueued, RunSubmitted
from tests.kit.orchestrator import Orchestrator
from tests.kit.servers.s3 import S3Server

ROOT = SigningKey(bytes(range(32)))
KEY = SigningKey.parse(new_signing_key(ROOT, "orchestrator", 1))
JANITOR = SigningKey.parse(new_signing_key(ROOT, "janitor", 1))
RUNS = 4

Change = Callable[[Recorded], list[Fact] | None]


class Attacked:
    """A log with runs that failed, its witnesses, and the means of an attacker."""

    def __init__(self, client: Any, served: Orchestrator, s3: S3Server, folder: Path) -> None:
        self.client, self.served = client, served
        self.log = JetStreamLog(client.link, client.publisher, keyring=Keyring([ROOT.public]), key=KEY)
        self.file = folder / "witnesses.jsonl"
        self.blobs = AnchorBlobs(s3.settings())
        self.series = new_ulid()
        self.runs = [new_ulid() for _ in range(RUNS)]

    def writer(self) -> AnchorWriter:
        return AnchorWriter(
            self.log,
            self.blobs,
            JANITOR,
            leads=lambda: True,
            seconds=60,
            series=self.series,
            file=WitnessFile(self.file),
        )

    async def fill(self) -> None:
        """Each run fails; the log is witnessed after every step."""
        writer = self.writer()
        versions = dict.fromkeys(self.runs, Version())
        for facts in (
            lambda run: [
                Fact(at=1, run_submitted=RunSubmitted(run_id=run)),
                Fact(at=1, run_queued=RunQueued(attempt=1)),
            ],
            lambda _: [Fact(at=2, run_failed=RunFailed(attempt=1, reason="it diverged"))],
        ):
            for run in self.runs:
                versions[run] = await self.log.append(f"runs.{run}", facts(run), expected=versions[run])
            await writer.round()

    async def rewrite(self, change: Change) -> None:
        """Replace what is stored: the same positions, every chain and signature whole."""
        kept = [each async for each in self.log.follow("RUNS", live=False)]
        await ask(self.client.link, "STREAM.DELETE.RUNS", timeout=30)
        await ensure_streams(self.client.link)
        heads: dict[str, Version] = {}
        for each in kept:
            data = each.data
            if not each.subject.startswith("signers."):
                head = heads.get(each.subject, Version())
                facts = change(each)
                if facts is not None or each.commit.previous != head.digest:
                    made = facts if facts is not None else list(each.commit.facts)
                    data = seal(head, made, each.commit.id, each.commit.writer, subject=each.subject, key=KEY)
                heads[each.subject] = Version(0, each.commit.number, digest_of(data))
            headers = {MESSAGE_ID: new_ulid(), DIGEST: digest_of(data).hex()}
            assert await self.client.publisher.publish(each.subject, data, headers) == each.sequence

    def verify(self, *options: str) -> dict[str, Any]:
        command = [sys.executable, "-m", "runspine", "events", "verify", "--json", "--series", self.series]
        environment = {
            "PATH": "/usr/bin:/bin",
            "RUNSPINE_ADDRESS": self.served.address,
            "RUNSPINE_LOG_ROOT": ROOT.public.hex(),
        }
        done = subprocess.run(
            [*command, "--witness", str(self.file), *options],
            env=environment,
            capture_output=True,
            text=True,
            timeout=300,
        )
        found: dict[str, Any] = json.loads(done.stdout)
        assert done.returncode == (0 if found["whole"] else 1), done.stderr
        return found


@pytest.fixture
async def attacked(connect: Any, served: Orchestrator, s3_server: S3Server, tmp_path: Path) -> Attacked:
    await s3_server.ready()
    served.stub()
    attacked = Attacked(await connect("writer"), served, s3_server, tmp_path)
    await attacked.fill()
    return attacked


def _improved(position: int) -> Change:
    """A run that failed has completed, in the words of the attacker."""

    def change(recorded: Recorded) -> list[Fact] | None:
        if recorded.sequence != position:
            return None
        return [Fact(at=2, run_completed=RunCompleted(attempt=1))]

    return change


async def test_a_rewritten_commit_and_a_rewritten_stream_are_named_by_the_witnesses(
    attacked: Attacked,
) -> None:
    before = attacked.verify()
    assert before["whole"], before
    last = before["streams"]["RUNS"]["last_sequence"]
    [witness] = before["witnesses"]["RUNS"]
    assert (witness["position"], witness["signed"]) == (last, True)

    # The last commit; then one in the middle, of those that were witnessed a round earlier.
    for position in (last, last - RUNS - 1):
        await attacked.rewrite(_improved(position))
        found = attacked.verify()
        assert not found["whole"]
        assert [(each["stream"], each["sequence"]) for each in found["flaws"]] == [("RUNS", position)]
        assert "this is not the message that was witnessed at" in found["flaws"][0]["what"]

    # The whole stream, without its first message.
    await ask(attacked.client.link, "STREAM.DELETE.RUNS", timeout=30)
    await ensure_streams(attacked.client.link)
    found = attacked.verify()
    [problem] = found["flaws"]
    assert (problem["stream"], problem["sequence"]) == ("RUNS", 1)
    assert f"the stream ends at 0, but position {last} was witnessed" in problem["what"]
    await attacked.log.append("runs.other", [Fact(at=1, run_queued=RunQueued(attempt=1))], expected=Version())
    first = [each["what"] for each in attacked.verify()["flaws"] if each["sequence"] == 1]
    assert any("created again, or rewritten from its first position" in what for what in first), first

    # The service that witnesses the log signs nothing more for it.
    stored = StoredWitnesses(attacked.blobs, attacked.series)
    sizes = await stored.read_sizes("RUNS")
    await attacked.writer().round()
    assert await stored.read_sizes("RUNS") == sizes


async def test_the_witnesses_in_s3_are_those_of_the_file_and_a_forged_one_is_a_problem(
    attacked: Attacked,
) -> None:
    stored = StoredWitnesses(attacked.blobs, attacked.series)
    file = WitnessFile(attacked.file)
    file.index(attacked.series)
    sizes = await stored.read_sizes("RUNS")
    assert sizes == file.sizes("RUNS")
    assert len(sizes) == 2
    for size in sizes:
        assert await stored.read("RUNS", size) == file.load("RUNS", size)
    # A restart of the writer continues where the last one ended.
    version = await attacked.log.append(
        "keys.k", [Fact(at=1, key_reserved={"run_id": "r"})], expected=Version()
    )
    await attacked.writer().round()
    assert (await stored.read_sizes("RUNS"))[-1] == version.sequence
    assert attacked.verify()["whole"]
    newest = await stored.read("RUNS", version.sequence)
    assert newest is not None
    newest.head.root = b"r" * 32
    WitnessFile(attacked.file).append(newest)
    [problem] = attacked.verify()["flaws"]
    assert problem["sequence"] == version.sequence
    assert "does not count: its signature is wrong" in problem["what"]
    await attacked.blobs.put(witness_key(attacked.series, "RUNS", version.sequence), b"\xff")
    assert await stored.read("RUNS", version.sequence) is None
