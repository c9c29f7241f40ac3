"""Verification by several processes: the same verdict as by one, and no silence when one dies."""

from __future__ import annotations

import os
import signal
import time

import pytest

from runspine.eventlog import Recorded, Version
from runspine.eventlog.chain import ChainVerifier, digest_of, seal
from runspine.eventlog.chain_walk import MAX_PARCELS, PARCEL, ChainWalk, ChainWorkerError, KeyMessages
from runspine.eventlog.signing import SigningKey, new_signing_key
from runspine.wire.v1.facts_pb2 import Fact, RunQueued, SubjectReleased

ROOT = SigningKey(bytes(range(32)))
KEY = SigningKey.parse(new_signing_key(ROOT, "orchestrator", 1))
SUBJECTS = [f"runs.{number}" for number in range(40)]


class Stream:
    """A signed stream with some damage."""

    def __init__(self) -> None:
        self.messages: list[Recorded] = []
        self.heads: dict[str, Version] = {}

    def put(self, subject: str, data: bytes, stated: bytes = b"") -> None:
        self.messages.append(
            Recorded("RUNS", len(self.messages) + 1, subject, data, stated or digest_of(data), 0)
        )

    def commit(self, subject: str, key: SigningKey | None = KEY, *facts: Fact) -> None:
        head = self.heads.get(subject, Version())
        made = facts or (Fact(at=1, run_queued=RunQueued(attempt=1)),)
        data = seal(head, made, "id", "writer", subject=subject, key=key)
        self.put(subject, data)
        self.heads[subject] = Version(len(self.messages), head.number + 1, digest_of(data))


@pytest.fixture(scope="module")
def damaged() -> Stream:
    stream = Stream()
    stream.put(f"signers.{KEY.id}", KEY.introduction)
    for _ in range(4):
        for subject in SUBJECTS:
            stream.commit(subject)
    stream.put("runs.3", b"poison")
    stream.put("runs.4", b"poison")
    stream.commit("runs.5", SigningKey(b"s" * 32))
    release = Fact(subject_released=SubjectReleased(first=162, last=162))
    stream.commit("runs.3", ROOT, release)
    for subject in SUBJECTS:
        stream.commit(subject)
    del stream.messages[99]
    return stream


def _walked(stream: Stream, processes: int) -> ChainWalk:
    keys = KeyMessages([ROOT.public], [(1, f"signers.{KEY.id}", KEY.introduction)])
    walk = ChainWalk([ChainVerifier("RUNS")], keys, processes)
    try:
        for message in stream.messages:
            walk.feed(message)
        walk.finish()
    finally:
        walk.stop()
    return walk


def test_three_processes_find_what_one_finds(damaged: Stream) -> None:
    one, three = _walked(damaged, 1), _walked(damaged, 3)
    alone, together = one.verifiers["RUNS"], three.verifiers["RUNS"]
    assert sorted(map(str, together.problems)) == sorted(map(str, alone.problems))
    assert [str(each) for each in together.released] == [str(each) for each in alone.released]
    assert len(alone.released) == 1
    assert (together.signed, together.unsigned) == (alone.signed, alone.unsigned)
    assert three.subjects == one.subjects == {"RUNS": 40}
    named = [(each.sequence, each.subject) for each in together.problems]
    assert named[:2] == [(100, ""), (140, "runs.18")], "the missing position, and the chain that lacks it"
    assert {(163, "runs.4"), (164, "runs.5")} <= set(named)


def _feed_more_than_waits(walk: ChainWalk) -> None:
    for number in range(1, PARCEL * (MAX_PARCELS + 4) * 2):
        walk.feed(Recorded("RUNS", number, f"runs.{number % 50}", b"", b"", 0))
    walk.finish()


def test_a_process_that_dies_is_an_error_and_no_verdict() -> None:
    walk = ChainWalk([ChainVerifier("RUNS")], None, 2)
    try:
        process = walk._parts[0]._process
        assert process.pid is not None
        os.kill(process.pid, signal.SIGKILL)
        process.join(10)
        began = time.monotonic()
        with pytest.raises(ChainWorkerError, match="ended with -9"):
            _feed_more_than_waits(walk)
        assert time.monotonic() - began < 60
    finally:
        walk.stop()
