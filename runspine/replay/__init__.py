"""Replay of recorded episodes: simulated again, verified step by step, drawn at any size.

    record = EpisodeRecord(client.call_telemetry("GetEpisode", …))
    replay = Replay(record)
    replay.verdict.exact            # every step is as recorded
    env = replay.env_at(120)        # an env where step 120 comes next
    for moment in replay.moments(): ...

Needs numpy, and Gymnasium with the env's packages once an episode is replayed.
"""

from runspine.replay.divergence import ChangedPackage, Divergence
from runspine.replay.env_factory import EnvMissingError, make_env
from runspine.replay.record import EpisodeRecord, RecordedStep
from runspine.replay.replay import Replay, ReplayVerdict
from runspine.replay.stage import Moment, Stage
from runspine.replay.verifier import ReplayVerifier
from runspine.replay.ways import Way
from runspine.sdk.snapshot import DivergedError

__all__ = [
    "ChangedPackage",
    "DivergedError",
    "Divergence",
    "EnvMissingError",
    "EpisodeRecord",
    "Moment",
    "RecordedStep",
    "Replay",
    "ReplayVerdict",
    "ReplayVerifier",
    "Stage",
    "Way",
    "make_env",
]
