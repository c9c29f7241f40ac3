"""Boards of any size, filled with facts as services write them."""

from __future__ import annotations

from runspine.eventlog import Recorded
from runspine.eventlog.chain import digest_of, seal
from runspine.eventlog.port import Version
from runspine.eventlog.subjects import ATTEMPTS, RUNS, attempts_subject, run_subject, worker_subject
from runspine.ids import ulid
from runspine.runners import installed_runners
from runspine.services.orchestrator.core.board import Board
from runspine.wire.v1.facts_pb2 import (
    AttemptStarted,
    Capacity,
    Fact,
    RunQueued,
    RunStarted,
    RunSubmitted,
    WorkerOnline,
)
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec

# Env ids that a worker with Gymnasium and its extras reports.
ENVS = [f"Family{number // 10}-v{number % 10}" for number in range(300)]
SLOTS = 2


def reported_runners() -> list[RunnerInfo]:
    """What one worker reports of its runners."""
    infos = []
    for name, runner in installed_runners().items():
        info = RunnerInfo()
        info.CopyFrom(runner.info())
        info.name = name
        if info.open_envs:
            info.envs.extend(ENVS)
        infos.append(info)
    return infos


def run_id_of(number: int) -> str:
    return ulid(1_700_000_000_000 + number, number.to_bytes(10, "big"))


class FilledBoard:
    """A board and what it was fed with."""

    def __init__(self, workers: int = 0, queued: int = 0, running: int = 0) -> None:
        self.board = Board()
        self._positions = {RUNS: 0, ATTEMPTS: 0}
        self._heads: dict[str, Version] = {}
        runners = reported_runners()
        for number in range(workers):
            self.online(f"w{number}", runners)
        for number in range(queued + running):
            self.submit(number)
        for number in range(running):
            self.start(number, f"w{number % max(workers, 1)}")

    def apply(self, stream: str, subject: str, *facts: Fact) -> None:
        self._positions[stream] += 1
        head = self._heads.get(subject, Version())
        data = seal(head, facts, "bench", "bench")
        recorded = Recorded(stream, self._positions[stream], subject, data, digest_of(data), 0)
        self._heads[subject] = recorded.version()
        self.board.apply(recorded)

    def forget(self, subject: str) -> None:
        """No more commits follow on it."""
        del self._heads[subject]

    def online(self, worker_id: str, runners: list[RunnerInfo]) -> None:
        capacity = Capacity(cpus=8, memory_mib=32_000)
        fact = WorkerOnline(
            worker_id=worker_id, pools=["default"], slots=SLOTS, runners=runners, capacity=capacity
        )
        self.apply(ATTEMPTS, worker_subject(worker_id), Fact(at=1, worker_online=fact))

    def submit(self, number: int, priority: int = 50) -> str:
        run_id = run_id_of(number)
        spec = RunSpec(runner="script", pool="default", command=["true"], seed=number, priority=priority)
        submitted = RunSubmitted(run_id=run_id, name=f"run-{number}", spec=spec)
        queued = RunQueued(attempt=1)
        self.apply(
            RUNS,
            run_subject(run_id),
            Fact(at=number, run_submitted=submitted),
            Fact(at=number, run_queued=queued),
        )
        return run_id

    def start(self, number: int, worker_id: str) -> str:
        run_id = run_id_of(number)
        self.claim(number, worker_id)
        started = RunStarted(attempt=1, worker_id=worker_id)
        self.apply(RUNS, run_subject(run_id), Fact(at=number, run_started=started))
        return run_id

    def claim(self, number: int, worker_id: str) -> None:
        claimed = AttemptStarted(attempt=1, worker_id=worker_id)
        self.apply(ATTEMPTS, attempts_subject(run_id_of(number)), Fact(at=number, attempt_started=claimed))
