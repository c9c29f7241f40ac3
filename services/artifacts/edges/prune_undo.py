"""Undoes prunes: records it, restores the bytes from the trash, and verifies what came back.

The fact comes first: from then on no janitor moves or erases the bytes, and if this process dies the next
sweep of the trash restores them.
"""

from __future__ import annotations

from runspine.clock import now_micros
from runspine.domain.artifact.commands import Restore
from runspine.domain.artifact.decide import obstacle
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.edges.command_handler import CommandHandler
from runspine.services.artifacts.edges.object_store import ObjectStore
from runspine.services.artifacts.edges.pruner import MAX_FACTS
from runspine.services.artifacts.edges.verification import ObjectVerification
from runspine.wire.v1.artifacts_pb2 import KEPT, PRUNED, Artifact


class PruneUndo:
    """Restores pruned artifacts."""

    def __init__(
        self,
        catalog: ArtifactCatalog,
        handler: CommandHandler,
        store: ObjectStore,
        verification: ObjectVerification,
    ) -> None:
        self._catalog = catalog
        self._handler = handler
        self._store = store
        self._verification = verification

    def pruned_in(self, batch: str) -> list[Artifact]:
        return [a for a in self._catalog.artifacts() if a.batch == batch and a.keeping == PRUNED]

    async def undo(self, artifacts: list[Artifact], by: str) -> tuple[list[Artifact], list[str]]:
        """Restore pruned artifacts; those restored, and for each of the others the reason."""
        lost = [obstacle(a) or f"{_what(a)} is not pruned" for a in artifacts if a.keeping != PRUNED]
        pruned = [a for a in artifacts if a.keeping == PRUNED]
        keys = {a.digest: a.key for a in pruned}
        back = await self._store.present(keys)
        lost += [f"{_what(a)}: its bytes are no longer in S3" for a in pruned if a.digest not in back]
        runs: dict[str, set[str]] = {}
        for artifact in pruned:
            if artifact.digest in back:
                runs.setdefault(artifact.run_id, set()).add(artifact.digest)
        for run_id, digests in runs.items():
            chosen = sorted(digests)
            for start in range(0, len(chosen), MAX_FACTS):
                part = frozenset(chosen[start : start + MAX_FACTS])
                await self._handler.command(run_id, Restore(now_micros(), part, by, self._taken(pruned)))
        await self._store.restore_all({digest: keys[digest] for digest in back})
        problems = await self._verification.verify_all(back, "undo")
        restored = []
        for artifact in (a for a in pruned if a.digest in back):
            again = self._catalog.get(artifact.run_id, artifact.digest)
            if artifact.digest in problems:
                lost.append(f"{_what(artifact)}: {problems[artifact.digest]}")
            elif again is None or again.keeping != KEPT:
                lost.append(f"{_what(artifact)} was erased meanwhile")
            else:
                restored.append(again)
        return restored, lost

    def _taken(self, artifacts: list[Artifact]) -> frozenset[str]:
        """Aliases of pruned artifacts that name something else by now."""
        return frozenset(
            alias for each in artifacts for alias in each.pruned_aliases if alias in self._catalog.aliases
        )


def _what(artifact: Artifact) -> str:
    return f"{artifact.name} of run {artifact.run_id}"
