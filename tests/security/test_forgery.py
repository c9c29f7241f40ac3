"""Facts that their author may not write: with a stolen password of NATS, and with a stolen signing key.

The server refuses the first (test_zones.py tries all of it); readers refuse what the operator of NATS writes.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import inbox_of
from runspine.eventlog.port import Version
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.signing import SigningKey
from runspine.ids import new_ulid
from runspine.rpc.endpoint import find_endpoint
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.facts_pb2 import Fact, RunQueued, RunSubmitted
from runspine.wire.v1.run_pb2 import COMPLETED
from tests.kit.background_stack import Shell, stack
from tests.kit.played_worker import spec
from tests.kit.waiting import eventually, until


class Attacked:
    """A stack of its own, and what an attacker may hold of it."""

    def __init__(self, home: Path, shell: Shell) -> None:
        self.home = Home.at(home)
        self.shell = shell
        self.credentials: Credentials = load_credentials(self.home)
        self.client = Client(find_endpoint(shell.environment))
        self.proof = home.parent / "executed"

    def link(self, user: str) -> NatsConnection:
        record = running_record(self.home)
        assert record is not None
        url = f"nats://{record.addresses['nats']}"
        return NatsConnection(NatsAccount(url, user, self.credentials.nats[user], inbox_of(user)), user)

    def forged(self, run_id: str, key: SigningKey | None) -> bytes:
        """A well-formed submit in somebody else's name, which would leave a file behind."""
        command = [sys.executable, "-c", f"open({str(self.proof)!r}, 'w')"]
        submitted = RunSubmitted(
            run_id=run_id, name="forged", spec=spec(command=command), submitted_by="root"
        )
        facts = [Fact(at=1, run_submitted=submitted), Fact(at=1, run_queued=RunQueued(attempt=1))]
        return seal(Version(), facts, new_ulid(), "orchestrator", subject=f"runs.{run_id}", key=key)

    async def written(self, data: bytes, run_id: str) -> None:
        """Put bytes on runs.<id> as the operator, who may publish anything."""
        async with self.link("admin") as link:
            headers = {DIGEST: digest_of(data).hex(), MESSAGE_ID: new_ulid()}
            await link.client.request(f"runs.{run_id}", data, headers=headers, timeout=30)

    async def copied(self, user: str, data: bytes, run_id: str) -> None:
        """Try to put bytes on runs.<id> as a user that may not: JetStream answers to any subject."""
        carrier = f"attempts.{new_ulid()}"
        headers = {DIGEST: digest_of(data).hex(), MESSAGE_ID: new_ulid()}
        async with self.link(user) as link:
            stored = await link.client.request(carrier, data, headers=headers, timeout=30)
            position = json.loads(stored.data)["seq"]
            body = json.dumps({"seq": position}).encode()
            await link.client.publish("$JS.API.DIRECT.GET.ATTEMPTS", body, reply=f"runs.{run_id}")
            await link.client.flush()

    def quarantined(self, subject: str) -> str:
        found = {each.subject: each.reason for each in self.client.quarantines()}
        return found.get(subject, "")


@pytest.fixture(scope="module")
def attacked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Attacked]:
    home = tmp_path_factory.mktemp("forgery") / "home"
    with stack(home, "--workers", "1", "--slots", "2") as shell:
        yield Attacked(home, shell)


async def test_a_submit_is_not_copied_onto_a_run_with_the_workers_password(attacked: Attacked) -> None:
    run_id = new_ulid()
    await attacked.copied("worker", attacked.forged(run_id, None), run_id)
    async with attacked.link("admin") as link, Publisher(link) as publisher:
        assert await JetStreamLog(link, publisher).read(f"runs.{run_id}") == ([], Version())
    _nothing_was_executed(attacked)


async def test_a_submit_that_is_not_signed_is_not_executed(attacked: Attacked) -> None:
    run_id = new_ulid()
    await attacked.written(attacked.forged(run_id, None), run_id)
    await eventually(lambda: attacked.quarantined(f"runs.{run_id}"))
    assert "commit 1 is not signed" in attacked.quarantined(f"runs.{run_id}")
    verdict = json.loads(_verify(attacked.shell).stdout)
    assert not verdict["whole"]
    named = {each["subject"]: each["what"] for each in verdict["flaws"]}
    assert "is not signed" in named[f"runs.{run_id}"]
    _nothing_was_executed(attacked)


@pytest.mark.long
async def test_a_submit_signed_with_the_key_of_a_worker_is_not_executed(attacked: Attacked) -> None:
    run_id = new_ulid()
    key = SigningKey.parse(attacked.credentials.signing["worker"])
    await attacked.written(attacked.forged(run_id, key), run_id)
    await eventually(lambda: attacked.quarantined(f"runs.{run_id}"))
    assert "the key of a worker signs no commit on runs.*" in attacked.quarantined(f"runs.{run_id}")
    _nothing_was_executed(attacked)


@pytest.mark.long
async def test_the_admin_of_nats_cannot_write_history_without_a_key(attacked: Attacked) -> None:
    run_id = new_ulid()
    data = attacked.forged(run_id, SigningKey(b"s" * 32))
    async with attacked.link("admin") as link:
        await link.client.request(f"runs.{run_id}", data, headers={DIGEST: digest_of(data).hex()}, timeout=30)
    await eventually(lambda: attacked.quarantined(f"runs.{run_id}"))
    assert "unknown key" in attacked.quarantined(f"runs.{run_id}")
    _nothing_was_executed(attacked)


@pytest.mark.long
def test_a_revoked_key_is_refused_and_a_new_one_takes_its_place(attacked: Attacked) -> None:
    [before] = attacked.shell.submit("print('trained')")
    until(lambda: attacked.client.get(before).run.phase == COMPLETED)
    keys = {each["role"]: each["id"] for each in attacked.shell.json("signers")["keys"]}
    assert {"orchestrator", "worker"} <= keys.keys()
    attacked.shell("signers", "revoke", keys["orchestrator"], "--reason", "tested")
    states = {each["id"]: each["state"] for each in attacked.shell.json("signers")["keys"]}
    assert states[keys["orchestrator"]] == "revoked"

    # Keys are read again every few seconds.
    until(lambda: _is_refused(attacked), 120)
    attacked.shell("down")
    stored = json.loads(attacked.home.credentials_file.read_text())
    made = attacked.shell.json("signers", "make", "orchestrator")["signing_key"]
    stored["signing"]["keys"]["orchestrator"] = made
    attacked.home.credentials_file.write_text(json.dumps(stored))
    attacked.shell("up", "--detach", "--workers", "1", "--slots", "2")
    assert attacked.client.get(before).run.phase == COMPLETED
    [after] = attacked.shell.submit("print('trained again')")
    until(lambda: attacked.client.get(after).run.phase == COMPLETED)


def _is_refused(attacked: Attacked) -> bool:
    """Whether a decision under the revoked key does not count."""
    [run_id] = attacked.shell.submit("print('not trained')")
    seen = until(
        lambda: attacked.quarantined(f"runs.{run_id}") or attacked.client.get(run_id).run.phase == COMPLETED
    )
    return isinstance(seen, str) and "is revoked" in seen


def _verify(shell: Shell) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "runspine", "events", "verify", "--json"]
    return subprocess.run(command, env=shell.environment, capture_output=True, text=True, timeout=120)


def _nothing_was_executed(attacked: Attacked) -> None:
    """A run of the present is trained to its end; the forged ones are not there and left nothing behind."""
    [real] = attacked.shell.submit("print('trained')")
    until(lambda: attacked.client.get(real).run.phase == COMPLETED)
    assert all(each["run"]["name"] != "forged" for each in attacked.shell.json("ls")["runs"])
    assert not attacked.proof.exists()
