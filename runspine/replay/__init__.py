"""Any recorded episode again: re-simulated, checked step by step, drawn at any size.

    record = Record(client.ask_telemetry("GetEpisode", …))
    replay = Replay(record)
    replay.verdict.exact            # every step came out as recorded
    env = replay.env_at(120)        # an env where step 120 comes next
    for moment in replay.moments(): ...

Needs numpy, and Gymnasium with the env's packages once something is played.
"""

from runspine.replay.divergence import Changed, Divergence
from runspine.replay.making import NoEnv, make_env
from runspine.replay.record import Record, Step
from runspine.replay.replay import Replay, Verdict
from runspine.replay.stage import Moment, Stage
from runspine.replay.verifier import Verifier
from runspine.replay.ways import Way
from runspine.sdk.snapshot import Diverged

__all__ = [
    "Changed",
    "Diverged",
    "Divergence",
    "Moment",
    "NoEnv",
    "Record",
    "Replay",
    "Stage",
    "Step",
    "Verdict",
    "Verifier",
    "Way",
    "make_env",
]
