"""Defaults of a spec and limits of a viewer that several processes share."""

from __future__ import annotations

DEFAULT_POOL = "default"
DEFAULT_PRIORITY = 50
DEFAULT_SEED = 1
# Between SIGTERM and SIGKILL.
DEFAULT_GRACE_SECONDS = 3.0
# Episodes of one batch of an evaluation.
DEFAULT_EPISODES = 50
# The actor that a checkpoint is activated for.
DEFAULT_ACTOR = "default"

# Live frames: what a viewer may request.
MIN_FPS, MAX_FPS = 1.0, 30.0
MIN_WIDTH, MAX_WIDTH = 64, 1280
DEFAULT_WIDTH = 320
MAX_SLOTS = 64
