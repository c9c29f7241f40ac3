"""Stores a snapshot with the artifacts service: only objects that are missing, the manifest last."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from runspine.code.project_files import CodeRefusedError
from runspine.code.snapshot import CodeSnapshot
from runspine.errors import UnreachableError
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.spec_pb2 import Code, CodeOrigin

CHUNK = 1 << 20
RETRY_SECONDS = 0.5
# How long a service that has answered before may be away.
RESTART_SECONDS = 60.0
CALL_SECONDS = 120.0
Progress = Callable[[int], None]


@dataclass(frozen=True, slots=True)
class CodeUpload:
    """What was sent of a snapshot."""

    files: int
    bytes: int


def store_snapshot(
    client: Client, snapshot: CodeSnapshot, begin: Callable[[int], Progress] | None = None
) -> CodeUpload:
    """Store a snapshot; when this returns, all of it is stored. Raises RunspineError.

    `begin` is called with the bytes to send and returns a function that is called with each chunk's size.
    """
    tree, extra = snapshot.tree, _extra(snapshot)
    first = _missing(client, tree.digest, extra)
    if not first.tree_missing and not first.digests:
        return CodeUpload(0, 0)
    wanted = {*snapshot.sources, *extra} if first.tree_missing else set(first.digests)
    give_up = time.monotonic() + RESTART_SECONDS
    while True:
        try:
            return _store(client, snapshot, wanted, begin)
        except UnreachableError:
            # A service that was killed may have stored a part: the next round sends the rest.
            if time.monotonic() > give_up:
                raise
            time.sleep(RETRY_SECONDS)


def code_of(snapshot: CodeSnapshot, directory: str) -> Code:
    """The `code` of a spec that runs this snapshot from this folder of it."""
    git = snapshot.git
    origin = CodeOrigin(folder=snapshot.root.name)
    if git is not None:
        origin = CodeOrigin(
            folder=snapshot.root.name,
            commit=git.commit,
            branch=git.branch[:200],
            remote=git.remote[:500],
            dirty=git.dirty,
            diff=_sha256(git.diff) if git.diff else "",
            diff_cut=git.diff_cut,
        )
    return Code(
        tree=snapshot.tree.digest,
        directory=directory,
        files=len(snapshot.tree.files),
        bytes=snapshot.tree.bytes,
        origin=origin,
    )


def _store(
    client: Client, snapshot: CodeSnapshot, wanted: set[str], begin: Callable[[int], Progress] | None
) -> CodeUpload:
    tree, extra = snapshot.tree, _extra(snapshot)
    missing = _missing(client, tree.digest, wanted).digests
    sizes = {entry.digest: entry.size for entry in tree.files} | {each: len(extra[each]) for each in extra}
    total = sum(sizes[digest] for digest in missing)
    progress = begin(total) if begin is not None and total else _ignore
    client.send_code(_parts(snapshot, extra, missing, progress))
    return CodeUpload(len(set(missing) - extra.keys()), total)


def _missing(client: Client, tree: str, digests: Iterable[str]) -> wire.FindMissingCodeResponse:
    request = wire.FindMissingCodeRequest(tree=tree, digests=sorted(digests))
    return client.call_artifacts("FindMissingCode", request, wire.FindMissingCodeResponse, CALL_SECONDS)


def _extra(snapshot: CodeSnapshot) -> dict[str, bytes]:
    """Objects that are no files of the tree: the difference to the commit."""
    diff = snapshot.git.diff if snapshot.git is not None else b""
    return {_sha256(diff): diff} if diff else {}


def _parts(
    snapshot: CodeSnapshot, extra: dict[str, bytes], missing: Iterable[str], progress: Progress
) -> Iterator[wire.StoreCodeRequest]:
    for digest in missing:
        data = extra.get(digest)
        pieces = _chunks(data) if data is not None else _read(snapshot.sources[digest], digest)
        yield from _object(digest, pieces, progress)
    yield from _object(snapshot.tree.digest, _chunks(snapshot.tree.data), _ignore, tree=True)


def _object(
    digest: str, pieces: Iterable[bytes], progress: Progress, *, tree: bool = False
) -> Iterator[wire.StoreCodeRequest]:
    for piece in pieces:
        yield wire.StoreCodeRequest(digest=digest, data=piece, tree=tree)
        progress(len(piece))
    yield wire.StoreCodeRequest(digest=digest, end=True, tree=tree)


def _read(path: Path, digest: str) -> Iterator[bytes]:
    whole = hashlib.sha256()
    try:
        with path.open("rb") as file:
            while data := file.read(CHUNK):
                whole.update(data)
                yield data
    except OSError as error:
        raise CodeRefusedError(f"{path} cannot be read: {error.strerror}: submit again") from error
    if whole.hexdigest() != digest:
        raise CodeRefusedError(f"{path} was changed while it was stored: submit again")


def _chunks(data: bytes) -> Iterator[bytes]:
    for start in range(0, len(data), CHUNK):
        yield data[start : start + CHUNK]


def _sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _ignore(_: int) -> None:
    """Progress that nobody watches."""
