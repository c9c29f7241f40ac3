"""The writer of witnesses, as the settings of the janitor state."""

from __future__ import annotations

from runspine.anchors.witnesses import WitnessFile
from runspine.anchors.writer import AnchorWriter
from runspine.eventlog import EventLog
from runspine.eventlog.signing import SigningKey
from runspine.services.artifacts.edges.lease import JanitorLease
from runspine.services.artifacts.settings import JanitorSettings
from runspine.storage.anchor_blobs import AnchorBlobs


def anchor_writer(settings: JanitorSettings, event_log: EventLog, lease: JanitorLease) -> AnchorWriter:
    key = settings.signing_key.get_secret_value()
    return AnchorWriter(
        event_log,
        AnchorBlobs(settings, settings.anchor_bucket, settings.anchor_lock_days),
        SigningKey.parse(key) if key else None,
        leads=lambda: lease.held() is not None,
        seconds=settings.anchor_seconds,
        series=settings.anchor_series,
        file=WitnessFile(settings.anchor_file) if settings.anchor_file else None,
        url=settings.anchor_url,
    )
