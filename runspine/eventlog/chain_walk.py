"""Verification of whole streams on all cores.

The chain of a subject depends on its own commits alone. So this process reads the streams in order and checks
positions, and other processes check the chains and signatures, each those of its part of the subjects. Of the
messages, only a bounded number is in memory; of each subject, its last commit.
"""

from __future__ import annotations

import multiprocessing
import os
import queue
import zlib
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

from runspine.eventlog.chain import ChainProblem, ChainVerifier, SubjectChains
from runspine.eventlog.port import Recorded
from runspine.eventlog.signing import Keyring

# A log of fewer commits is verified sooner than processes start.
MIN_COMMITS = 20_000
# Messages in a parcel, and parcels that wait for each process.
PARCEL = 512
MAX_PARCELS = 16
END_SECONDS = 1.0

Message = tuple[int, str, bytes, bytes]
Parcel = tuple[str, list[Message]]


class KeyMessages(NamedTuple):
    """The keys that count: the roots, and the messages of signers.* that introduce the others."""

    roots: Sequence[bytes]
    messages: Sequence[tuple[int, str, bytes]]

    def keyring(self) -> Keyring:
        keyring = Keyring(self.roots)
        for sequence, subject, data in self.messages:
            keyring.feed(Recorded("RUNS", sequence, subject, data, b"", 0))
        return keyring


class ChainWorkerError(Exception):
    """A process that verifies has ended before its work was done."""


@dataclass(slots=True)
class _Findings:
    """What a process has found on its part of the subjects of one stream."""

    problems: list[ChainProblem] = field(default_factory=list)
    released: list[ChainProblem] = field(default_factory=list)
    signed: int = 0
    unsigned: int = 0
    subjects: int = 0


class ChainWalk:
    """Verifiers of streams, fed with their messages in order."""

    def __init__(self, verifiers: Sequence[ChainVerifier], keys: KeyMessages | None, processes: int) -> None:
        self.verifiers = {each.stream: each for each in verifiers}
        self.subjects = dict.fromkeys(self.verifiers, 0)
        keyring = keys.keyring() if keys is not None and processes < 2 else None
        for verifier in verifiers:
            verifier.authors = keyring
        self._parts = [_Part(keys) for _ in range(processes)] if processes > 1 else []

    def feed(self, recorded: Recorded) -> None:
        """Check the next message of its stream."""
        verifier = self.verifiers[recorded.stream]
        verifier.place(recorded)
        if self._parts:
            self._parts[zlib.crc32(recorded.subject.encode()) % len(self._parts)].add(recorded)
        else:
            verifier.follow(recorded)

    def finish(self) -> None:
        """Wait for all processes and gather what they have found. Raises ChainWorkerError."""
        for stream, verifier in self.verifiers.items():
            self.subjects[stream] = len(verifier.heads)
        for part in self._parts:
            part.close()
        for part in self._parts:
            for stream, found in part.findings().items():
                verifier = self.verifiers[stream]
                verifier.problems += found.problems
                verifier.released += found.released
                verifier.signed += found.signed
                verifier.unsigned += found.unsigned
                self.subjects[stream] += found.subjects
        for verifier in self.verifiers.values():
            verifier.problems.sort(key=lambda each: each.sequence)
            verifier.released.sort(key=lambda each: each.sequence)

    def stop(self) -> None:
        """End the processes, whatever they do."""
        for part in self._parts:
            part.stop()


def processes_for(commits: int) -> int:
    """How many processes verify so many commits: 1 is this one alone."""
    return len(os.sched_getaffinity(0)) if commits >= MIN_COMMITS else 1


class _Part:
    """A process that verifies a part of the subjects."""

    def __init__(self, keys: KeyMessages | None) -> None:
        # Not fork: a process with threads of gRPC cannot be copied.
        context = multiprocessing.get_context("spawn")
        self._parcels: Any = context.Queue(MAX_PARCELS)
        self._results: Any = context.Queue()
        self._process: BaseProcess = context.Process(
            target=_verify_part, args=(self._parcels, self._results, keys), daemon=True
        )
        self._process.start()
        self._open: dict[str, list[Message]] = {}

    def add(self, recorded: Recorded) -> None:
        waiting = self._open.setdefault(recorded.stream, [])
        waiting.append((recorded.sequence, recorded.subject, recorded.data, recorded.digest))
        if len(waiting) >= PARCEL:
            self._put((recorded.stream, waiting))
            del self._open[recorded.stream]

    def close(self) -> None:
        for parcel in self._open.items():
            self._put(parcel)
        self._open.clear()
        self._put(None)

    def _put(self, parcel: Parcel | None) -> None:
        while True:
            try:
                self._parcels.put(parcel, timeout=END_SECONDS)
                return
            except queue.Full:
                self._check()

    def findings(self) -> dict[str, _Findings]:
        while True:
            try:
                found: dict[str, _Findings] = self._results.get(timeout=END_SECONDS)
                return found
            except queue.Empty:
                self._check()

    def _check(self) -> None:
        if not self._process.is_alive():
            raise ChainWorkerError(f"a process that verifies has ended with {self._process.exitcode}")

    def stop(self) -> None:
        self._parcels.cancel_join_thread()
        self._process.terminate()
        self._process.join()


def _verify_part(parcels: Any, results: Any, keys: KeyMessages | None) -> None:
    """The work of one process: messages of its subjects, in the order of their streams."""
    keyring = keys.keyring() if keys is not None else None
    chains: dict[str, SubjectChains] = {}
    while (parcel := parcels.get()) is not None:
        stream, messages = parcel
        part = chains.setdefault(stream, SubjectChains(stream, authors=keyring))
        for sequence, subject, data, digest in messages:
            part.follow(Recorded(stream, sequence, subject, data, digest, 0))
    results.put(
        {
            stream: _Findings(part.problems, part.released, part.signed, part.unsigned, len(part.heads))
            for stream, part in chains.items()
        }
    )
