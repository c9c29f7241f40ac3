"""Context of the checks of one runner: client, example spec, and waits on runs."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

from runspine.conformance.result import NotConformingError
from runspine.domain.run import ENDED
from runspine.rpc.trainer_client import Client
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse

POLL_SECONDS = 0.1
# Multiple of the example's steps that gives a run longer than any check.
LONG_RUN_FACTOR = 5000
T = TypeVar("T")


@dataclass
class CheckContext:
    """A runner under test, and the runs its checks have started."""

    client: Client
    info: RunnerInfo
    example: RunSpec
    # Timeout of each expectation, in seconds.
    patience: float = 120.0
    # A completed run, for checks that need one.
    completed: Run | None = None
    started: list[str] = field(default_factory=list)

    def spec(self, *, times: int = 1) -> RunSpec:
        """The example with a multiple of its steps."""
        copy = RunSpec()
        copy.CopyFrom(self.example)
        copy.runner, copy.total_steps = self.info.name, self.example.total_steps * times
        copy.retry.Clear()
        return copy

    def submit(self, spec: RunSpec) -> str:
        run_id = self.client.submit(spec).run.id
        self.started.append(run_id)
        return run_id

    def wait_until(self, run_id: str, find: Callable[[GetResponse], T | None], what: str) -> T:
        """Poll the run until `find` succeeds. Raises NotConformingError when it ends or times out."""
        deadline = time.monotonic() + self.patience
        while True:
            answer = self.client.get(run_id)
            found = find(answer)
            if found:
                return found
            if answer.run.phase in ENDED:
                raise NotConformingError(f"the run {ending(answer.run)} before {what}", advice(answer.run))
            if time.monotonic() > deadline:
                phase = Phase.Name(answer.run.phase).lower()
                raise NotConformingError(
                    f"{what}: not within {self.patience:g} s (the run is {phase}: {answer.run.reason})",
                    "read the output of its trainer with --keep, or wait longer with --patience",
                )
            time.sleep(POLL_SECONDS)

    def wait_for_end(self, run_id: str) -> Run:
        return self.wait_until(
            run_id, lambda answer: answer.run if answer.run.phase in ENDED else None, "its end"
        )

    def wait_until_busy(self, run_id: str) -> GetResponse:
        """Wait until the run has reported a step, an episode or a metric."""

        def find(answer: GetResponse) -> GetResponse | None:
            counts = answer.progress.counts
            return answer if counts.steps or counts.metrics or counts.episodes else None

        return self.wait_until(run_id, find, "it reported a step, an episode or a metric")

    def clean_up(self) -> None:
        """Cancel the remaining runs of a check."""
        for run_id in self.started:
            if self.client.get(run_id).run.phase not in ENDED:
                self.client.cancel(run_id, "the check is over")
        while self.started:
            self.wait_for_end(self.started.pop())


def processes_of(run_id: str) -> list[psutil.Process]:
    """Processes of the run on this machine, oldest first."""
    found = []
    for process in psutil.process_iter():
        try:
            if (
                process.environ().get("RUNSPINE_RUN_ID") == run_id
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                found.append(process)
        except psutil.Error:
            continue
    return sorted(found, key=lambda process: process.create_time())


def ending(run: Run) -> str:
    return f"has {Phase.Name(run.phase).lower()}" + (f" ({run.reason})" if run.reason else "")


def advice(run: Run) -> str:
    if run.phase == Phase.FAILED:
        return "fix what the reason states; --keep keeps the directory and logs of the run"
    return "the run must last for total_steps, which the trainer finds in RUNSPINE_TOTAL_STEPS"
