"""`python -m services.telemetry.repartition`: as many partitions as RUNSPINE_INGEST_PARTITIONS says.

With the settings of the telemetry service, while none of them runs.
"""

from __future__ import annotations

import asyncio
import sys

from runspine.blobs import BlobsUnavailable
from runspine.ranged_blobs import RangedS3Blobs
from services.telemetry.core.manifest import Broken
from services.telemetry.edges.repartition import InUse, Unfinished, repartition
from services.telemetry.settings import TelemetrySettings


def main() -> int:
    settings = TelemetrySettings.from_environment()
    try:
        runs = asyncio.run(repartition(RangedS3Blobs(settings), settings.ingest_partitions))
    except (BlobsUnavailable, Broken, InUse, Unfinished) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    sys.stdout.write(f"{runs} runs dealt out over {settings.ingest_partitions} partitions\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
