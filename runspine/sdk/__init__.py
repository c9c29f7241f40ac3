"""The SDK for trainers: telemetry of every step, and snapshots of envs in mid-episode.

Imports only the standard library and numpy; Gymnasium is imported when an env is wrapped.
"""

from runspine.sdk.run import Run
from runspine.sdk.shortcuts import checkpoint, finish, init, log, log_artifact, log_episode, progress, wrap
from runspine.sdk.snapshot import DivergedError

__all__ = [
    "DivergedError",
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
