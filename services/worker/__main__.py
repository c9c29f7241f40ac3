"""Entry point: python -m runspine.services.worker."""

from __future__ import annotations

import sys

from prometheus_client import REGISTRY

from runspine.eventlog.publisher import Publisher
from runspine.eventlog.streams import wait_for_streams
from runspine.eventlog.subjects import ATTEMPTS, BEATS, RUNS, TELEMETRY, WORK
from runspine.runners import installed_runners
from runspine.service.process import Health, open_link, open_log, run_service
from runspine.services.worker.artifacts.signed_blobs import SignedFileBlobs, UploadSignatures
from runspine.services.worker.facts.journal import DirectoryInUseError, hold_directory
from runspine.services.worker.machine.status import MachineCollector
from runspine.services.worker.process.sandbox import Sandbox, SandboxError, make_sandbox
from runspine.services.worker.settings import WorkerSettings
from runspine.services.worker.worker import Worker
from runspine.storage.file_blobs import FileBlobs


def main() -> int:
    """Run the worker; the exit code."""
    settings = WorkerSettings.from_environment()
    try:
        settings = settings.model_copy(update={"worker_dir": settings.worker_dir.resolve()})
        with hold_directory(settings.worker_dir):
            sandbox = make_sandbox(settings)
            return run_service("worker", settings, lambda health: work(settings, sandbox, health))
    except (DirectoryInUseError, SandboxError) as error:
        print(error, file=sys.stderr)
        return 2


async def work(settings: WorkerSettings, sandbox: Sandbox, health: Health) -> None:
    """Open the connections and serve until stopped."""
    async with open_link("worker", settings, health) as link, Publisher(link) as publisher:
        await wait_for_streams(link, RUNS, ATTEMPTS, TELEMETRY, WORK, BEATS, timeout=float("inf"))
        log = open_log(link, publisher, settings)
        signatures = UploadSignatures(link, settings.worker_id)
        signed = settings.worker_uploads == "signed"
        blobs = SignedFileBlobs(settings, signatures) if signed else FileBlobs(settings)
        worker = Worker(settings, link, log, publisher, blobs, installed_runners(), sandbox)
        REGISTRY.register(MachineCollector(worker.machine))
        async with signatures.open():
            await worker.serve()


if __name__ == "__main__":
    sys.exit(main())
