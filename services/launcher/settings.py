"""What the launcher is told by its environment."""

from __future__ import annotations

from pathlib import Path

from pydantic import Field

from runspine.settings import ServiceSettings


class LauncherSettings(ServiceSettings):
    launcher_pools: Path = Field(description="YAML file that says which pools are launched where")
    launcher_seconds: float = Field(1.0, gt=0, description="time between two looks at the engine")
