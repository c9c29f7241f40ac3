"""Calls that set rules, prune, take prunes back, verify and count."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from runspine.artifact import Refused
from runspine.errors import Violation
from runspine.grpc_auth import caller
from runspine.grpc_errors import NotFound, translate_errors
from runspine.retention import effective, violations
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceServicer
from services.artifacts.calls.desk import Desk, invalid
from services.artifacts.core.retention import Item, Plan
from services.artifacts.core.standing import about
from services.artifacts.edges.checker import UNKNOWN

MOST_STATUSES = 1_000


@translate_errors
class RetentionCalls(ArtifactServiceServicer):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def GetRetention(self, request: wire.GetRetentionRequest, _: Any) -> wire.GetRetentionResponse:
        catalog = self._desk.catalog
        profiles = [
            profile for scope, profile in sorted(catalog.profiles.items()) if request.scope in ("", scope)
        ]
        runs = [self._desk.run(request.run)] if request.run else sorted(catalog.shelves, reverse=True)
        return wire.GetRetentionResponse(
            profiles=profiles,
            statuses=[self._status(run_id) for run_id in runs[:MOST_STATUSES]],
            undoable=self._undoable(),
        )

    async def SetRetention(self, request: wire.SetRetentionRequest, _: Any) -> wire.SetRetentionResponse:
        scope = request.scope
        if scope.startswith("run:"):
            scope = "run:" + self._desk.run(scope.partition(":")[2])
        flaws = violations(scope, request.profile)
        if flaws:
            raise invalid(*flaws)
        await self._desk.clerk.set_rules(scope, request.profile, caller.get())
        stored = self._desk.catalog.profiles.get(scope)
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
            pruned = await self._desk.janitor.prune_by_hand(self._desk.find(request.reference), by)
        else:
            plan = await self._plan(request.run, request.project)
            if request.token and request.token != plan.token:
                raise Refused("what would be pruned has changed since it was looked at: look again")
            if not plan.items:
                return wire.PruneResponse()
            pruned = await self._desk.janitor.carry_out(plan, by)
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
            artifacts = self._desk.janitor.pruned_in(request.batch)
            if not artifacts:
                raise NotFound(f"nothing of batch {request.batch} can be had back")
        else:
            artifacts = [self._desk.find(request.reference)]
        restored, lost = await self._desk.janitor.undo(artifacts, caller.get())
        if not restored and request.reference:
            raise Refused(lost[0])
        return wire.UndoPruneResponse(restored=restored, lost=lost)

    async def Verify(self, request: wire.VerifyRequest, _: Any) -> AsyncIterator[wire.VerifyResponse]:
        targets = self._targets(request.reference)
        for done, (digest, artifacts) in enumerate(targets.items(), 1):
            verdict = await self._desk.verifying.verify(digest, "verify", settle=True)
            for artifact in artifacts:
                yield wire.VerifyResponse(
                    artifact=self._desk.catalog.get(artifact.run_id, digest) or artifact,
                    flaw=verdict.flaw,
                    unknown=verdict.outcome == UNKNOWN,
                    done=done,
                    total=len(targets),
                )

    async def GetUsage(self, _request: wire.GetUsageRequest, _: Any) -> wire.GetUsageResponse:
        answer = await self._desk.inventory.usage()
        answer.scrub.CopyFrom(self._desk.scrubber.status)
        return answer

    async def ListOrphans(self, _request: wire.ListOrphansRequest, _: Any) -> wire.ListOrphansResponse:
        return await self._desk.inventory.orphans()

    async def RemoveOrphans(self, request: wire.RemoveOrphansRequest, _: Any) -> wire.RemoveOrphansResponse:
        removed, left = await self._desk.inventory.remove(list(request.keys))
        return wire.RemoveOrphansResponse(removed=removed, left=left)

    async def _plan(self, run: str, project: str) -> Plan:
        return await self._desk.janitor.plan(self._desk.run(run) if run else "", project)

    def _item(self, item: Item) -> wire.PruneItem:
        name = about(self._desk.catalog, item.artifact.run_id).name
        return wire.PruneItem(artifact=item.artifact, run_name=name, rule=item.rule, scope=item.scope)

    def _targets(self, reference: str) -> dict[str, list[wire.Artifact]]:
        """What is kept of what is meant, by digest: shared bytes are read once."""
        if not reference:
            chosen = list(self._desk.catalog.artifacts())
        elif self._desk.is_run(reference):
            shelf = self._desk.catalog.shelves.get(self._desk.run(reference))
            chosen = list(shelf.artifacts.values()) if shelf is not None else []
        else:
            chosen = [self._desk.find(reference)]
        found: dict[str, list[wire.Artifact]] = {}
        for artifact in chosen:
            if artifact.keeping == wire.KEPT:
                found.setdefault(artifact.digest, []).append(artifact)
        return found

    def _status(self, run_id: str) -> wire.RetentionStatus:
        catalog = self._desk.catalog
        this = about(catalog, run_id)
        profile, _ = effective(catalog.profiles, run_id, this.project)
        kinds: dict[str, wire.KindStatus] = {}
        shelf = catalog.shelves.get(run_id)
        for artifact in shelf.artifacts.values() if shelf is not None else ():
            status = kinds.setdefault(artifact.kind, wire.KindStatus(kind=artifact.kind))
            status.total += 1
            if artifact.keeping == wire.KEPT:
                status.retained += 1
                status.bytes += artifact.size
        return wire.RetentionStatus(
            run_id=run_id,
            run_name=this.name,
            effective=profile,
            kinds=[kinds[kind] for kind in sorted(kinds)],
        )

    def _undoable(self) -> list[wire.PruneBatch]:
        found: dict[str, wire.PruneBatch] = {}
        for artifact in self._desk.catalog.artifacts():
            if artifact.keeping == wire.PRUNED:
                batch = found.setdefault(artifact.batch, wire.PruneBatch(batch=artifact.batch))
                batch.at = max(batch.at, artifact.pruned_at)
                batch.undo_until = max(batch.undo_until, artifact.undo_until)
                batch.artifacts += 1
                batch.bytes += artifact.size
        return sorted(found.values(), key=lambda batch: batch.at, reverse=True)
