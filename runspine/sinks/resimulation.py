"""Observations that were not kept, had again by playing the episode once more."""

from __future__ import annotations

import copy
from typing import Any

from runspine.telemetry_reader import TelemetryReader


def observed_again(reader: TelemetryReader, run_id: str, episode_id: str, attempt: int) -> list[Any] | None:
    """The first observation and the one after each step; None when the replay is not the recorded episode.

    Raises NoEnv when the env cannot be made on this machine.
    """
    from runspine.replay import Record, Replay

    replay = Replay(Record(reader.episode(run_id, episode_id, attempt)))
    if not replay.verdict.exact:
        return None
    # Some envs hand out the array they go on to write in.
    return [copy.deepcopy(moment.observation) for moment in replay.moments()]
