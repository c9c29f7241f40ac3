"""Event files of TensorBoard in a run's directory. Imports nothing heavy: trainers' processes use it, too."""

from __future__ import annotations

# Folders of a run's directory with files that are not its own: copies for upload, checkpoints of S3, W&B's.
NOT_FOLLOWED = frozenset(("artifacts", "resume", "wandb"))
# File in the run's directory with the paths of event files that the instrumentation records, one a line; a
# folder ends with a slash.
RECORDED = ".recorded-event-files"


def is_event_file(path: str) -> bool:
    return path.rpartition("/")[2].startswith("events.out.tfevents.")
