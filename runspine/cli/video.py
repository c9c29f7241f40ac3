"""`runspine video`: a clip again from telemetry, when its file is gone or there never was one."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from runspine.cli.ask import find
from runspine.cli.edge import json_option
from runspine.cli.screen import say, say_json
from runspine.cli.text import size
from runspine.client import Client
from runspine.errors import Invalid, NotFound, Refused
from runspine.plain import plain_value
from runspine.wire.v1.artifacts_pb2 import Artifact
from runspine.wire.v1.telemetry_pb2 import GetEpisodeRequest, GetEpisodeResponse

FRAMES = 200


@click.command()
@click.argument("reference", metavar="VIDEO | RUN")
@click.option(
    "--episode", type=click.IntRange(0), help="Of a RUN: which episode, 0 for the first that ended."
)
@click.option("--frames", type=click.IntRange(1, 100_000), help=f"At most; the video's own, or {FRAMES}.")
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="File to write, .mp4."
)
@json_option
def video(reference: str, episode: int | None, frames: int | None, out: Path, as_json: bool) -> None:
    """Rebuild a video by replay: the recorded episode is played again, checked step by step, and encoded.

    VIDEO is the digest of a video, or RUN:<its name>, also of one that was pruned; what comes out is compared
    with it frame for frame. With RUN and --episode it is made of any recorded episode.
    """
    if out.exists():
        raise Refused(f"{out} exists already")
    if out.suffix.lower() != ".mp4":
        raise Invalid(f"{out.name}: a clip ends in .mp4")
    with Client() as client:
        if episode is None:
            artifact = _video(client, reference)
            meta = {name: plain_value(value) for name, value in artifact.meta.items()}
            said = _recorded(client, artifact, meta)
        else:
            artifact, meta = None, {}
            run_id = find(client, reference).run.id
            said = _ask(client, GetEpisodeRequest(run_id=run_id, index=episode))
    told = _made(said, out, frames or int(meta.get("frames") or FRAMES), meta, artifact, frames is None)
    if as_json:
        say_json(told)
        return
    say(f"{out}  {told['frames']} frames, {told['width']}×{told['height']}, {size(out.stat().st_size)}")
    if told["same_frames"] is not None:
        same = "it is the same file, byte for byte" if told["same_file"] else "every frame is the same"
        say(same if told["same_frames"] else "its frames are not those of the original", "green")


def _video(client: Client, reference: str) -> Artifact:
    from runspine.artifact_client import ArtifactClient

    artifact = ArtifactClient(client).get(reference).artifact
    if artifact.kind != "video":
        raise Invalid(f"{reference} is a {artifact.kind}: give a video, or RUN with --episode")
    return artifact


def _recorded(client: Client, artifact: Artifact, meta: dict[str, Any]) -> GetEpisodeResponse:
    episode_id = meta.get("episode_id")
    if not isinstance(episode_id, str):
        raise NotFound(
            f"video {artifact.name} does not say of which episode it is: give the run and --episode instead"
        )
    request = GetEpisodeRequest(run_id=artifact.run_id, episode_id=episode_id, attempt=artifact.attempt)
    return _ask(client, request)


def _ask(client: Client, request: GetEpisodeRequest) -> GetEpisodeResponse:
    return client.ask_telemetry("GetEpisode", request, GetEpisodeResponse)


def _made(
    said: GetEpisodeResponse,
    out: Path,
    frames: int,
    meta: dict[str, Any],
    artifact: Artifact | None,
    comparable: bool,
) -> dict[str, Any]:
    from runspine.replay import Record
    from runspine.video.clip import NoVideo
    from runspine.video.rebuild import rebuild

    try:
        clip = rebuild(Record(said), out, most=frames)
    except NoVideo as error:
        raise Refused(str(error)) from error
    with out.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    original = meta.get("frames_sha256") if comparable else None
    return {
        "path": str(out),
        "digest": digest,
        **clip.meta(),
        "episode_id": said.entry.episode.episode_id,
        "same_frames": clip.frames_sha256 == original if original else None,
        "same_file": artifact is not None and digest == artifact.digest,
    }
