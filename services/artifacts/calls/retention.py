"""Calls for retention rules, prune and undo, verification, usage and orphans."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from runspine.domain.artifact import RunRefusedError
from runspine.domain.retention import violations
from runspine.errors import Violation
from runspine.rpc.auth import caller
from runspine.rpc.errors import NotFoundError, translate_errors
from runspine.services.artifacts.calls.context import CallContext, invalid
from runspine.services.artifacts.core.ranking import card_source
from runspine.services.artifacts.core.retention import PlannedPrune, PrunePlan
from runspine.services.artifacts.core.retention_status import runs_with, status
from runspine.services.artifacts.edges.checker import UNKNOWN
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceServicer

MAX_STATUSES = 1_000


@translate_errors
class RetentionCalls(ArtifactServiceServicer):
    """Calls of retention, verification and usage."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    async def GetRetention(self, request: wire.GetRetentionRequest, _: Any) -> wire.GetRetentionResponse:
        catalog = self._context.catalog
        profiles = [
            profile for scope, profile in sorted(catalog.profiles.items()) if request.scope in ("", scope)
        ]
        runs = (
            [self._context.run(request.run)] if request.run else sorted(catalog.run_artifacts, reverse=True)
        )
        return wire.GetRetentionResponse(
            profiles=profiles,
            statuses=[status(catalog, run_id) for run_id in runs[:MAX_STATUSES]],
            undoable=self._undoable(),
            janitor=catalog.janitor,
            runs_with=runs_with(catalog, request.scope),
        )

    async def SetRetention(self, request: wire.SetRetentionRequest, _: Any) -> wire.SetRetentionResponse:
        scope = request.scope
        if scope.startswith("run:"):
            scope = "run:" + self._context.run(scope.partition(":")[2])
        found = violations(scope, request.profile)
        if found:
            raise invalid(*found)
        await self._context.handler.set_rules(scope, request.profile, caller.get())
        stored = self._context.catalog.profiles.get(scope)
        return wire.SetRetentionResponse(profile=stored or wire.ScopedProfile(scope=scope))

    async def GetPrunePlan(self, request: wire.GetPrunePlanRequest, _: Any) -> wire.PrunePlan:
        plan = await self._plan(request.run, request.project)
        return wire.PrunePlan(
            items=[self._item(item) for item in plan.items],
            freed_bytes=plan.freed,
            notices=plan.notices,
            token=plan.token,
        )

    async def Prune(self, request: wire.PruneRequest, _: Any) -> wire.PruneResponse:
        by = caller.get()
        if request.reference:
            pruned = await self._context.pruner.prune_by_hand(
                self._context.find(request.reference), by, with_aliases=request.with_aliases
            )
        else:
            plan = await self._plan(request.run, request.project)
            if request.token and request.token != plan.token:
                raise RunRefusedError("the plan has changed since it was read: read it again")
            if not plan.items:
                return wire.PruneResponse()
            pruned = await self._context.pruner.carry_out(plan, by)
        return wire.PruneResponse(
            batch=pruned.batch,
            pruned=[self._item(item) for item in pruned.items],
            freed_bytes=pruned.freed,
            undo_until=pruned.undo_until,
            left=pruned.left,
        )

    async def UndoPrune(self, request: wire.UndoPruneRequest, _: Any) -> wire.UndoPruneResponse:
        if bool(request.batch) == bool(request.reference):
            raise invalid(Violation("batch", "give either a batch or one artifact"))
        if request.batch:
            artifacts = self._context.undo.pruned_in(request.batch)
            if not artifacts:
                raise NotFoundError(f"nothing of batch {request.batch} can be restored")
        else:
            artifacts = [self._context.find(request.reference)]
        restored, lost = await self._context.undo.undo(artifacts, caller.get())
        if not restored and request.reference:
            raise RunRefusedError(lost[0])
        return wire.UndoPruneResponse(restored=restored, lost=lost)

    async def Verify(self, request: wire.VerifyRequest, _: Any) -> AsyncIterator[wire.VerifyResponse]:
        targets = self._targets(request.reference)
        for done, (digest, artifacts) in enumerate(targets.items(), 1):
            verdict = await self._context.verification.verify(digest, "verify", settle=True)
            for artifact in artifacts:
                yield wire.VerifyResponse(
                    artifact=self._context.catalog.get(artifact.run_id, digest) or artifact,
                    flaw=verdict.problem,
                    unknown=verdict.outcome == UNKNOWN,
                    done=done,
                    total=len(targets),
                )

    async def GetUsage(self, _request: wire.GetUsageRequest, _: Any) -> wire.GetUsageResponse:
        answer = await self._context.inventory.usage()
        answer.scrub.CopyFrom(self._context.scrubber.status)
        return answer

    async def ListOrphans(self, _request: wire.ListOrphansRequest, _: Any) -> wire.ListOrphansResponse:
        return await self._context.inventory.orphans()

    async def RemoveOrphans(self, request: wire.RemoveOrphansRequest, _: Any) -> wire.RemoveOrphansResponse:
        removed, left = await self._context.inventory.remove(list(request.keys))
        return wire.RemoveOrphansResponse(removed=removed, left=left)

    async def _plan(self, run: str, project: str) -> PrunePlan:
        return await self._context.pruner.plan(self._context.run(run) if run else "", project)

    def _item(self, item: PlannedPrune) -> wire.PruneItem:
        name = card_source(self._context.catalog, item.artifact.run_id).name
        return wire.PruneItem(artifact=item.artifact, run_name=name, rule=item.rule, scope=item.scope)

    def _targets(self, reference: str) -> dict[str, list[wire.Artifact]]:
        """The kept artifacts that a reference names, by digest, so that shared bytes are read once."""
        if not reference:
            chosen = list(self._context.catalog.artifacts())
        elif self._context.is_run(reference):
            entry = self._context.catalog.run_artifacts.get(self._context.run(reference))
            chosen = list(entry.artifacts.values()) if entry is not None else []
        else:
            chosen = [self._context.find(reference)]
        found: dict[str, list[wire.Artifact]] = {}
        for artifact in chosen:
            if artifact.keeping == wire.KEPT:
                found.setdefault(artifact.digest, []).append(artifact)
        return found

    def _undoable(self) -> list[wire.PruneBatch]:
        found: dict[str, wire.PruneBatch] = {}
        for artifact in self._context.catalog.artifacts():
            if artifact.keeping == wire.PRUNED:
                batch = found.setdefault(artifact.batch, wire.PruneBatch(batch=artifact.batch))
                batch.at = max(batch.at, artifact.pruned_at)
                batch.undo_until = max(batch.undo_until, artifact.undo_until)
                batch.artifacts += 1
                batch.bytes += artifact.size
        return sorted(found.values(), key=lambda batch: batch.at, reverse=True)
