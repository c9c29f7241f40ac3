"""Client of the artifacts service, with verified downloads."""

from __future__ import annotations

import hashlib
import os
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from urllib.parse import urlsplit

from runspine.errors import RefusedError, RunspineError, UnreachableError
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import artifacts_pb2 as wire
from runspine.wire.v1.facts_pb2 import RetentionProfile

PAGE = 500
CHUNK = 1 << 20
DOWNLOAD_SECONDS = 30.0
# For calls that read the whole bucket or change many runs.
LONG_CALL_SECONDS = 600.0


class ArtifactClient:
    """Calls of the artifacts service. Raises RunspineError."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def list(self, request: wire.ListArtifactsRequest) -> list[wire.Artifact]:
        """All artifacts that match, over all pages."""
        page = wire.ListArtifactsRequest()
        page.CopyFrom(request)
        page.page_size = PAGE
        found: list[wire.Artifact] = []
        while True:
            answer = self._client.call_artifacts("List", page, wire.ListArtifactsResponse)
            found += answer.artifacts
            page.page_token = answer.next_page_token
            if not page.page_token:
                return found

    def get(self, reference: str) -> wire.GetArtifactResponse:
        request = wire.GetArtifactRequest(reference=reference)
        return self._client.call_artifacts("Get", request, wire.GetArtifactResponse)

    def url(self, reference: str, seconds: int = 0) -> wire.GetUrlResponse:
        request = wire.GetUrlRequest(reference=reference, seconds=seconds)
        return self._client.call_artifacts("GetUrl", request, wire.GetUrlResponse)

    def checkpoints(self, request: wire.ListCheckpointsRequest) -> wire.ListCheckpointsResponse:
        return self._client.call_artifacts("ListCheckpoints", request, wire.ListCheckpointsResponse)

    def pin(self, reference: str, reason: str = "") -> wire.PinResponse:
        request = wire.PinRequest(reference=reference, reason=reason)
        return self._client.call_artifacts("Pin", request, wire.PinResponse)

    def unpin(self, reference: str) -> wire.PinResponse:
        return self._client.call_artifacts("Unpin", wire.UnpinRequest(reference=reference), wire.PinResponse)

    def set_alias(self, alias: str, reference: str) -> wire.Artifact:
        request = wire.SetAliasRequest(alias=alias, reference=reference)
        return self._client.call_artifacts("SetAlias", request, wire.SetAliasResponse).artifact

    def activate(self, reference: str, actor: str = "", env: str = "") -> wire.ActivateResponse:
        request = wire.ActivateRequest(reference=reference, actor=actor, env=env)
        return self._client.call_artifacts("Activate", request, wire.ActivateResponse)

    def actors(self) -> Sequence[wire.Actor]:
        answer = self._client.call_artifacts("ListActors", wire.ListActorsRequest(), wire.ListActorsResponse)
        return answer.actors

    def retention(self, scope: str = "", run: str = "") -> wire.GetRetentionResponse:
        request = wire.GetRetentionRequest(scope=scope, run=run)
        return self._client.call_artifacts("GetRetention", request, wire.GetRetentionResponse)

    def set_retention(self, scope: str, profile: RetentionProfile) -> wire.ScopedProfile:
        request = wire.SetRetentionRequest(scope=scope, profile=profile)
        return self._client.call_artifacts("SetRetention", request, wire.SetRetentionResponse).profile

    def prune_plan(self, run: str = "", project: str = "") -> wire.PrunePlan:
        request = wire.GetPrunePlanRequest(run=run, project=project)
        return self._client.call_artifacts("GetPrunePlan", request, wire.PrunePlan, LONG_CALL_SECONDS)

    def prune(self, request: wire.PruneRequest) -> wire.PruneResponse:
        return self._client.call_artifacts("Prune", request, wire.PruneResponse, LONG_CALL_SECONDS)

    def undo(self, batch: str = "", reference: str = "") -> wire.UndoPruneResponse:
        request = wire.UndoPruneRequest(batch=batch, reference=reference)
        return self._client.call_artifacts("UndoPrune", request, wire.UndoPruneResponse, LONG_CALL_SECONDS)

    def verify(self, reference: str = "") -> Iterator[wire.VerifyResponse]:
        return self._client.stream_artifacts("Verify", wire.VerifyRequest(reference=reference))

    def usage(self) -> wire.GetUsageResponse:
        return self._client.call_artifacts(
            "GetUsage", wire.GetUsageRequest(), wire.GetUsageResponse, LONG_CALL_SECONDS
        )

    def orphans(self) -> wire.ListOrphansResponse:
        request = wire.ListOrphansRequest()
        return self._client.call_artifacts(
            "ListOrphans", request, wire.ListOrphansResponse, LONG_CALL_SECONDS
        )

    def remove_orphans(self, keys: Sequence[str]) -> wire.RemoveOrphansResponse:
        request = wire.RemoveOrphansRequest(keys=keys)
        return self._client.call_artifacts(
            "RemoveOrphans", request, wire.RemoveOrphansResponse, LONG_CALL_SECONDS
        )

    def download(
        self, reference: str, path: Path, on_chunk: Callable[[int], None] | None = None
    ) -> wire.Artifact:
        """Write an artifact to a new file and verify it; `on_chunk` is called with the size of each chunk."""
        granted = self.url(reference)
        artifact = granted.artifact
        draft = path.with_name(f".{path.name}.{os.getpid()}.part")
        try:
            digest = _fetch(granted.url, draft, artifact.size, on_chunk or _ignore)
            if digest != artifact.digest:
                raise RefusedError(
                    f"{artifact.name}: S3 returned other bytes than were stored (SHA-256 differs); "
                    f"`runspine artifacts verify {artifact.digest[:12]}` checks it"
                )
            try:
                os.link(draft, path)  # never over a file that appeared meanwhile
            except FileExistsError:
                raise RefusedError(f"{path} exists already") from None
        finally:
            draft.unlink(missing_ok=True)
        return artifact


def _fetch(url: str, path: Path, size: int, on_chunk: Callable[[int], None]) -> str:
    """Download a URL and return its SHA-256. The URL, which grants access, is never part of a message."""
    host = urlsplit(url).netloc
    loopback = (urlsplit(url).hostname or "") in ("127.0.0.1", "localhost", "::1")
    proxies = urllib.request.ProxyHandler({}) if loopback else urllib.request.ProxyHandler()
    digest, count = hashlib.sha256(), 0
    try:
        with (
            urllib.request.build_opener(proxies).open(url, timeout=DOWNLOAD_SECONDS) as answer,
            path.open("xb") as file,
        ):
            while data := answer.read(CHUNK):
                digest.update(data)
                count += len(data)
                file.write(data)
                on_chunk(len(data))
    except urllib.error.HTTPError as error:
        raise RefusedError(f"S3 at {host} answered {error.code} {error.reason}") from None
    except (urllib.error.URLError, TimeoutError, ConnectionError) as error:
        raise UnreachableError(
            f"S3 at {host} cannot be read from: {getattr(error, 'reason', error)}"
        ) from None
    except OSError as error:
        raise RunspineError(f"{path}: {error.strerror}") from error
    if count != size:
        raise RefusedError(f"S3 at {host} returned {count:,} bytes instead of {size:,}")
    return digest.hexdigest()


def _ignore(_: int) -> None:
    """The default of `on_chunk`."""
