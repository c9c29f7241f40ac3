"""Observations of an episode by replay, for runs that did not keep them."""

from __future__ import annotations

import copy
from typing import Any

from runspine.rpc.telemetry_client import TelemetryClient


def resimulated_observations(
    reader: TelemetryClient, run_id: str, episode_id: str, attempt: int
) -> list[Any] | None:
    """The first observation and the one after each step; None when the replay diverges.

    Raises EnvMissingError when the env cannot be created on this machine.
    """
    from runspine.replay import EpisodeRecord, Replay

    replay = Replay(EpisodeRecord(reader.episode(run_id, episode_id, attempt)))
    if not replay.verdict.exact:
        return None
    # Some envs return an array that they modify later.
    return [copy.deepcopy(moment.observation) for moment in replay.moments()]
