"""Anchors the streams of facts: extends their trees and writes signed heads where the log's owner is not.

Design: docs/adr/0053-signed-tree-heads-are-kept-outside-the-log.md
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterable
from contextlib import aclosing
from dataclasses import dataclass, field

import structlog
import urllib3
from prometheus_client import Counter, Gauge

from runspine.anchors.heads import head_problem, introduce_signer, signed_head
from runspine.anchors.tree import MerkleTree, message_leaf, missing_leaf
from runspine.anchors.witnesses import StoredWitnesses, WitnessFile, leaves_in, plain_head, witness_key
from runspine.clock import now_micros
from runspine.eventlog import EventLog
from runspine.eventlog.connection import NatsUnreachableError
from runspine.eventlog.server_errors import ServerRefusedError
from runspine.eventlog.signing import Keyring, SigningKey
from runspine.eventlog.subjects import FACT_STREAMS
from runspine.storage.anchor_blobs import AnchorBlobs
from runspine.storage.blobs import BlobsUnavailableError
from runspine.wire.v1.anchors_pb2 import TreeHead, Witness

log = structlog.get_logger()

# Leaves of a witness at most: the first one of a long log is written in parts.
MAX_LEAVES = 50_000
# Leaves after which other work of the process has its turn.
TURN = 256
POST_SECONDS = 10.0
WITNESSED = Gauge("runspine_anchored_position", "Position up to which a stream is witnessed", ["stream"])
CONTRADICTED = Gauge("runspine_anchor_contradicted", "1 when a stream is not what was witnessed", ["stream"])
FAILED = Counter("runspine_anchor_failures_total", "Witnesses that could not be written", ["target"])
LOCKED = Gauge("runspine_anchor_locked", "1 when S3 has locked the last witness against removal")


class ContradictedError(Exception):
    """A stream is not what was witnessed: no further head is signed for it."""


@dataclass(slots=True)
class _Stream:
    tree: MerkleTree
    # Leaves that no witness has yet.
    leaves: list[bytes] = field(default_factory=list)


class AnchorWriter:
    """Witnesses every stream of facts once in `seconds`, while this process holds the janitor's term."""

    def __init__(
        self,
        event_log: EventLog,
        blobs: AnchorBlobs,
        key: SigningKey | None,
        *,
        leads: Callable[[], bool],
        seconds: float,
        series: str,
        file: WitnessFile | None = None,
        url: str = "",
    ) -> None:
        self._log = event_log
        self._blobs = blobs
        self._stored = StoredWitnesses(blobs, series)
        self._key = key
        self._leads = leads
        self._seconds = seconds
        self._series = series
        self._file = file
        self._url = url
        self._http = urllib3.PoolManager(timeout=POST_SECONDS, retries=False)
        self._streams: dict[str, _Stream] = {}
        # By stream: the newest head that the URL has not taken yet.
        self._unposted: dict[str, TreeHead] = {}

    async def run(self) -> None:
        """Runs until cancelled; what fails is repeated in the next round."""
        while True:
            if self._leads():
                await self.round()
            else:
                # Another process may write the next witnesses.
                self._streams.clear()
            await asyncio.sleep(self._seconds)

    async def round(self, streams: Iterable[str] = FACT_STREAMS) -> None:
        """Witness what the streams hold now."""
        for stream in streams:
            try:
                await self._anchor(stream)
            except ContradictedError as error:
                CONTRADICTED.labels(stream).set(1)
                log.error("anchor.contradicted", stream=stream, reason=str(error))
            except (BlobsUnavailableError, OSError, NatsUnreachableError, ServerRefusedError) as error:
                self._streams.pop(stream, None)
                FAILED.labels("file" if isinstance(error, OSError) else "s3").inc()
                log.warning("anchor.later", stream=stream, error=str(error))
        await self._post()

    async def _anchor(self, stream: str) -> None:
        state = self._streams.get(stream)
        if state is None:
            state = self._streams[stream] = await self._continued(stream)
        end = (await self._log.extent(stream)).last
        if end < state.tree.size:
            raise ContradictedError(f"{stream} ends at {end}, but {state.tree.size} is witnessed: {_REMEDY}")
        CONTRADICTED.labels(stream).set(0)
        if end == state.tree.size:
            return
        try:
            await self._extend(stream, state)
        except BaseException:
            self._streams.pop(stream, None)
            raise

    async def _extend(self, stream: str, state: _Stream) -> None:
        async with aclosing(self._log.follow(stream, after=state.tree.size, live=False)) as messages:
            async for recorded in messages:
                while state.tree.size + 1 < recorded.sequence:
                    await self._add(stream, state, missing_leaf(state.tree.size + 1))
                leaf = message_leaf(recorded.sequence, recorded.subject, recorded.data)
                await self._add(stream, state, leaf)
        if state.leaves:
            await self._write(stream, state)

    async def _add(self, stream: str, state: _Stream, leaf: bytes) -> None:
        state.tree.add(leaf)
        state.leaves.append(leaf)
        if len(state.leaves) >= MAX_LEAVES:
            await self._write(stream, state)
        elif state.tree.size % TURN == 0:
            await asyncio.sleep(0)

    async def _write(self, stream: str, state: _Stream) -> None:
        head = signed_head(self._series, stream, state.tree, now_micros(), self._key)
        first = state.tree.size - len(state.leaves) + 1
        witness = Witness(
            head=head,
            peaks=state.tree.peaks,
            first=first,
            leaves=b"".join(state.leaves),
            introduction=self._key.introduction if self._key is not None else b"",
        )
        if self._file is not None:
            await asyncio.to_thread(self._file.append, witness)
        key = witness_key(self._series, stream, head.size)
        locked = await self._blobs.put_locked(key, witness.SerializeToString())
        LOCKED.set(locked)
        state.leaves.clear()
        WITNESSED.labels(stream).set(head.size)
        if self._url:
            self._unposted[stream] = head
        log.debug("anchor.witnessed", stream=stream, position=head.size)

    async def _continued(self, stream: str) -> _Stream:
        """The tree as the newest witness has it. Raises ContradictedError when the log differs."""
        sizes = await self._stored.read_sizes(stream)
        if not sizes:
            return _Stream(MerkleTree())
        witness = await self._stored.read(stream, sizes[-1])
        problem = _unusable(witness, self._keyring())
        if witness is None or problem:
            raise ContradictedError(f"the witness of {stream} {sizes[-1]} {problem}: {_REMEDY}")
        tree = MerkleTree(witness.head.size, witness.peaks)
        if await self._leaf_at(stream, tree.size) != leaves_in(witness)[-1]:
            raise ContradictedError(f"{stream} {tree.size} is not what was witnessed: {_REMEDY}")
        WITNESSED.labels(stream).set(tree.size)
        return _Stream(tree)

    def _keyring(self) -> Keyring | None:
        return self._log.authors if isinstance(self._log.authors, Keyring) else None

    async def _leaf_at(self, stream: str, position: int) -> bytes:
        if (await self._log.extent(stream)).last < position:
            return b""
        async with aclosing(self._log.follow(stream, after=position - 1)) as messages:
            recorded = await anext(messages)
        if recorded.sequence != position:
            return missing_leaf(position)
        return message_leaf(recorded.sequence, recorded.subject, recorded.data)

    async def _post(self) -> None:
        for stream, head in list(self._unposted.items()):
            try:
                await asyncio.to_thread(self._post_head, head)
            except (urllib3.exceptions.HTTPError, OSError) as error:
                FAILED.labels("url").inc()
                log.warning("anchor.not_posted", stream=stream, error=str(error))
            else:
                del self._unposted[stream]

    def _post_head(self, head: TreeHead) -> None:
        body = json.dumps(plain_head(head)).encode()
        headers = {"Content-Type": "application/json"}
        answer = self._http.request("POST", self._url, body=body, headers=headers)
        if answer.status >= 300:
            raise urllib3.exceptions.HTTPError(f"status {answer.status}")


_REMEDY = "see `runspine events verify`; after a restore that lost facts, set another RUNSPINE_ANCHOR_SERIES"


def _unusable(witness: Witness | None, keyring: Keyring | None) -> str:
    if witness is None:
        return "cannot be read"
    if keyring is not None:
        introduce_signer(keyring, witness.head.signer, witness.introduction)
    if problem := head_problem(witness.head, keyring):
        return f"does not count: {problem}"
    try:
        same = MerkleTree(witness.head.size, witness.peaks).root() == witness.head.root
    except ValueError:
        same = False
    return "" if same and witness.leaves else "does not fit its tree head"
