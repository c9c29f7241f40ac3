"""An episode of a run by index, id, or as the best, worst, first or last of them."""

from __future__ import annotations

import re

from runspine.client import Client
from runspine.errors import NotFound
from runspine.replay.record import Record
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
# Episodes to play again for one that says nothing of how it began.
MOST_EARLIER = 500


def find_episode(
    client: Client, run_id: str, which: str, attempt: int = 0, agent: str | None = None
) -> Record:
    """A number is an index; `id:7` an id that looks like one. Raises NotFound."""
    request = wire.GetEpisodeRequest(run_id=run_id)
    if which in CHOSEN:
        request.index = _chosen(client, run_id, which)
    elif which.isdecimal() and which.isascii():
        # More than the service counts to is more than there are.
        request.index = min(int(which), (1 << 63) - 1)
    else:
        request.episode_id, request.attempt = which.removeprefix("id:"), attempt
    return _get(client, request, agent)


def earlier_episodes(client: Client, run_id: str, record: Record) -> list[Record]:
    """Those of the same slot before it, from one whose beginning is known on; none when that is too far."""
    name = _NAME.match(record.id)
    if name is None or record.beginning.is_known:
        return []
    slot, number, process = name[1], int(name[2]), name[3] or ""
    found: list[Record] = []
    while number > 0 and len(found) < MOST_EARLIER:
        number -= 1
        request = wire.GetEpisodeRequest(
            run_id=run_id, episode_id=f"{slot}-{number}{process}", attempt=record.said.entry.attempt
        )
        try:
            found.append(_get(client, request))
        except NotFound:
            return []
        if found[-1].missing:
            return []
        if found[-1].beginning.is_known:
            return found[::-1]
    return []


def _chosen(client: Client, run_id: str, which: str) -> int:
    order, descending = CHOSEN[which]
    request = wire.ListEpisodesRequest(run_id=run_id, order=order, descending=descending, page_size=1)
    page = client.ask_telemetry("ListEpisodes", request, wire.ListEpisodesResponse)
    if not page.episodes:
        raise NotFound(f"run {run_id} has no episode that has ended yet")
    return page.episodes[0].index


def _get(client: Client, request: wire.GetEpisodeRequest, agent: str | None = None) -> Record:
    return Record(client.ask_telemetry("GetEpisode", request, wire.GetEpisodeResponse), agent)
