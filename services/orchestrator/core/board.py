"""The board: a projection of runs, attempts, workers and the registry. Pure; the projector feeds it."""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Callable

from runspine.domain.run.attempts import apply_attempt, find_attempt, newest_tracking
from runspine.domain.run.evolve import ENDED, UNDERWAY, apply
from runspine.domain.run.pool import pool_of
from runspine.eventlog import Recorded
from runspine.eventlog.admission import describe
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.services.orchestrator.core.indexes.changes import Changes
from runspine.services.orchestrator.core.indexes.fleet import Fleet
from runspine.services.orchestrator.core.indexes.run_rows import RunRows
from runspine.services.orchestrator.core.indexes.wait_reasons import WaitReasons
from runspine.services.orchestrator.core.packed import PackedMessages
from runspine.services.orchestrator.core.registry import Registry
from runspine.services.orchestrator.core.wire_fields import field, fields
from runspine.wire.v1.facts_pb2 import Fact, Progress, Tracking
from runspine.wire.v1.run_pb2 import (
    QUARANTINED,
    QUEUED,
    AttemptHistory,
    Beat,
    Phase,
    Quarantine,
    RegistryState,
    Run,
    Worker,
)

MIN_PREFIX = 4
# Fields of BoardState.
RUNS_FIELD, ATTEMPTS_FIELD, WORKERS_FIELD, REGISTRY_FIELD = 1, 2, 3, 4


class Board:
    """The orchestrator's projection of runs, attempts, workers and the registry."""

    name = "orchestrator"
    # 2: with the registry, and a cursor on ARTIFACTS. 4: with the state of the chains.
    schema = 4
    streams: tuple[str, ...] = (RUNS, ATTEMPTS, ARTIFACTS)

    def __init__(self) -> None:
        # Those of runs that have ended are kept packed: what is read of them are copies.
        self.runs = PackedMessages(Run.FromString)
        self.attempts = PackedMessages(AttemptHistory.FromString)
        self.rows = RunRows()
        self.workers: dict[str, Worker] = {}
        self.registry = Registry()
        self.open: set[str] = set()
        # Runs with an attempt under way.
        self.underway: set[str] = set()
        # Runs that have not ended, by who submitted them; pools that runs were submitted to.
        self.active_by: Counter[str] = Counter()
        self.pools: set[str] = set()
        # Workers by pool, and which of them holds which run.
        self.fleet = Fleet()
        self.waits = WaitReasons()
        # Runs of which a fact or a quarantine was applied, and runs whose worker reported other progress.
        self.changed = Changes()
        self.progressed = Changes()
        self.ids: list[str] = []
        self._names: dict[str, str] = {}
        self._live: dict[str, tuple[int, Progress]] = {}
        # Runs on which no decision can be recorded now, with the reason.
        self.set_aside: dict[str, str] = {}
        # Quarantined subjects, and those of runs by run: no decision is made on these.
        self.quarantines: dict[str, Quarantine] = {}
        self.quarantined: dict[str, Quarantine] = {}

    def apply(self, recorded: Recorded) -> None:
        kind, _, key = recorded.subject.partition(".")
        if kind == "runs":
            self._apply_run(key, recorded)
        elif kind in ("attempts", "placements"):
            history = self._edited_history(key)
            for fact in recorded.commit.facts:
                apply_attempt(history, fact)
            self._put_away_ended(key)
            self._note_holder(key)
            self.changed.add(key)
        elif kind == "workers":
            for fact in recorded.commit.facts:
                self._apply_worker(key, fact)
        elif kind == "artifacts":
            for fact in recorded.commit.facts:
                self.registry.apply(key, fact)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        """Note that a subject is quarantined, or that it was released."""
        kind, _, key = quarantine.subject.partition(".")
        if quarantine.released:
            self.quarantines.pop(quarantine.subject, None)
        else:
            self.quarantines[quarantine.subject] = quarantine
        if kind in ("runs", "attempts"):
            self.changed.add(key)
            held = self.quarantines.get(f"runs.{key}") or self.quarantines.get(f"attempts.{key}")
            if held is not None:
                self.quarantined[key] = held
            else:
                self.quarantined.pop(key, None)

    def phase_of(self, run: Run) -> Phase:
        """The phase as clients see it."""
        return QUARANTINED if run.id in self.quarantined and run.phase not in ENDED else run.phase

    def listed_workers(self) -> list[Worker]:
        """Every worker as clients see it."""
        found = []
        for name in sorted(self.workers):
            worker = self.workers[name]
            if quarantine := self.quarantines.get(f"workers.{name}"):
                copy = Worker()
                copy.CopyFrom(worker)
                copy.quarantine.CopyFrom(quarantine)
                worker = copy
            found.append(worker)
        return found

    def apply_heartbeat(self, beat: Beat, stored_at: int) -> None:
        """Take over what a worker reports of itself, its attempts and the runs it could not claim."""
        worker = self.workers.get(beat.worker_id)
        if worker is not None:
            worker.last_heard = max(worker.last_heard, stored_at)
            worker.running[:] = [attempt.run_id for attempt in beat.attempts]
            if beat.HasField("machine"):
                worker.machine.CopyFrom(beat.machine)
                self.fleet.measured(worker)
            del worker.cached_datasets[:]
            worker.cached_datasets.extend(beat.cached_datasets)
        for attempt in beat.attempts:
            if attempt.run_id in self.open:
                live = (attempt.attempt, attempt.progress)
                if self._live.get(attempt.run_id) != live:
                    self._live[attempt.run_id] = live
                    self.progressed.add(attempt.run_id)
        self._apply_waiting(beat, stored_at)

    def with_wait_reasons(self, run: Run, now: int) -> Run:
        """The run as clients see it: its reason includes why no worker claimed it, or why it is set aside."""
        reasons = self.waits.of(run.id, now) if run.phase == QUEUED else {}
        notes = [run.reason] if run.reason else []
        if reasons:
            waits = "; ".join(f"{why} (worker {worker})" for worker, why in sorted(reasons.items()))
            notes.append(f"waits: {waits}")
        held = self.quarantined.get(run.id)
        if held is not None:
            notes.append(f"quarantined: {describe(held)}")
        elif why := self.set_aside.get(run.id):
            notes.append(f"set aside: {why}")
        if notes in ([], [run.reason]):
            return run
        copy = Run()
        copy.CopyFrom(run)
        copy.reason = "; ".join(notes)
        copy.phase = self.phase_of(run)
        if held is not None:
            copy.quarantine.CopyFrom(held)
        return copy

    def _apply_waiting(self, beat: Beat, stored_at: int) -> None:
        reasons = {each.run_id: each.reason for each in beat.waiting if self._is_queued(each.run_id)}
        pools = {run_id: pool_of(self.runs[run_id]) for run_id in reasons}
        self.waits.report(beat.worker_id, reasons, pools, stored_at)

    def _is_queued(self, run_id: str) -> bool:
        return run_id in self.open and self.runs[run_id].phase == QUEUED

    def claimed_by(self, run_id: str) -> str:
        """The worker that holds the run now: it has claimed its current attempt, which has not ended."""
        if run_id not in self.open:
            return ""
        run, history = self.runs[run_id], self.attempts.get(run_id)
        if history is None or run.phase in ENDED:
            return ""
        attempt = find_attempt(history, run.attempt)
        return attempt.worker_id if attempt is not None and not attempt.HasField("exited") else ""

    def _note_holder(self, run_id: str) -> None:
        self.fleet.hold(run_id, self.claimed_by(run_id))

    def progress(self, run: Run) -> Progress:
        """Progress of a run: the newest report of its current attempt."""
        live = self._live.get(run.id)
        if live is not None and live[0] == run.attempt and run.phase not in ENDED:
            return live[1]
        history = self.attempts.get(run.id)
        attempt = find_attempt(history, run.attempt) if history is not None else None
        progress = Progress(total_steps=run.spec.total_steps)
        if attempt is not None:
            progress.MergeFrom(attempt.exited.progress if attempt.HasField("exited") else attempt.progress)
        if run.phase in ENDED:
            progress.counts.CopyFrom(run.counts)
        return progress

    def tracking(self, run_id: str) -> Tracking | None:
        """The run at an experiment tracker, of the newest attempt that has one."""
        history = self.attempts.get(run_id)
        return newest_tracking(history.attempts) if history is not None else None

    def find(self, text: str) -> list[Run]:
        """Runs with this id, with an id that begins so (at most five), or with this name."""
        if text in self.runs:
            return [self.runs[text]]
        if text in self._names:
            return [self.runs[self._names[text]]]
        if len(text) < MIN_PREFIX:
            return []
        upper = text.upper()
        start = bisect_left(self.ids, upper)
        found: list[Run] = []
        while start < len(self.ids) and self.ids[start].startswith(upper) and len(found) < 5:
            found.append(self.runs[self.ids[start]])
            start += 1
        return found

    def dump(self) -> bytes:
        return self.capture()()

    def capture(self) -> Callable[[], bytes]:
        """The state as it is now. What is returned assembles it, in any thread."""
        runs, attempts = self.runs.capture(), self.attempts.capture()
        workers = [worker.SerializeToString() for worker in self.workers.values()]
        registry = self.registry.dump().SerializeToString()

        def assemble() -> bytes:
            parts = [field(RUNS_FIELD, data) for _, data in runs]
            for run_id, data in attempts:
                parts.append(field(ATTEMPTS_FIELD, field(1, run_id.encode()) + field(2, data)))
            parts.extend(field(WORKERS_FIELD, data) for data in workers)
            parts.append(field(REGISTRY_FIELD, registry))
            return b"".join(parts)

        return assemble

    def load(self, state: bytes) -> None:
        self.runs, self.attempts, self.rows = (
            PackedMessages(Run.FromString),
            PackedMessages(AttemptHistory.FromString),
            RunRows(),
        )
        self.workers, self._names, self.pools = {}, {}, set()
        self.open, self.underway, self.active_by = set(), set(), Counter()
        for number, data in fields(state):
            if number == RUNS_FIELD:
                self._load_run(data)
            elif number == ATTEMPTS_FIELD:
                entry = dict(fields(data))
                self.attempts.put_packed(entry.get(1, b"").decode(), entry.get(2, b""))
            elif number == WORKERS_FIELD:
                worker = Worker.FromString(data)
                self.workers[worker.id] = worker
            elif number == REGISTRY_FIELD:
                self.registry.load(RegistryState.FromString(data))
        self.ids = sorted(self.runs)
        self.fleet = Fleet(self.workers.values())
        for run_id in self.open:
            self.attempts.edit(run_id)
            self._note_holder(run_id)
            self.changed.add(run_id)

    def _load_run(self, data: bytes) -> None:
        run = Run.FromString(data)
        self._names[run.name] = run.id
        self.pools.add(run.spec.pool)
        self.rows.update(run)
        if run.phase in ENDED:
            self.runs.put_packed(run.id, data)
            return
        self.runs[run.id] = run
        self.open.add(run.id)
        self.active_by[run.submitted_by] += 1
        if run.phase in UNDERWAY:
            self.underway.add(run.id)

    def _apply_run(self, run_id: str, recorded: Recorded) -> None:
        run = self.runs.edit(run_id)
        if run is None:
            run = self.runs[run_id] = Run(id=run_id)
            insort(self.ids, run_id)
        for fact in recorded.commit.facts:
            apply(run, fact)
        # Everything here is found by the id of the subject, whatever the fact has.
        run.id, run.position = run_id, recorded.sequence
        self.rows.update(run)
        self._names[run.name] = run_id
        self.changed.add(run_id)
        self.pools.add(run.spec.pool)
        self.active_by[run.submitted_by] += (run.phase not in ENDED) - (run_id in self.open)
        if run.phase in ENDED:
            self.open.discard(run_id)
            self._live.pop(run_id, None)
        else:
            self.open.add(run_id)
        if run.phase in UNDERWAY:
            self.underway.add(run_id)
        else:
            self.underway.discard(run_id)
        if run.phase != QUEUED:
            self.waits.drop(run_id)
        self._note_holder(run_id)
        self._put_away_ended(run_id)

    def _edited_history(self, run_id: str) -> AttemptHistory:
        history = self.attempts.edit(run_id)
        if history is None:
            history = self.attempts[run_id] = AttemptHistory()
        return history

    def _put_away_ended(self, run_id: str) -> None:
        ended = run_id in self.runs and self.rows.phase(run_id) in ENDED
        for messages in (self.runs, self.attempts):
            if run_id in messages:
                messages.put_away(run_id) if ended else messages.keep(run_id)

    def _apply_removed_folders(self, worker_id: str, fact: Fact) -> None:
        for folder in fact.folders_removed.folders:
            if folder.run_id not in self.attempts:
                continue
            for attempt in self._edited_history(folder.run_id).attempts:
                if attempt.worker_id == worker_id:
                    attempt.folder_removed_at = attempt.folder_removed_at or fact.at
            self._put_away_ended(folder.run_id)

    def _apply_worker(self, worker_id: str, fact: Fact) -> None:
        worker = self.workers.setdefault(worker_id, Worker(id=worker_id))
        match fact.WhichOneof("kind"):
            case "worker_online":
                online = fact.worker_online
                worker.CopyFrom(
                    Worker(
                        id=worker_id,
                        host=online.host,
                        pools=online.pools,
                        slots=online.slots,
                        runners=online.runners,
                        version=online.version,
                        capacity=online.capacity,
                        sandbox=online.sandbox,
                        sandbox_missing=online.sandbox_missing,
                        machine=worker.machine if worker.HasField("machine") else None,
                        online=True,
                        since=fact.at,
                        last_heard=fact.at,
                    )
                )
                self.fleet.update(worker)
            case "worker_offline":
                worker.online = False
                worker.since = fact.at
                worker.reason = fact.worker_offline.reason
                del worker.running[:]
                self.fleet.update(worker)
            case "folders_removed":
                self._apply_removed_folders(worker_id, fact)
