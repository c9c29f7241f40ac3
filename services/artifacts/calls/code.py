"""Calls that store and read the code of runs."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from runspine.code.tree import DIGEST
from runspine.errors import Violation
from runspine.rpc.errors import NotFoundError, translate_errors
from runspine.services.artifacts.calls.context import CallContext, invalid
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceServicer

MAX_DIGESTS = 25_000
CHUNK = 1 << 20


@translate_errors
class CodeCalls(ArtifactServiceServicer):
    """Calls about code trees."""

    _context: CallContext

    async def FindMissingCode(
        self, request: wire.FindMissingCodeRequest, _: Any
    ) -> wire.FindMissingCodeResponse:
        if len(request.digests) > MAX_DIGESTS:
            raise invalid(Violation("digests", f"more than {MAX_DIGESTS:,}"))
        for field, digest in (("tree", request.tree), *(("digests", each) for each in request.digests)):
            if not DIGEST.match(digest):
                raise invalid(Violation(field, f"{digest[:80]!r} is not a SHA-256"))
        code = self._context.code
        return wire.FindMissingCodeResponse(
            tree_missing=await code.missing_tree(request.tree),
            digests=await code.missing(request.digests),
        )

    async def StoreCode(self, requests: Any, _: Any) -> wire.StoreCodeResponse:
        objects, size = await self._context.code.receive(requests)
        return wire.StoreCodeResponse(objects=objects, bytes=size)

    async def ReadCode(self, request: wire.ReadCodeRequest, _: Any) -> AsyncIterator[wire.ReadCodeResponse]:
        data = await self._context.code.read(request.digest, tree=request.tree, packages=request.packages)
        if data is None:
            raise NotFoundError(f"no code object has the SHA-256 {request.digest[:80]!r}")
        for start in range(0, max(1, len(data)), CHUNK):
            yield wire.ReadCodeResponse(data=data[start : start + CHUNK])
