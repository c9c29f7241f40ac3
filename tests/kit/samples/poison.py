"""Messages that do not belong on a stream: random bytes, changed commits, and headers of the server."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping

from runspine.embedded.credentials import load_credentials
from runspine.embedded.home import Home
from runspine.embedded.record import running_record
from runspine.eventlog.chain import digest_of
from runspine.eventlog.connection import NatsAccount, NatsConnection
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.permissions import inbox_of
from runspine.eventlog.publisher import Publisher
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.subjects import FACT_STREAMS, stream_of
from runspine.wire.v1.telemetry_pb2 import Array, Batch, StepBatch, StepBlock

HEADERS: list[dict[str, str]] = [
    {},
    {DIGEST: "not hex"},
    {"Status": "409", "Description": "Consumer Deleted"},
    {"Status": "404"},
    {"Nats-Sequence": "7", "Nats-Subject": "runs.elsewhere", "Nats-Time-Stamp": "never"},
]


# The service that sends each kind of message that is not stored.
SENDERS = {
    "control": "dashboard",
    "frames": "worker",
    "caches": "orchestrator",
    "preflight": "orchestrator",
    "janitor": "artifacts",
    inbox_of("orchestrator"): "worker",
}


class Poisoner:
    """Publishes such messages as the NATS user admin; those that are not stored as the service that may."""

    def __init__(self, link: NatsConnection, seed: int, services: Mapping[str, NatsConnection]) -> None:
        self._link = link
        self._services = services
        self._random = random.Random(seed)
        self._commits: list[bytes] = []

    async def collect_commits(self) -> None:
        """Read the commits of the log, to change them."""
        async with Publisher(self._link) as publisher:
            log = JetStreamLog(self._link, publisher)
            for stream in FACT_STREAMS:
                self._commits += [r.data async for r in log.follow(stream, live=False)]

    async def store(self, subject: str) -> None:
        """Put a message on a stream, and wait until it is stored."""
        data = self._message(subject)
        headers = dict(self._random.choice(HEADERS))
        if not headers and self._random.random() < 0.8:
            headers = {DIGEST: digest_of(data).hex()}
        await self._link.client.request(subject, data, headers=headers or None, timeout=30)

    async def send(self, subject: str) -> None:
        """Publish a message that is not stored; from the account of the operator it would reach nobody."""
        await self._services[SENDERS[subject.split(".", 1)[0]]].client.publish(subject, self._bytes())

    def _message(self, subject: str) -> bytes:
        if subject.startswith("telemetry."):
            return self._batch(subject.split(".")[1])
        if self._commits and self._random.random() < 0.6:
            return self._changed(self._random.choice(self._commits))
        return self._bytes()

    def _bytes(self) -> bytes:
        return self._random.randbytes(self._random.choice([0, 1, 7, 64, 4096]))

    def _changed(self, data: bytes) -> bytes:
        changed = bytearray(data)
        for _ in range(self._random.randint(1, 4)):
            changed[self._random.randrange(len(changed))] ^= self._random.randint(1, 255)
        return bytes(changed)

    def _batch(self, run_id: str) -> bytes:
        """Bytes, or a batch of this run whose columns do not fit each other."""
        if self._random.random() < 0.5:
            return self._bytes()
        pick = self._random.choice
        block = StepBlock(
            slot=self._random.randint(0, 9),
            count=pick([0, 3, 1 << 31]),
            action=Array(dtype=pick(["<f4", "none", "<U9999", ""]), shape=pick([[], [3], [0]]), data=b"abc"),
            reward=Array(dtype=pick(["<f4", "|O"]), data=self._random.randbytes(12)),
            flags=self._random.randbytes(pick([0, 3])),
        )
        number = self._random.randint(1 << 20, 1 << 31)
        steps = StepBatch(blocks=[block])
        return Batch(run_id=run_id, attempt=1, number=number, steps=steps).SerializeToString()


def account_of(home: Home, user: str) -> NatsAccount:
    """A NATS user of a stack; `admin` may publish anything."""
    record = running_record(home)
    assert record is not None
    password = load_credentials(home).nats[user]
    return NatsAccount(f"nats://{record.addresses['nats']}", user, password, inbox_of(user))


def fact_subjects(victims: list[str], worker: str, strangers: int) -> Iterator[str]:
    """Subjects of facts: of runs under way, of a worker, of the artifacts service, and of nobody."""
    for number, victim in enumerate(victims):
        yield f"{('runs', 'attempts', 'artifacts')[number % 3]}.{victim}"
    yield f"workers.{worker}"
    for number in range(strangers):
        yield f"{('runs', 'keys', 'attempts', 'workers', 'artifacts')[number % 5]}.stranger{number}"


def other_subjects(run_id: str, worker: str) -> Iterator[str]:
    """Subjects that are not quarantined: of streams without facts, and of keys."""
    yield f"telemetry.{run_id}.1.step"
    yield f"telemetry.{run_id}.x.metric"
    yield "telemetry.stranger"
    yield "signers.stranger"
    yield "signers.begin"
    yield "work.default.50"
    yield "work.nobody.1"
    yield f"beats.{worker}"
    yield "beats.stranger"
    yield "audit.orchestrator.stranger"
    yield "audit.stranger.1"
    yield f"notices.{run_id}"
    yield "notices.config"
    yield f"notice_requests.{run_id}"


def by_stream(subjects: list[str]) -> dict[str, list[str]]:
    """The subjects of each stream."""
    found: dict[str, list[str]] = {}
    for subject in subjects:
        found.setdefault(stream_of(subject), []).append(subject)
    return found


def core_subjects(run_id: str, worker: str) -> Iterator[str]:
    """Subjects that are not stored."""
    yield f"control.{run_id}"
    yield f"frames.{run_id}.0"
    yield f"caches.{worker}"
    yield f"preflight.{worker}"
    yield "janitor.pulse"
    yield "_INBOX_orchestrator.preflight.1.1"
