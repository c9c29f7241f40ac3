"""Meta of a clip that a script left: the sidecar next to it, and the episode in its name."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runspine.services.worker.artifacts.wandb_folder import read_small_json

_EPISODE = re.compile(r"-episode-(?P<number>\d{1,12})\Z")
# Names in the sidecar, and those that the built-in trainers' clips have.
_FIELDS = {
    "episode_id": "episode_id",
    "episode_return": "return",
    "return": "return",
    "episode_length": "length",
    "length": "length",
    "timestamp": "timestamp",
}


def read_clip_meta(run_dir: Path, path: str) -> dict[str, Any]:
    """Episode, return and length of `videos/…/rl-video-episode-N.mp4`, as far as they are known. Blocks."""
    stem = path.rpartition(".")[0]
    meta: dict[str, Any] = {}
    if found := _EPISODE.search(stem):
        meta["episode"] = int(found["number"])
    fields = read_small_json(run_dir, f"{stem}.meta.json") or {}
    for name, kept in _FIELDS.items():
        if isinstance(value := fields.get(name), str | int | float) and kept not in meta:
            meta[kept] = value[:200] if isinstance(value, str) else value
    return meta
