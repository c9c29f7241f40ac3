"""Reads stored code through the artifacts service, each object verified by its digest."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path

from runspine.code.tree import LINK, PROGRAM, CodeTree, CodeTreeError, TreeEntry, parse_tree
from runspine.errors import RefusedError, RunspineError
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.artifacts_pb2 import ReadCodeRequest


def read_object(client: Client, digest: str, *, tree: bool = False, packages: bool = False) -> bytes:
    """The bytes of a file, of a difference, of a manifest or of a list of packages. Raises RunspineError."""
    request = ReadCodeRequest(digest=digest, tree=tree, packages=packages)
    pieces = client.stream_artifacts("ReadCode", request)
    data = b"".join(piece.data for piece in pieces)
    if hashlib.sha256(data).hexdigest() != digest:
        raise RefusedError(f"the bytes of {digest[:12]} that arrived have another SHA-256: try again")
    return data


def read_tree(client: Client, digest: str) -> CodeTree:
    """A tree. Raises RunspineError."""
    try:
        return parse_tree(read_object(client, digest, tree=True))
    except CodeTreeError as error:
        raise RefusedError(f"tree {digest[:12]}: {error}") from error


def write_tree(client: Client, tree: CodeTree, folder: Path) -> None:
    """Write all files of a tree into a new folder. Raises RunspineError."""
    try:
        folder.mkdir(parents=True)
        for entry in sorted(tree.entries, key=lambda each: each.kind == LINK):
            _write(client, entry, folder / entry.path)
    except FileExistsError as error:
        raise RefusedError(f"{error.filename or folder} exists already: name a new folder") from error
    except OSError as error:
        raise RunspineError(f"{error.filename}: {error.strerror}") from error


def _write(client: Client, entry: TreeEntry, path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    if entry.kind == LINK:
        path.symlink_to(entry.target)
        return
    mode = 0o755 if entry.kind == PROGRAM else 0o644
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
        file.write(read_object(client, entry.digest))
