"""What signatures cost: commits per second with them and without, in turns on one server."""

from __future__ import annotations

import asyncio
import statistics
import time
from typing import Any

import pytest

from runspine.eventlog import Version
from runspine.eventlog.admission import Admission
from runspine.eventlog.decider import handle
from runspine.eventlog.jetstream import JetStreamLog
from runspine.eventlog.signing import Keyring, SigningKey, new_signing_key
from runspine.ids import new_ulid
from runspine.wire.v1.facts_pb2 import Fact, RunQueued

ROUNDS, WRITERS, COMMITS = 40, 16, 12


async def _decide(log: JetStreamLog) -> None:
    """As the orchestrator does: read, fold, decide and append, for one run after the other."""
    subject = f"runs.{new_ulid()}"
    fact = Fact(at=1, run_queued=RunQueued(attempt=1))
    for _ in range(COMMITS):
        await handle(log, subject, lambda _: [fact], lambda facts, state: (state or 0) + len(list(facts)))


async def _rate(log: JetStreamLog) -> float:
    began = time.perf_counter()
    await asyncio.gather(*(_decide(log) for _ in range(WRITERS)))
    return WRITERS * COMMITS / (time.perf_counter() - began)


@pytest.mark.long
@pytest.mark.alone
async def test_decisions_with_signatures_are_made_at_nine_tenths_of_the_rate_or_more(connect: Any) -> None:
    root = SigningKey(bytes(range(32)))
    key = SigningKey.parse(new_signing_key(root, "orchestrator", 1))
    client = await connect("writer")
    plain = client.log
    signed = JetStreamLog(client.link, client.publisher, keyring=Keyring([root.public]), key=key)
    rates: dict[str, list[float]] = {"plain": [], "signed": []}
    for number in range(ROUNDS):
        turns = [("plain", plain), ("signed", signed)]
        for name, log in turns if number % 2 else reversed(turns):
            rates[name].append(await _rate(log))
    # Each round next to the one it is compared with: what else the machine does slows down both, or few.
    ratio = statistics.median(
        signed / plain for plain, signed in zip(rates["plain"], rates["signed"], strict=True)
    )
    middle = {name: statistics.median(found) for name, found in rates.items()}
    print(
        f"commits per second: {middle['plain']:.0f} without, {middle['signed']:.0f} with signatures, "
        f"ratio {ratio:.3f}"
    )
    assert ratio >= 0.9, rates


async def test_a_reader_verifies_each_commit_once(connect: Any) -> None:
    root = SigningKey(bytes(range(32)))
    key = SigningKey.parse(new_signing_key(root, "orchestrator", 1))
    client = await connect("writer")
    writer = JetStreamLog(client.link, client.publisher, keyring=Keyring([root.public]), key=key)
    version = Version()
    for _ in range(3):
        fact = Fact(at=1, run_queued=RunQueued(attempt=1))
        version = await writer.append("runs.r", [fact], expected=version)
    reader = JetStreamLog(client.link, client.publisher, keyring=Keyring([root.public]))
    history, found = await reader.read("runs.r")
    assert (len(history), found) == (3, version)
    assert len(reader.authors._verified) == 4, "three commits, and the introduction of their key"
    again, _ = await reader.read("runs.r")
    assert len(again) == 3
    assert len(reader.authors._verified) == 4
    admission = Admission(authors=reader.authors)
    assert [admission.admit(each).value for each in again] == ["accepted"] * 3
