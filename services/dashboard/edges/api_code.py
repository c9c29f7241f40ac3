"""Stored code of runs for the page: single objects, and a whole tree as an archive, each byte verified."""

from __future__ import annotations

import hashlib
import tarfile
from collections.abc import AsyncIterator
from urllib.parse import quote

from fastapi import FastAPI, Request
from fastapi.responses import Response, StreamingResponse

from runspine.code.tree import LINK, PROGRAM, CodeTree, CodeTreeError, TreeEntry, parse_tree
from runspine.errors import RefusedError, RunNotFoundError
from runspine.services.dashboard.edges.backend import Access, Backend
from runspine.wire.v1.artifacts_pb2 import ReadCodeRequest
from runspine.wire.v1.spec_pb2 import Code
from runspine.wire.v1.trainer_pb2 import GetRequest

BLOCK = tarfile.BLOCKSIZE


async def read_object(access: Access, digest: str, *, tree: bool = False, packages: bool = False) -> bytes:
    """The bytes of a file, a difference, a manifest or a list of packages. Raises RunspineError."""
    request = ReadCodeRequest(digest=digest, tree=tree, packages=packages)
    pieces = [piece.data async for piece in access.stream("artifacts", "ReadCode", request)]
    data = b"".join(pieces)
    if hashlib.sha256(data).hexdigest() != digest:
        raise RefusedError(f"the bytes of {digest[:12]} that arrived have another SHA-256: try again")
    return data


async def read_tree(access: Access, digest: str) -> CodeTree:
    """Raises RunspineError."""
    try:
        return parse_tree(await read_object(access, digest, tree=True))
    except CodeTreeError as error:
        raise RefusedError(f"tree {digest[:12]}: {error}") from error


def add_code_api(app: FastAPI, backend: Backend) -> None:
    @app.get("/api/code/{run_id}/archive")
    async def archive(request: Request, run_id: str) -> Response:
        access = backend.access_of(request.scope)
        name, code = await _code_of(access, run_id)
        tree = await read_tree(access, code.tree)
        return _attachment(StreamingResponse(_archive(access, tree, name)), f"{name}.tar")

    @app.get("/api/code/{run_id}/file/{path:path}")
    async def file(request: Request, run_id: str, path: str) -> Response:
        access = backend.access_of(request.scope)
        _, code = await _code_of(access, run_id)
        tree = await read_tree(access, code.tree)
        found = next((entry for entry in tree.files if entry.path == path), None)
        if found is None:
            raise RunNotFoundError(f"{path[:200]} is not among the files of this run's code")
        return _attachment(Response(await read_object(access, found.digest)), path.rpartition("/")[2])


async def _code_of(access: Access, run_id: str) -> tuple[str, Code]:
    run = (await access.call("trainer", "Get", GetRequest(run_id=run_id))).run
    if not run.spec.code.tree:
        raise RunNotFoundError(f"run {run.id} has no stored code")
    return run.name, run.spec.code


def _attachment(response: Response, name: str) -> Response:
    """Never shown by the browser: it is a stranger's file."""
    response.headers["Content-Type"] = "application/octet-stream"
    response.headers["Content-Disposition"] = f"attachment; filename*=UTF-8''{quote(name, safe='')}"
    return response


async def _archive(access: Access, tree: CodeTree, name: str) -> AsyncIterator[bytes]:
    """A tar archive, file by file; one that ends early has no end mark."""
    folder = name.replace("/", "_")
    for entry in tree.entries:
        data = b"" if entry.kind == LINK else await read_object(access, entry.digest)
        yield _member(entry, f"{folder}/{entry.path}", len(data))
        yield data + bytes(-len(data) % BLOCK)
    yield bytes(2 * BLOCK)


def _member(entry: TreeEntry, path: str, size: int) -> bytes:
    info = tarfile.TarInfo(path)
    info.size, info.mode = size, 0o755 if entry.kind == PROGRAM else 0o644
    if entry.kind == LINK:
        info.type, info.linkname = tarfile.SYMTYPE, entry.target
    return info.tobuf(tarfile.PAX_FORMAT)
