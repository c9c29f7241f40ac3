"""How long the end of an attempt waits: a worker that is draining has little time."""

from __future__ import annotations

from runspine.services.worker.settings import WorkerSettings
from runspine.wire.v1.facts_pb2 import HANDED_BACK, Outcome

# How long the end of a run waits for the search of its directory.
DISCOVERY_SECONDS = 120.0


def upload_seconds(settings: WorkerSettings, outcome: Outcome) -> float:
    """For S3."""
    wait = settings.upload_wait
    return min(wait, settings.drain_seconds / 2) if outcome == HANDED_BACK else wait


def discovery_seconds(settings: WorkerSettings, outcome: Outcome) -> float:
    """For the search for unannounced files."""
    return settings.drain_seconds / 4 if outcome == HANDED_BACK else DISCOVERY_SECONDS
