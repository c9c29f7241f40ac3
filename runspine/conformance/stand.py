"""Where a runner is tried: a client, the runner's example, and ways to watch and to harm a run."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

import psutil

from runspine.client import Client
from runspine.conformance.result import Broken
from runspine.run import ENDED
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import GetResponse

LOOK_SECONDS = 0.1
# So many times the example's steps are a run that does not end while it is being looked at.
LONG = 5000
T = TypeVar("T")


@dataclass
class Stand:
    client: Client
    info: RunnerInfo
    example: RunSpec
    # Longest wait for anything that should happen, in seconds.
    patience: float = 120.0
    # The run that went through to its end, for checks that build on one.
    whole: Run | None = None
    started: list[str] = field(default_factory=list)

    def spec(self, *, times: int = 1) -> RunSpec:
        """The example, with so many times its steps."""
        copy = RunSpec()
        copy.CopyFrom(self.example)
        copy.runner, copy.total_steps = self.info.name, self.example.total_steps * times
        copy.retry.Clear()
        return copy

    def submit(self, spec: RunSpec) -> str:
        run_id = self.client.submit(spec).run.id
        self.started.append(run_id)
        return run_id

    def until(self, run_id: str, look: Callable[[GetResponse], T | None], what: str) -> T:
        """What `look` finds in the run. Raises Broken when it ends or time is up before."""
        deadline = time.monotonic() + self.patience
        while True:
            answer = self.client.get(run_id)
            found = look(answer)
            if found:
                return found
            if answer.run.phase in ENDED:
                raise Broken(f"the run {ending(answer.run)} before {what}", advice(answer.run))
            if time.monotonic() > deadline:
                phase = Phase.Name(answer.run.phase).lower()
                raise Broken(
                    f"{what}: not within {self.patience:g} s (the run is {phase}: {answer.run.reason})",
                    "see what its trainer printed with --keep, or wait longer with --patience",
                )
            time.sleep(LOOK_SECONDS)

    def end_of(self, run_id: str) -> Run:
        return self.until(run_id, lambda answer: answer.run if answer.run.phase in ENDED else None, "its end")

    def busy(self, run_id: str) -> GetResponse:
        """The run as soon as it has said something of its training."""

        def look(answer: GetResponse) -> GetResponse | None:
            counts = answer.progress.counts
            return answer if counts.steps or counts.metrics or counts.episodes else None

        return self.until(run_id, look, "it said a step, an episode or a metric")

    def put_away(self) -> None:
        """Nothing of a check runs on into the next."""
        for run_id in self.started:
            if self.client.get(run_id).run.phase not in ENDED:
                self.client.cancel(run_id, "the check is over")
        while self.started:
            self.end_of(self.started.pop())


def processes_of(run_id: str) -> list[psutil.Process]:
    """Every process on this machine that belongs to the run, oldest first."""
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
        return "mend what the reason says; --keep leaves the run's directory and logs behind"
    return "the run must last for total_steps, which the trainer finds in RUNSPINE_TOTAL_STEPS"
