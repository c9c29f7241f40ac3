"""Records what became of uploads, stored or given up: those that are ready together in one commit."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import NamedTuple

import structlog

from runspine.clock import now_micros
from runspine.eventlog import CorruptError
from runspine.eventlog.subjects import attempts_subject
from runspine.services.worker.artifacts.intents import Intent
from runspine.services.worker.facts.fact_writer import FactWriter
from runspine.wire.v1.facts_pb2 import ArtifactGivenUp, Fact

log = structlog.get_logger()

# Facts of one commit. With `meta` of the largest size they stay below what JetStream accepts as a message.
MAX_COMMIT_FACTS = 500
MAX_COMMIT_BYTES = 400 << 10


class Conclusion(NamedTuple):
    """What became of an upload: stored, or given up for a reason."""

    intent: Intent
    given_up: str = ""

    def fact(self) -> Fact:
        intent = self.intent
        if not self.given_up:
            return Fact(at=now_micros(), artifact_produced=intent.fact())
        why = ArtifactGivenUp(
            attempt=intent.attempt,
            kind=intent.kind,
            name=intent.name,
            reason=self.given_up,
            digest=intent.digest,
        )
        return Fact(at=now_micros(), artifact_given_up=why)


Done = Callable[[Sequence[Conclusion], bool], Awaitable[None]]


class RecordedArtifacts:
    """Which facts of artifacts a history has; it is read on from where the last call ended."""

    def __init__(self) -> None:
        self._history: list[Fact] | None = None
        self._read = 0
        self._known: set[bytes] = set()

    def of(self, history: list[Fact]) -> set[bytes]:
        if history is not self._history:
            self._history, self._read, self._known = history, 0, set()
        for fact in history[self._read :]:
            if key := artifact_bytes(fact):
                self._known.add(key)
        self._read = len(history)
        return self._known


class ArtifactRecorder:
    """Records conclusions, one commit at a time. `done` is called with what was recorded, and whether the
    intents can be forgotten: not when the run's log is damaged."""

    def __init__(self, fact_writer: FactWriter, done: Done) -> None:
        self._fact_writer = fact_writer
        self._done = done
        self._ready: dict[str, list[Conclusion]] = {}
        self._changed = asyncio.Event()
        self._recorded: dict[str, RecordedArtifacts] = {}

    def add(self, conclusion: Conclusion) -> None:
        """Queue a conclusion."""
        self._ready.setdefault(conclusion.intent.run_id, []).append(conclusion)
        self._changed.set()

    async def run(self) -> None:
        """Record until cancelled, the runs in turn."""
        while True:
            await self._changed.wait()
            while self._ready:
                run_id = next(iter(self._ready))
                await self._record_some(run_id, self._take(run_id))
                if run_id not in self._ready:
                    self._recorded.pop(run_id, None)
            self._changed.clear()

    def _take(self, run_id: str) -> dict[bytes, tuple[Fact, list[Conclusion]]]:
        """The first conclusions of a run by fact, as many as fit into one commit."""
        waiting = self._ready.pop(run_id)
        facts: dict[bytes, tuple[Fact, list[Conclusion]]] = {}
        size = taken = 0
        for conclusion in waiting:
            fact = conclusion.fact()
            size += fact.ByteSize()
            if facts and (len(facts) >= MAX_COMMIT_FACTS or size > MAX_COMMIT_BYTES):
                break
            facts.setdefault(artifact_bytes(fact), (fact, []))[1].append(conclusion)
            taken += 1
        if taken < len(waiting):
            # To the end of the runs: none waits for all files of another.
            self._ready[run_id] = waiting[taken:]
        return facts

    async def _record_some(self, run_id: str, facts: dict[bytes, tuple[Fact, list[Conclusion]]]) -> None:
        recorded = self._recorded.setdefault(run_id, RecordedArtifacts())

        def unless_recorded(history: list[Fact]) -> list[Fact]:
            known = recorded.of(history)
            return [
                fact
                for key, (fact, same) in facts.items()
                # One that was recorded before a restart may be gone by now: it is not given up.
                if key not in known and not (same[0].given_up and _produced(same[0].intent) in known)
            ]

        conclusions = [conclusion for _, same in facts.values() for conclusion in same]
        try:
            await self._fact_writer.commit(attempts_subject(run_id), unless_recorded)
        except CorruptError as error:
            # The run's log is damaged: the intents stay until it has been repaired.
            log.error("upload.corrupt_log", run_id=run_id, files=len(conclusions), error=str(error))
            await self._done(conclusions, False)
        else:
            await self._done(conclusions, True)


def _produced(intent: Intent) -> bytes:
    return artifact_bytes(Fact(artifact_produced=intent.fact()))


def artifact_bytes(fact: Fact) -> bytes:
    """The artifact of a fact for comparison: bytes, because NaN is not equal to itself. Empty for others."""
    if fact.HasField("artifact_produced"):
        return b"p" + fact.artifact_produced.SerializeToString(deterministic=True)
    if fact.HasField("artifact_given_up"):
        return b"g" + fact.artifact_given_up.SerializeToString(deterministic=True)
    return b""
