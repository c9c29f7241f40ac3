"""Whether a dataset fits a run's env. Pure."""

from __future__ import annotations

from typing import Any

from runspine.datasets.manifest import Manifest
from runspine.datasets.spaces import differ


def unfit_env(
    made_in: str, made_with: dict[str, Any], name: str, env: str, env_kwargs: dict[str, Any]
) -> str:
    """Why the env of a dataset and its arguments differ from the run's; empty when they do not."""
    if made_in.rpartition(":")[2] != env.rpartition(":")[2]:
        return f"dataset {name} is of {made_in}, and the run's env is {env}: set env: {made_in}"
    if made_with != env_kwargs:
        return (
            f"dataset {name} was made with env_kwargs {made_with}, and the run has {env_kwargs}: use the same"
        )
    return ""


def unfit_spaces(manifest: Manifest, name: str, observations: str, actions: str) -> str:
    """Why the dataset's spaces differ from the env's; empty when they do not."""
    for what, had, have in (
        ("observations", manifest.observations, observations),
        ("actions", manifest.actions, actions),
    ):
        if had and differ(had, have):
            return (
                f"dataset {name} does not fit {manifest.env} here: its {what} are {had}, and the env's "
                f"{have} (another version of the env?)"
            )
    return ""
