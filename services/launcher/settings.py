"""Settings of the launcher, read from the environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from runspine.settings import ServiceSettings


class LauncherSettings(ServiceSettings):
    launcher_pools: Path = Field(description="YAML file of the pools and their engines")
    launcher_seconds: float = Field(1.0, gt=0, description="seconds between two reads of the engine's state")
