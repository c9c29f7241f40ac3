"""Calls that list, import, pin and name artifacts and checkpoints."""

from __future__ import annotations

from typing import Any

from runspine.clock import now_micros
from runspine.domain.artifact import RunRefusedError
from runspine.domain.artifact.commands import Activate, Pin, RemoveAlias, Retire, SetAlias, Unpin
from runspine.domain.artifact.decide import obstacle
from runspine.domain.artifact_kinds import LOADABLE
from runspine.domain.defaults import DEFAULT_ACTOR
from runspine.errors import Violation
from runspine.eventlog.subjects import is_token
from runspine.rpc.auth import caller
from runspine.rpc.errors import NotFoundError, translate_errors
from runspine.services.artifacts.calls.context import CallContext, invalid, page
from runspine.services.artifacts.core.activations import activation_of, activations
from runspine.services.artifacts.core.cards import card, select
from runspine.services.artifacts.core.reference import RESERVED
from runspine.services.artifacts.edges.checker import WHOLE
from runspine.services.artifacts.edges.imports import ImportRefusedError
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.artifacts_pb2_grpc import ArtifactServiceServicer

URL_SECONDS, MAX_URL_SECONDS = 300, 3600
MAX_TEXT = 500


@translate_errors
class RegistryCalls(ArtifactServiceServicer):
    """Calls of the registry."""

    def __init__(self, context: CallContext) -> None:
        self._context = context

    async def List(self, request: wire.ListArtifactsRequest, _: Any) -> wire.ListArtifactsResponse:
        catalog = self._context.catalog
        if request.run:
            run_id = self._context.run(request.run)
            run_artifacts = [catalog.run_artifacts[run_id]] if run_id in catalog.run_artifacts else []
        else:
            run_artifacts = list(catalog.run_artifacts.values())
        found = [
            artifact
            for entry in run_artifacts
            for artifact in entry.artifacts.values()
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
        ranking = self._context.ranking()
        artifact = self._context.find(request.reference, ranking)
        owners = self._context.catalog.kept(artifact.digest)
        return wire.GetArtifactResponse(
            artifact=artifact,
            card=card(self._context.catalog, ranking, artifact) if artifact.kind in LOADABLE else None,
            obstacle=obstacle(artifact),
            also_in=sorted(other.run_id for other in owners if other.run_id != artifact.run_id),
        )

    async def GetUrl(self, request: wire.GetUrlRequest, _: Any) -> wire.GetUrlResponse:
        seconds = request.seconds or URL_SECONDS
        if seconds > MAX_URL_SECONDS:
            raise invalid(
                Violation("seconds", f"{seconds} is too long: a link lasts at most {MAX_URL_SECONDS}")
            )
        artifact = self._context.find(request.reference)
        if why := obstacle(artifact):
            raise RunRefusedError(why)
        name = artifact.name.rpartition("/")[2] or artifact.digest
        return wire.GetUrlResponse(
            url=self._context.blobs.url(artifact.key, seconds, name),
            expires_at=now_micros() + seconds * 1_000_000,
            artifact=artifact,
        )

    async def ListCheckpoints(
        self, request: wire.ListCheckpointsRequest, _: Any
    ) -> wire.ListCheckpointsResponse:
        catalog, ranking = self._context.catalog, self._context.ranking()
        run_id = self._context.run(request.run) if request.run else ""
        if run_id and run_id not in catalog.run_artifacts:
            return wire.ListCheckpointsResponse()
        found = select(catalog, ranking, request, run_id)
        start, end, following = page(request.page_token, request.page_size, len(found), 200)
        return wire.ListCheckpointsResponse(
            cards=[card(catalog, ranking, artifact) for artifact in found[start:end]],
            total=len(found),
            next_page_token=following,
        )

    async def Import(self, requests: Any, _: Any) -> wire.ImportResponse:
        try:
            place, created = await self._context.imports.receive(requests, caller.get())
        except ImportRefusedError as error:
            raise invalid(*error.violations) from error
        artifact = next(iter(self._context.catalog.run_artifacts[place].artifacts.values()))
        return wire.ImportResponse(import_id=place, created=created, card=self._card(artifact))

    async def Pin(self, request: wire.PinRequest, _: Any) -> wire.PinResponse:
        _refuse_long("reason", request.reason)
        by, at = caller.get(), now_micros()
        if self._context.is_run(request.reference):
            run_id = self._context.run(request.reference)
            await self._context.handler.command(run_id, Pin(at, "", by, request.reason))
            return self._whole_run(run_id)
        artifact = self._context.find(request.reference)
        await self._context.handler.command(artifact.run_id, Pin(at, artifact.digest, by, request.reason))
        return wire.PinResponse(artifacts=[self._current(artifact)])

    async def Unpin(self, request: wire.UnpinRequest, _: Any) -> wire.PinResponse:
        by, at = caller.get(), now_micros()
        if self._context.is_run(request.reference):
            run_id = self._context.run(request.reference)
            await self._context.handler.command(run_id, Unpin(at, "", by))
            return self._whole_run(run_id)
        artifact = self._context.find(request.reference)
        await self._context.handler.command(artifact.run_id, Unpin(at, artifact.digest, by))
        return wire.PinResponse(artifacts=[self._current(artifact)])

    async def SetAlias(self, request: wire.SetAliasRequest, _: Any) -> wire.SetAliasResponse:
        alias, at, by = request.alias, now_micros(), caller.get()
        _check_name("alias", alias)
        before = self._context.catalog.aliases.get(alias)
        if not request.reference:
            if before is None:
                raise NotFoundError(f"no alias is called {alias!r}")
            await self._context.handler.command(before[0], RemoveAlias(at, alias, by))
            return wire.SetAliasResponse(artifact=self._context.catalog.get(*before))
        artifact = self._context.find(request.reference)
        await self._context.handler.command(artifact.run_id, SetAlias(at, alias, artifact.digest, by))
        # The newer alias counts; the older one is removed so that it no longer holds its artifact.
        if before is not None and before[0] != artifact.run_id:
            await self._context.handler.command(before[0], RemoveAlias(at, alias, by))
        return wire.SetAliasResponse(artifact=self._current(artifact))

    async def Activate(self, request: wire.ActivateRequest, _: Any) -> wire.ActivateResponse:
        actor = request.actor or DEFAULT_ACTOR
        _check_name("actor", actor)
        ranking = self._context.ranking()
        artifact = self._context.find(request.reference, ranking)
        made_for = ranking.sources[artifact.run_id].env
        if request.env and request.env != made_for:
            raise RunRefusedError(
                f"the checkpoint is for {made_for}, not for {request.env}: choose one of {request.env}, "
                f"or activate it for {made_for}"
            )
        if why := obstacle(artifact):
            raise RunRefusedError(why)
        verdict = await self._context.verification.verify(artifact.digest, "load", settle=True)
        if verdict.outcome != WHOLE:
            raise RunRefusedError(
                f"the checkpoint cannot be read: {verdict.problem}; the actor keeps what it had"
            )
        before = activation_of(self._context.catalog, ranking, actor, made_for)
        at = now_micros()
        await self._context.handler.command(
            artifact.run_id, Activate(at, actor, artifact.digest, caller.get(), made_for)
        )
        if before is not None and before.artifact.run_id != artifact.run_id:
            await self._context.handler.command(
                before.artifact.run_id, Retire(at, actor, before.recorded_env)
            )
        return wire.ActivateResponse(
            card=self._card(artifact), previous=before.artifact if before is not None else None
        )

    async def ListActors(self, request: wire.ListActorsRequest, _: Any) -> wire.ListActorsResponse:
        catalog, ranking = self._context.catalog, self._context.ranking()
        found = sorted(activations(catalog, ranking), key=lambda each: (each.actor, each.env))
        return wire.ListActorsResponse(
            actors=[
                wire.Actor(name=each.actor, env=each.env, card=card(catalog, ranking, each.artifact))
                for each in found
                if request.env in ("", each.env)
            ]
        )

    def _card(self, artifact: wire.Artifact) -> wire.CheckpointCard:
        return card(self._context.catalog, self._context.ranking(), self._current(artifact))

    def _current(self, artifact: wire.Artifact) -> wire.Artifact:
        """The artifact as it is after a command."""
        return self._context.catalog.get(artifact.run_id, artifact.digest) or artifact

    def _whole_run(self, run_id: str) -> wire.PinResponse:
        entry = self._context.catalog.run_artifacts.get(run_id)
        return wire.PinResponse(run_id=run_id, artifacts=entry.artifacts.values() if entry else [])


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
