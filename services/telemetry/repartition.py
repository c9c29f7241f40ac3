"""`python -m runspine.services.telemetry.repartition`: change the archive to RUNSPINE_INGEST_PARTITIONS
partitions.

Uses the settings of the telemetry service; no telemetry service may run meanwhile.
"""

from __future__ import annotations

import asyncio
import sys

from runspine.services.telemetry.core.manifest import ManifestChainError
from runspine.services.telemetry.edges.repartition import (
    ArchiveInUseError,
    RepartitionUnfinishedError,
    repartition,
)
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.blobs import BlobsUnavailableError
from runspine.storage.ranged_blobs import RangedS3Blobs


def main() -> int:
    settings = TelemetrySettings.from_environment()
    try:
        runs = asyncio.run(repartition(RangedS3Blobs(settings), settings.ingest_partitions))
    except (
        BlobsUnavailableError,
        ManifestChainError,
        ArchiveInUseError,
        RepartitionUnfinishedError,
    ) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{runs} runs distributed over {settings.ingest_partitions} partitions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
