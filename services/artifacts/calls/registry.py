"""Calls that look at artifacts and checkpoints, take them in, and name them."""

from __future__ import annotations

from typing import Any

from runspine.artifact import LOADABLE, Refused
from runspine.artifact.commands import Activate, Pin, RemoveAlias, Retire, SetAlias, Unpin
from runspine.artifact.decide import obstacle
from runspine.errors import Violation
from runspine.grpc_auth import caller
from runspine.grpc_errors import NotFound, translate_errors
from runspine.log.subjects import is_token
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceServicer
from services.artifacts.calls.desk import Desk, invalid, page
from services.artifacts.core.cards import card, select
from services.artifacts.core.reference import RESERVED
from services.artifacts.edges.checker import WHOLE
from services.artifacts.edges.clerk import wall_clock
from services.artifacts.edges.imports import NotAccepted

URL_SECONDS, LONGEST_URL = 300, 3600
MAX_TEXT = 500


@translate_errors
class RegistryCalls(ArtifactServiceServicer):
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def List(self, request: wire.ListArtifactsRequest, _: Any) -> wire.ListArtifactsResponse:
        catalog = self._desk.catalog
        if request.run:
            run_id = self._desk.run(request.run)
            shelves = [catalog.shelves[run_id]] if run_id in catalog.shelves else []
        else:
            shelves = list(catalog.shelves.values())
        found = [
            artifact
            for shelf in shelves
            for artifact in shelf.artifacts.values()
            if (not request.kinds or artifact.kind in request.kinds)
            and (request.with_pruned or artifact.keeping == wire.KEPT)
            and (not request.only_corrupt or artifact.integrity == wire.CORRUPT)
        ]
        found.sort(key=lambda a: (a.run_id, a.kind, a.step, a.produced_at, a.name))
        start, end, following = page(request.page_token, request.page_size, len(found), 500)
        return wire.ListArtifactsResponse(
            artifacts=found[start:end], total=len(found), next_page_token=following
        )

    async def Get(self, request: wire.GetArtifactRequest, _: Any) -> wire.GetArtifactResponse:
        standings = self._desk.standings()
        artifact = self._desk.find(request.reference, standings)
        owners = self._desk.catalog.kept(artifact.digest)
        return wire.GetArtifactResponse(
            artifact=artifact,
            card=card(self._desk.catalog, standings, artifact) if artifact.kind in LOADABLE else None,
            obstacle=obstacle(artifact),
            also_in=sorted(other.run_id for other in owners if other.run_id != artifact.run_id),
        )

    async def GetUrl(self, request: wire.GetUrlRequest, _: Any) -> wire.GetUrlResponse:
        seconds = request.seconds or URL_SECONDS
        if seconds > LONGEST_URL:
            raise invalid(Violation("seconds", f"{seconds} is too long: a link lasts at most {LONGEST_URL}"))
        artifact = self._desk.find(request.reference)
        if why := obstacle(artifact):
            raise Refused(why)
        name = artifact.name.rpartition("/")[2] or artifact.digest
        return wire.GetUrlResponse(
            url=self._desk.blobs.url(artifact.key, seconds, name),
            expires_at=wall_clock() + seconds * 1_000_000,
            artifact=artifact,
        )

    async def ListCheckpoints(
        self, request: wire.ListCheckpointsRequest, _: Any
    ) -> wire.ListCheckpointsResponse:
        catalog, standings = self._desk.catalog, self._desk.standings()
        run_id = self._desk.run(request.run) if request.run else ""
        if run_id and run_id not in catalog.shelves:
            return wire.ListCheckpointsResponse()
        found = select(catalog, standings, request, run_id)
        start, end, following = page(request.page_token, request.page_size, len(found), 200)
        return wire.ListCheckpointsResponse(
            cards=[card(catalog, standings, artifact) for artifact in found[start:end]],
            total=len(found),
            next_page_token=following,
        )

    async def Import(self, requests: Any, _: Any) -> wire.ImportResponse:
        try:
            place, created = await self._desk.imports.take(requests, caller.get())
        except NotAccepted as error:
            raise invalid(*error.violations) from error
        artifact = next(iter(self._desk.catalog.shelves[place].artifacts.values()))
        return wire.ImportResponse(import_id=place, created=created, card=self._card(artifact))

    async def Pin(self, request: wire.PinRequest, _: Any) -> wire.PinResponse:
        _refuse_long("reason", request.reason)
        by, at = caller.get(), wall_clock()
        if self._desk.is_run(request.reference):
            run_id = self._desk.run(request.reference)
            await self._desk.clerk.command(run_id, Pin(at, "", by, request.reason))
            return self._whole_run(run_id)
        artifact = self._desk.find(request.reference)
        await self._desk.clerk.command(artifact.run_id, Pin(at, artifact.digest, by, request.reason))
        return wire.PinResponse(artifacts=[self._again(artifact)])

    async def Unpin(self, request: wire.UnpinRequest, _: Any) -> wire.PinResponse:
        by, at = caller.get(), wall_clock()
        if self._desk.is_run(request.reference):
            run_id = self._desk.run(request.reference)
            await self._desk.clerk.command(run_id, Unpin(at, "", by))
            return self._whole_run(run_id)
        artifact = self._desk.find(request.reference)
        await self._desk.clerk.command(artifact.run_id, Unpin(at, artifact.digest, by))
        return wire.PinResponse(artifacts=[self._again(artifact)])

    async def SetAlias(self, request: wire.SetAliasRequest, _: Any) -> wire.SetAliasResponse:
        alias, at, by = request.alias, wall_clock(), caller.get()
        _check_name("alias", alias)
        before = self._desk.catalog.aliases.get(alias)
        if not request.reference:
            if before is None:
                raise NotFound(f"no alias is called {alias!r}")
            await self._desk.clerk.command(before[0], RemoveAlias(at, alias, by))
            return wire.SetAliasResponse(artifact=self._desk.catalog.get(*before))
        artifact = self._desk.find(request.reference)
        await self._desk.clerk.command(artifact.run_id, SetAlias(at, alias, artifact.digest, by))
        # Of two words the newer counts; the older is taken back so that it holds nothing any more.
        if before is not None and before[0] != artifact.run_id:
            await self._desk.clerk.command(before[0], RemoveAlias(at, alias, by))
        return wire.SetAliasResponse(artifact=self._again(artifact))

    async def Activate(self, request: wire.ActivateRequest, _: Any) -> wire.ActivateResponse:
        actor = request.actor or "default"
        _check_name("actor", actor)
        standings = self._desk.standings()
        artifact = self._desk.find(request.reference, standings)
        made_for = standings.about[artifact.run_id].env
        if request.env and request.env != made_for:
            raise Refused(f"the checkpoint is for {made_for}, not for {request.env}: choose one of that env")
        if why := obstacle(artifact):
            raise Refused(why)
        verdict = await self._desk.verifying.verify(artifact.digest, "load", settle=True)
        if verdict.outcome != WHOLE:
            raise Refused(f"the checkpoint cannot be read: {verdict.flaw}; the actor keeps what it had")
        before = self._desk.catalog.actors.get(actor)
        previous = self._desk.catalog.get(*before) if before is not None else None
        at = wall_clock()
        await self._desk.clerk.command(artifact.run_id, Activate(at, actor, artifact.digest, caller.get()))
        if before is not None and before[0] != artifact.run_id:
            await self._desk.clerk.command(before[0], Retire(at, actor))
        return wire.ActivateResponse(card=self._card(artifact), previous=previous)

    async def ListActors(self, _request: wire.ListActorsRequest, _: Any) -> wire.ListActorsResponse:
        standings = self._desk.standings()
        answer = wire.ListActorsResponse()
        for name, place in sorted(self._desk.catalog.actors.items()):
            artifact = self._desk.catalog.get(*place)
            if artifact is not None:
                answer.actors.add(name=name, card=card(self._desk.catalog, standings, artifact))
        return answer

    def _card(self, artifact: wire.Artifact) -> wire.CheckpointCard:
        return card(self._desk.catalog, self._desk.standings(), self._again(artifact))

    def _again(self, artifact: wire.Artifact) -> wire.Artifact:
        """As it is after a command."""
        return self._desk.catalog.get(artifact.run_id, artifact.digest) or artifact

    def _whole_run(self, run_id: str) -> wire.PinResponse:
        shelf = self._desk.catalog.shelves.get(run_id)
        return wire.PinResponse(run_id=run_id, artifacts=shelf.artifacts.values() if shelf else [])


def _check_name(field: str, name: str) -> None:
    if name in RESERVED or not is_token(name):
        raise invalid(
            Violation(
                field,
                f"{name[:80]!r} cannot be a name: letters, digits, - and _, at most 64, and not "
                + " or ".join(RESERVED),
            )
        )


def _refuse_long(field: str, text: str) -> None:
    if len(text) > MAX_TEXT:
        raise invalid(Violation(field, f"longer than {MAX_TEXT} characters"))
