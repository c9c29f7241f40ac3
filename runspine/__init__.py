"""Runspine: an event-sourced control plane for reinforcement-learning training.

For a trainer: `run = runspine.init()`, `env = runspine.wrap(env)`, `run.log({...}, step=...)`.
See docs/howto/sdk.md.
For a notebook: `api = runspine.Api()`, `api.run("…").history()`. See docs/howto/api.md.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runspine.api import Api, AsyncApi
    from runspine.sdk import (
        DivergedError,
        Run,
        checkpoint,
        finish,
        init,
        log,
        log_artifact,
        log_episode,
        progress,
        wrap,
    )

__version__ = "0.1.0"
__all__ = [
    "Api",
    "AsyncApi",
    "DivergedError",
    "Run",
    "__version__",
    "checkpoint",
    "finish",
    "init",
    "log",
    "log_artifact",
    "log_episode",
    "progress",
    "wrap",
]


def __getattr__(name: str) -> Any:
    """Load the SDK and the API on first use: the command line and the services do not need them."""
    if name in ("Api", "AsyncApi"):
        return getattr(importlib.import_module("runspine.api"), name)
    if name in __all__:
        return getattr(importlib.import_module("runspine.sdk"), name)
    raise AttributeError(f"module 'runspine' has no attribute {name!r}")
