"""Code trees in S3 without a client: what a test stores, a worker finds."""

from __future__ import annotations

import hashlib

from runspine.code.tree import FILE, PROGRAM, CodeTree, TreeEntry, make_tree
from runspine.storage.blobs import S3Blobs
from runspine.storage.keys import code_key
from runspine.wire.v1.spec_pb2 import Code


def entry_of(path: str, data: bytes) -> TreeEntry:
    kind = PROGRAM if path.endswith(".sh") else FILE
    return TreeEntry(path, kind, len(data), hashlib.sha256(data).hexdigest())


async def store_tree(
    blobs: S3Blobs, files: dict[str, bytes], *links: TreeEntry, without: tuple[str, ...] = ()
) -> CodeTree:
    """Store a tree; files named in `without` are left out of S3."""
    tree = make_tree([*(entry_of(path, data) for path, data in files.items()), *links])
    await blobs.put_all(
        {
            code_key(hashlib.sha256(data).hexdigest()): data
            for path, data in files.items()
            if path not in without
        }
    )
    await blobs.put(code_key(tree.digest, tree=True), tree.data)
    return tree


def code_in(tree: CodeTree, directory: str = "") -> Code:
    return Code(tree=tree.digest, directory=directory)
