"""python -m services.worker"""

from __future__ import annotations

import sys

from runspine.file_blobs import FileBlobs
from runspine.log.jetstream import JetStreamLog
from runspine.log.publisher import Publisher
from runspine.log.streams import wait_for_streams
from runspine.log.subjects import ATTEMPTS, BEATS, RUNS, TELEMETRY, WORK
from runspine.runners import installed_runners
from runspine.service import Health, open_link, run_service
from services.worker.journal import DirectoryInUse, hold_directory
from services.worker.sandbox import NoSandbox, ensure_sandbox
from services.worker.settings import WorkerSettings
from services.worker.worker import Worker


def main() -> int:
    settings = WorkerSettings.from_environment()
    try:
        settings = settings.model_copy(update={"worker_dir": settings.worker_dir.resolve()})
        with hold_directory(settings.worker_dir):
            if settings.worker_sandbox:
                ensure_sandbox(settings.worker_dir)
            return run_service("worker", settings, lambda health: work(settings, health))
    except (DirectoryInUse, NoSandbox) as error:
        print(error, file=sys.stderr)
        return 2


async def work(settings: WorkerSettings, health: Health) -> None:
    async with open_link("worker", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, WORK, BEATS, timeout=float("inf"))
        log = JetStreamLog(link, publisher)
        await Worker(settings, link, log, publisher, FileBlobs(settings), installed_runners()).serve()


if __name__ == "__main__":
    sys.exit(main())
