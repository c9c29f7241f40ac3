"""Finds an episode of a run by index, by id, or as the best, worst, first or last."""

from __future__ import annotations

import re

from runspine.errors import RunNotFoundError
from runspine.replay.record import EpisodeRecord
from runspine.rpc.trainer_client import Client
from runspine.wire.v1 import telemetry_pb2 as wire

CHOSEN = {
    "best": (wire.BY_RETURN, True),
    "worst": (wire.BY_RETURN, False),
    "longest": (wire.BY_LENGTH, True),
    "shortest": (wire.BY_LENGTH, False),
    "first": (wire.BY_TIME, False),
    "last": (wire.BY_TIME, True),
}
# As the SDK names episodes: slot, number, and the process where it is not the trainer itself.
_NAME = re.compile(r"(\d+)-(\d+)(-\d+)?\Z")
# Earlier episodes to replay for one whose record has no generator state.
MAX_EARLIER = 500


def find_episode(
    client: Client, run_id: str, which: str, attempt: int = 0, agent: str | None = None
) -> EpisodeRecord:
    """Fetch an episode. A number is an index, `id:7` an id. Raises RunNotFoundError."""
    request = wire.GetEpisodeRequest(run_id=run_id)
    if which in CHOSEN:
        request.index = _chosen(client, run_id, which)
    elif which.isdecimal() and which.isascii():
        # The service's index is a signed 64-bit number.
        request.index = min(int(which), (1 << 63) - 1)
    else:
        request.episode_id, request.attempt = which.removeprefix("id:"), attempt
    return _get(client, request, agent)


def earlier_episodes(client: Client, run_id: str, record: EpisodeRecord) -> list[EpisodeRecord]:
    """Episodes of the same slot before it, from one whose start is known; none when that is too far."""
    name = _NAME.match(record.id)
    if name is None or record.start.is_known:
        return []
    slot, number, process = name[1], int(name[2]), name[3] or ""
    found: list[EpisodeRecord] = []
    while number > 0 and len(found) < MAX_EARLIER:
        number -= 1
        request = wire.GetEpisodeRequest(
            run_id=run_id, episode_id=f"{slot}-{number}{process}", attempt=record.response.entry.attempt
        )
        try:
            found.append(_get(client, request))
        except RunNotFoundError:
            return []
        if found[-1].missing:
            return []
        if found[-1].start.is_known:
            return found[::-1]
    return []


def _chosen(client: Client, run_id: str, which: str) -> int:
    order, descending = CHOSEN[which]
    request = wire.ListEpisodesRequest(run_id=run_id, order=order, descending=descending, page_size=1)
    page = client.call_telemetry("ListEpisodes", request, wire.ListEpisodesResponse)
    if not page.episodes:
        raise RunNotFoundError(f"run {run_id} has no episode that has ended yet")
    return page.episodes[0].index


def _get(client: Client, request: wire.GetEpisodeRequest, agent: str | None = None) -> EpisodeRecord:
    return EpisodeRecord(client.call_telemetry("GetEpisode", request, wire.GetEpisodeResponse), agent)
