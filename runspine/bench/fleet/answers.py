"""CPU time of what the orchestrator does for each event: by its indexes, and by folds over everything."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence

from runspine.bench.fleet.boards import FilledBoard, run_id_of
from runspine.bench.fleet.whole_folds import fitting_workers, known_runners, waiting_runs
from runspine.bench.kit.figures import Report
from runspine.bench.kit.screen import Announce
from runspine.domain.run.evolve import UNDERWAY
from runspine.runners import installed_runners
from runspine.services.orchestrator.core.board import Board
from runspine.services.orchestrator.core.capacity import capacity_violations, disk_notices
from runspine.services.orchestrator.core.indexes.progress_feed import ProgressFeed
from runspine.services.orchestrator.core.indexes.queues import PoolQueues
from runspine.services.orchestrator.core.leases import Leases, LeaseTimeouts
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import AttemptBeat, Beat
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.trainer_pb2 import WatchResponse

MIN_SECONDS = 0.2
TIMEOUTS = LeaseTimeouts(15.0, 60.0)
WATCHERS = 10
SPEC = RunSpec(runner="script", pool="default", command=["true"])


def cpu_seconds(work: Callable[[], object], least: float = 0.0) -> float:
    """CPU seconds of one call, over as many as it takes to measure it."""
    began, count = time.process_time(), 0
    while True:
        work()
        count += 1
        spent = time.process_time() - began
        if spent >= (least or MIN_SECONDS):
            return spent / count


def bench_answers(workers: Sequence[int], runs: Sequence[int], announce: Announce) -> Report:
    report = Report("Work of the orchestrator by size")
    for chart, title, sizes, measure in (
        ("fleet submit", "what a submit asks of the workers", workers, measure_submit),
        ("fleet heartbeat", "a heartbeat", workers, measure_heartbeat),
        ("fleet queue", "a run that is queued, and the next offers", runs, measure_queue),
        ("fleet leases", "a second of leases", runs, measure_leases),
        ("fleet progress", f"progress for {WATCHERS} watching clients", runs, measure_watchers),
    ):
        index, fold = report.curve(chart, "index"), report.curve(chart, "fold over everything")
        for size in sizes:
            announce(f"{title}: {size:,}")
            before, after = measure(size)
            index.append((size, after))
            if before is not None:
                fold.append((size, before))
        _add(report, title, fold, index)
    return report


def _add(
    report: Report, title: str, fold: list[tuple[float, float]], index: list[tuple[float, float]]
) -> None:
    """The largest size, compared with the smallest and with the fold."""
    (small, least), (large, most) = index[0], index[-1]
    context = f"{most / least:.1f} × that at {small:,.0f}"
    if fold:
        context += f"; by a fold over everything {fold[-1][1] * 1e6:,.0f} µs: {fold[-1][1] / most:,.0f} ×"
    report.add(f"{title}, at {large:,.0f}", most * 1e6, "µs", context=context)


def measure_submit(workers: int) -> tuple[float | None, float]:
    """Runners, sizes, disks and whom to ask for a launch check."""
    board = FilledBoard(workers=workers).board
    installed = {name: runner.info() for name, runner in installed_runners().items()}

    def by_index() -> object:
        fleet = board.fleet
        fleet.catalog.known(installed)
        capacity_violations(SPEC, fleet)
        disk_notices(SPEC, fleet)
        return fleet.pool("default").that_could_launch(SPEC, 16)

    def by_fold() -> object:
        everyone = board.workers.values()
        known_runners(installed, everyone)
        known_runners(installed, everyone)
        return fitting_workers(SPEC, everyone, {})

    return cpu_seconds(by_fold), cpu_seconds(by_index)


def measure_heartbeat(workers: int) -> tuple[float | None, float]:
    """One heartbeat with two attempts, as the board takes it."""
    filled = FilledBoard(workers=workers, running=min(workers * 2, 2000))
    steps = _counted()

    def beat() -> None:
        step = next(steps)
        worker = step % min(workers, 1000)
        attempts = [
            AttemptBeat(run_id=run_id_of(number), attempt=1, progress=Progress(step=step))
            for number in (worker, worker + 1)
        ]
        filled.board.apply_heartbeat(Beat(worker_id=f"w{worker}", attempts=attempts), step)

    return None, cpu_seconds(beat)


def measure_queue(runs: int) -> tuple[float | None, float]:
    """One run more in the queue of a pool, and the first eight."""
    filled = FilledBoard(queued=runs)
    board, queues = filled.board, PoolQueues()
    changes = board.changed.reader(board.open)
    numbers = _counted(runs)

    def by_index() -> None:
        filled.submit(next(numbers))
        for run_id in changes.take():
            queues.update(board.runs[run_id], board.attempts.get(run_id), 10**15)
        queues.head("default", 8)

    def by_fold() -> None:
        filled.submit(next(numbers))
        waiting_runs((board.runs[run_id] for run_id in board.open), board.attempts, 10**15)["default"][:8]

    by_index()  # the first call takes in what is there
    return cpu_seconds(by_fold), cpu_seconds(by_index)


def measure_leases(runs: int) -> tuple[float | None, float]:
    """A second of a fleet in which each tenth run trains, with a heartbeat for each of these before."""
    board = FilledBoard(queued=runs - runs // 10, running=runs // 10).board
    leases, now = Leases(0.0), [0.0]
    for run_id in board.open:
        leases.track(board.runs[run_id], 0.0)

    def beats() -> None:
        now[0] += 1.0
        for run_id in board.underway:
            leases.record_heartbeat(run_id, 1, now[0])

    def by_index() -> None:
        beats()
        for run_id in leases.due(now[0]):
            run = board.runs[run_id]
            leases.due_command(run, now[0], 0, TIMEOUTS)
            leases.check_again(run, now[0], 1.0, TIMEOUTS)

    def by_fold() -> None:
        beats()
        for run_id in list(board.open):
            leases.due_command(board.runs[run_id], now[0], 0, TIMEOUTS)

    heartbeats = cpu_seconds(beats)
    return cpu_seconds(by_fold, 0.5) - heartbeats, max(cpu_seconds(by_index, 0.5) - heartbeats, 1e-7)


def measure_watchers(runs: int) -> tuple[float | None, float]:
    """Half a second of a fleet in which each tenth run trains, and a hundred of these have other progress."""
    running = max(runs // 10, 1)
    board = FilledBoard(queued=runs - running, running=running).board
    feed, steps = ProgressFeed(board), _counted()
    readers = [feed.open() for _ in range(WATCHERS)]
    sent: list[dict[str, bytes]] = [{} for _ in readers]

    def progress() -> int:
        step = next(steps)
        attempts = [
            AttemptBeat(run_id=run_id_of(number), attempt=1, progress=Progress(step=step))
            for number in range(min(running, 100))
        ]
        board.apply_heartbeat(Beat(worker_id="w0", attempts=attempts), step)
        return step

    def by_index() -> None:
        now = float(progress())
        for reader in readers:
            reader.newest(now)

    def by_fold() -> None:
        progress()
        for index in range(WATCHERS):
            sent[index] = dict(_progress_of_all(board))

    beats = cpu_seconds(progress)
    return cpu_seconds(by_fold) - beats, cpu_seconds(by_index) - beats


def _progress_of_all(board: Board) -> Iterator[tuple[str, bytes]]:
    for run_id in sorted(board.open):
        run = board.runs[run_id]
        if run.phase in UNDERWAY:
            response = WatchResponse(run_id=run_id, progress=board.progress(run))
            yield run_id, response.progress.SerializeToString()


def _counted(first: int = 1) -> Iterator[int]:
    return iter(range(first, 1 << 60))
