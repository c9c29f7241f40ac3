"""Keys of the log on JetStream: those that signers.* introduces, and the one of this writer."""

from __future__ import annotations

import asyncio
import time

from runspine.clock import now_micros
from runspine.eventlog.api import ask
from runspine.eventlog.chain import digest_of
from runspine.eventlog.connection import NatsConnection, NatsUnreachableError
from runspine.eventlog.port import AuthorCheck, CorruptError, Recorded
from runspine.eventlog.publisher import MESSAGE_ID, Publisher
from runspine.eventlog.reads import DIGEST, SubjectReader
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.eventlog.subjects import FACT_STREAMS, RUNS, SIGNERS, signer_subject
from runspine.wire.v1.facts_pb2 import Commit, Fact, SigningBegan

REFRESH_SECONDS = 5.0
RETRY_SECONDS = 0.2
BEGIN = signer_subject("begin")


class Authors:
    """Keeps a keyring up to date, and introduces this writer's key before its first commit."""

    def __init__(
        self, link: NatsConnection, publisher: Publisher, keyring: Keyring, key: SigningKey | None
    ) -> None:
        self._link = link
        self._publisher = publisher
        self._reader = SubjectReader(link)
        self.keyring = keyring
        self.key = key
        self._position = 0
        self._due = 0.0
        self._introduced = False

    @property
    def check(self) -> AuthorCheck:
        return self.keyring

    async def ensure(self, *messages: Recorded) -> None:
        """Know the keys of messages, if the log does; new keys and revocations are read every few seconds."""
        if not self.keyring.roots:
            return
        unknown = any(self._is_of_unknown_key(each) for each in messages)
        while unknown or time.monotonic() >= self._due:
            try:
                await self.refresh()
                return
            except NatsUnreachableError:
                if not unknown:
                    return
                await asyncio.sleep(RETRY_SECONDS)

    def _is_of_unknown_key(self, recorded: Recorded) -> bool:
        try:
            signer = recorded.commit.signer
        except CorruptError:
            return False
        return bool(signer) and not self.keyring.knows(signer)

    async def refresh(self) -> None:
        """Read what is new on signers.*, by the leader's word. Raises NatsUnreachableError."""
        while (found := await self._reader.next(RUNS, f"{SIGNERS}*", self._position)) is not None:
            self._position = found.sequence
            self.keyring.feed(found)
        self._due = time.monotonic() + REFRESH_SECONDS

    async def introduce(self) -> None:
        """Publish the introduction of this writer's key, unless the log has it."""
        if self.key is None or self._introduced:
            return
        if self.keyring.roots:
            await self.refresh()
        if self.key.introduction and not self.keyring.knows(self.key.id):
            subject = signer_subject(self.key.id)
            await self._publish(subject, self.key.introduction, f"introduced-{self.key.id}")
        self._introduced = True

    async def begin(self) -> bool:
        """Record that signing begins at the present ends of the streams, unless it has; whether it did now.

        Only the orchestrator's key counts for it.
        """
        if self.key is None or not self.keyring.roots:
            return False
        await self.introduce()
        await self.refresh()
        if self.keyring.begun is not None:
            return False
        last = {}
        for stream in FACT_STREAMS:
            last[stream] = int((await ask(self._link, f"STREAM.INFO.{stream}"))["state"]["last_seq"])
        fact = Fact(at=now_micros(), signing_began=SigningBegan(last=last))
        body = Commit(id="began", number=1, writer=self._link.name, signer=self.key.id, facts=[fact])
        data = self.key.sign(BEGIN, body.SerializeToString(deterministic=True))
        await self._publish(BEGIN, data, f"began-{self.key.id}")
        await self.refresh()
        return True

    async def _publish(self, subject: str, data: bytes, message_id: str) -> None:
        await self._publisher.publish(subject, data, {MESSAGE_ID: message_id, DIGEST: digest_of(data).hex()})
