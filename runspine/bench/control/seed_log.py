"""Writes a log of a million facts, chained and signed as the services do, without syncing each."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Callable

from runspine.bench.kit.ports import free_port
from runspine.embedded.binaries import find_binary
from runspine.embedded.credentials import Credentials, load_credentials
from runspine.embedded.home import Home, write_private
from runspine.embedded.nats_config import embedded_config, render
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.port import Version
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.signing import SigningKey
from runspine.eventlog.streams import ensure_streams
from runspine.eventlog.subjects import attempts_subject, run_subject, signer_subject
from runspine.ids import ulid
from runspine.wire.v1.facts_pb2 import (
    EXITED,
    AttemptExited,
    AttemptStarted,
    Counts,
    Fact,
    RunCompleted,
    RunQueued,
    RunStarted,
    RunSubmitted,
)
from runspine.wire.v1.spec_pb2 import RunSpec

FACTS_A_RUN = 6


def life_of(run_id: str, number: int, at: int) -> list[tuple[str, list[list[Fact]]]]:
    """Commits of one finished run, by subject."""
    spec = RunSpec(
        runner="script", env="CartPole-v1", algo="ppo", seed=number, command=["python", "train.py"],
        pool="default", labels={"group": f"g{number % 100}"}, total_steps=100_000,
    )  # fmt: skip
    submitted = RunSubmitted(run_id=run_id, name=f"CartPole-v1__ppo__{number}__{at // 10**6}", spec=spec)
    counts = Counts(steps=100_000, episodes=400, metrics=900)
    worker = f"w{number % 16}"
    return [
        (
            run_subject(run_id),
            [
                [Fact(at=at, run_submitted=submitted), Fact(at=at, run_queued=RunQueued(attempt=1))],
                [Fact(at=at + 10, run_started=RunStarted(attempt=1, worker_id=worker))],
                [Fact(at=at + 20, run_completed=RunCompleted(attempt=1, counts=counts))],
            ],
        ),
        (
            attempts_subject(run_id),
            [
                [Fact(at=at + 9, attempt_started=AttemptStarted(attempt=1, worker_id=worker, host="lab"))],
                [Fact(at=at + 19, attempt_exited=AttemptExited(attempt=1, outcome=EXITED, counts=counts))],
            ],
        ),
    ]


async def seed_log(home: Home, facts: int, announce: Callable[[int], None]) -> None:
    """Fill the log of a stack that is not running. Only here the server does not sync every message."""
    home.prepare()
    credentials = load_credentials(home)
    port = free_port()
    config = embedded_config(port, free_port(), str(home.nats / "store"), credentials.nats)
    file = home.nats / "seed.conf"
    write_private(file, render(config).replace("sync_interval: always", 'sync_interval: "2m"'))
    server = subprocess.Popen([str(find_binary("nats-server")), "-c", str(file)], stderr=subprocess.DEVNULL)
    try:
        account = NatsAccount(f"nats://127.0.0.1:{port}", "admin", credentials.nats["admin"], "_INBOX_admin")
        async with NatsConnection(account, "seed") as link, Publisher(link, window=2048) as publisher:
            await ensure_streams(link)
            await _publish(publisher, await _keys(publisher, credentials), facts, announce)
    finally:
        server.terminate()
        await asyncio.to_thread(server.wait)


async def _keys(publisher: Publisher, credentials: Credentials) -> dict[str, SigningKey]:
    """The keys of the writers by the first part of the subject, introduced."""
    roles = {"runs": "orchestrator", "attempts": "worker"}
    keys = {prefix: SigningKey.parse(credentials.signing[role]) for prefix, role in roles.items()}
    for key in keys.values():
        headers = {MESSAGE_ID: key.id, DIGEST: digest_of(key.introduction).hex()}
        await publisher.publish(signer_subject(key.id), key.introduction, headers)
    return keys


async def _publish(
    publisher: Publisher, keys: dict[str, SigningKey], facts: int, announce: Callable[[int], None]
) -> None:
    waiting: list[asyncio.Future[int]] = []
    for number in range(facts // FACTS_A_RUN + 1):
        at = 1_700_000_000_000_000 + number * 1000
        run_id = ulid(at // 1000, number.to_bytes(10, "big"))
        for subject, commits in life_of(run_id, number, at):
            version, key = Version(), keys[subject.partition(".")[0]]
            for index, batch in enumerate(commits):
                commit_id = f"{subject}.{index}"
                data = seal(version, batch, commit_id, "seed", subject=subject, key=key)
                version = Version(0, version.number + 1, digest_of(data))
                headers = {MESSAGE_ID: commit_id, DIGEST: version.digest.hex()}
                waiting.append(await publisher.start(subject, data, headers))
        if len(waiting) > 4000:
            await asyncio.gather(*waiting)
            waiting.clear()
        if number % 20_000 == 0:
            announce(number * FACTS_A_RUN)
    await asyncio.gather(*waiting)
