"""`runspine video`: rebuild a clip from telemetry when its file is gone or was never made."""

from __future__ import annotations

import hashlib
from pathlib import Path
from typing import Any

import click

from runspine.cli.errors import json_option
from runspine.cli.lookup.run import find
from runspine.cli.ui.screen import echo, echo_json
from runspine.domain.artifact_kinds import VIDEO
from runspine.errors import InvalidError, RefusedError, RunNotFoundError
from runspine.rpc.trainer_client import Client
from runspine.spec.plain import plain_value
from runspine.text.values import size
from runspine.wire.v1.artifacts_pb2 import Artifact
from runspine.wire.v1.telemetry_pb2 import GetEpisodeRequest, GetEpisodeResponse

DEFAULT_FRAMES = 200


@click.command()
@click.argument("reference", metavar="VIDEO | RUN")
@click.option("--episode", type=click.IntRange(0), help="With RUN: index of the episode, 0 for the first.")
@click.option(
    "--frames",
    type=click.IntRange(1, 100_000),
    help=f"Maximum frames.  [default: the video's own, or {DEFAULT_FRAMES}]",
)
@click.option(
    "--out", type=click.Path(dir_okay=False, path_type=Path), required=True, help="Output file (.mp4)."
)
@json_option
def video(reference: str, episode: int | None, frames: int | None, out: Path, as_json: bool) -> None:
    """Rebuild a video by replay: simulate the recorded episode, verify every step, and encode it.

    VIDEO is the digest of a video or RUN:NAME, also of a pruned one; the result is compared with it
    frame by frame. With RUN and --episode any recorded episode is rendered.
    """
    if out.exists():
        raise RefusedError(f"{out} exists already")
    if out.suffix.lower() != ".mp4":
        raise InvalidError(f"{out.name}: the name must end in .mp4")
    with Client() as client:
        if episode is None:
            artifact = _video(client, reference)
            meta = {name: plain_value(value) for name, value in artifact.meta.items()}
            episode_record = _recorded(client, artifact, meta)
        else:
            artifact, meta = None, {}
            run_id = find(client, reference).run.id
            episode_record = _get_episode(client, GetEpisodeRequest(run_id=run_id, index=episode))
    result = _rebuild(
        episode_record,
        out,
        frames or int(meta.get("frames") or DEFAULT_FRAMES),
        meta,
        artifact,
        frames is None,
    )
    if as_json:
        echo_json(result)
        return
    echo(
        f"{out}  {result['frames']} frames, {result['width']}×{result['height']}, {size(out.stat().st_size)}"
    )
    if result["same_frames"] is not None:
        same = "identical to the original file" if result["same_file"] else "every frame matches the original"
        echo(same if result["same_frames"] else "the frames differ from the original", "green")


def _video(client: Client, reference: str) -> Artifact:
    from runspine.rpc.artifact_client import ArtifactClient

    artifact = ArtifactClient(client).get(reference).artifact
    if artifact.kind != VIDEO:
        raise InvalidError(f"{reference} is a {artifact.kind}: give a video, or RUN with --episode")
    return artifact


def _recorded(client: Client, artifact: Artifact, meta: dict[str, Any]) -> GetEpisodeResponse:
    episode_id = meta.get("episode_id")
    if not isinstance(episode_id, str):
        raise RunNotFoundError(f"video {artifact.name} has no episode id: give the run and --episode instead")
    request = GetEpisodeRequest(run_id=artifact.run_id, episode_id=episode_id, attempt=artifact.attempt)
    return _get_episode(client, request)


def _get_episode(client: Client, request: GetEpisodeRequest) -> GetEpisodeResponse:
    return client.call_telemetry("GetEpisode", request, GetEpisodeResponse)


def _rebuild(
    episode_record: GetEpisodeResponse,
    out: Path,
    frames: int,
    meta: dict[str, Any],
    artifact: Artifact | None,
    comparable: bool,
) -> dict[str, Any]:
    from runspine.replay import EpisodeRecord
    from runspine.video.clip import VideoError
    from runspine.video.rebuild import rebuild

    try:
        clip = rebuild(EpisodeRecord(episode_record), out, limit=frames)
    except VideoError as error:
        raise RefusedError(str(error)) from error
    with out.open("rb") as file:
        digest = hashlib.file_digest(file, "sha256").hexdigest()
    original = meta.get("frames_sha256") if comparable else None
    return {
        "path": str(out),
        "digest": digest,
        **clip.meta(),
        "episode_id": episode_record.entry.episode.episode_id,
        "same_frames": clip.frames_sha256 == original if original else None,
        "same_file": artifact is not None and digest == artifact.digest,
    }
