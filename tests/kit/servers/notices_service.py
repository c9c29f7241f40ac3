"""The notices service as a process, and runs whose facts a test writes."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import yaml

from runspine.clock import now_micros
from runspine.eventlog import EventLog, Version
from runspine.eventlog.subjects import NOTICES, run_subject
from runspine.ids import new_ulid
from runspine.notice.book import NoticeBook
from runspine.wire.v1.facts_pb2 import Fact, RunQueued, RunRequeued, RunSubmitted
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT

# A receiver that fails is asked again soon; a claim of a killed process ends soon.
IMPATIENT = {
    "RUNSPINE_NOTICES_PAUSE_SECONDS": "0.02",
    "RUNSPINE_NOTICES_TRIES": "60",
    "RUNSPINE_NOTICES_TIMEOUT_SECONDS": "1",
    "RUNSPINE_NOTICES_CLAIM_SECONDS": "4",
    "RUNSPINE_NOTICES_METRIC_SECONDS": "0.2",
}


class NoticesProcess:
    """One process of the service."""

    def __init__(self, nats_url: str, directory: Path, file: Path, **settings: str) -> None:
        self._log = directory / "notices.log"
        self._environment = clean_environment(
            RUNSPINE_NATS_URL=nats_url, RUNSPINE_NOTICES_FILE=str(file), **{**IMPATIENT, **settings}
        )
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runspine.services.notices"],
                env=self._environment,
                cwd=ROOT,
                stdout=log,
                stderr=log,
            )

    def kill(self) -> None:
        """kill -9."""
        assert self.process
        self.process.kill()
        self.process.wait()

    def stop(self) -> None:
        if self.process and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            self.process.wait(60)

    def output(self) -> str:
        return self._log.read_text()


@contextmanager
def notices_process(nats_url: str, directory: Path, file: Path, **settings: str) -> Iterator[NoticesProcess]:
    service = NoticesProcess(nats_url, directory, file, **settings)
    service.start()
    try:
        yield service
    finally:
        service.stop()


def notices_file(directory: Path, content: dict[str, Any]) -> Path:
    path = directory / "notices.yaml"
    path.write_text(yaml.safe_dump(content))
    return path


def webhook(directory: Path, url: str) -> dict[str, Any]:
    """A channel with its secret in a file."""
    key = directory / "hook.key"
    key.write_text("the key of the hook\n")
    return {"kind": "webhook", "url": url, "secret": {"file": str(key)}}


class WrittenRun:
    """A run whose facts the test writes, as the orchestrator would."""

    def __init__(self, log: EventLog, name: str, spec: RunSpec | None = None) -> None:
        self._log = log
        self._version = Version()
        self.id = new_ulid()
        self.name = name
        self.spec = spec or RunSpec(runner="script", project="tests")

    async def submit(self) -> None:
        submitted = RunSubmitted(run_id=self.id, name=self.name, spec=self.spec)
        await self.write(Fact(run_submitted=submitted), Fact(run_queued=RunQueued(attempt=1)))

    async def requeue(self, attempt: int) -> None:
        await self.write(Fact(run_requeued=RunRequeued(attempt=attempt, reason=f"again {attempt}")))

    async def write(self, *facts: Fact) -> None:
        for fact in facts:
            fact.at = now_micros()
        self._version = await self._log.append(run_subject(self.id), facts, expected=self._version)


async def read_book(log: EventLog) -> NoticeBook:
    """The fold of NOTICES as it is now."""
    book = NoticeBook()
    async for recorded in log.follow(NOTICES, live=False):
        book.apply(recorded)
    return book
