"""What a trainer imports: telemetry of every step, and envs that can be put back in mid-episode.

Standard library and numpy; Gymnasium only when the env given is one of its own.
"""

from runspine.sdk.run import Run
from runspine.sdk.shortcuts import checkpoint, finish, init, log, log_artifact, log_episode, progress, wrap
from runspine.sdk.snapshot import Diverged

__all__ = [
    "Diverged",
    "Run",
    "checkpoint",
    "finish",
    "init",
    "log",
    "log_artifact",
    "log_episode",
    "progress",
    "wrap",
]
