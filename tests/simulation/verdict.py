"""What must hold after a schedule of the control plane, whatever happened in it."""

from __future__ import annotations

import itertools
from dataclasses import replace

from runspine.domain.run import fold
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.reads import DIGEST
from runspine.eventlog.subjects import ATTEMPTS, RUNS, run_subject
from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import Phase
from tests.histories.calls import Call
from tests.histories.check import check
from tests.model.trace import ENDINGS, Trace, problems, traces
from tests.simulation.hosts import Hosts, Life
from tests.simulation.world import World


class Verdict:
    """Holds the log, the calls of clients and the lives of trainers against each other."""

    def __init__(self, world: World, hosts: Hosts, calls: list[Call], lease: float) -> None:
        self.lease = lease
        self.world = world
        self.hosts = hosts
        self.calls = calls
        self.commits = [
            (one.subject, Commit.FromString(one.data))
            for stream in (RUNS, ATTEMPTS)
            for one in world.cluster.streams[stream].store.order
        ]
        self.traces = traces(self.commits)

    def check(self) -> None:
        for stream in (RUNS, ATTEMPTS):
            self._whole(stream)
        for run_id, trace in self.traces.items():
            for found in problems(trace):
                self.world.problem(f"model: {found}")
            self._ending(run_id, trace)
        self._keys()
        self._calls()
        self._lives()

    def check_undisturbed(self) -> None:
        """Nothing but heartbeats was held up: no run is stale or given up."""
        self.world.reach("beats.held_up")
        for trace in self.traces.values():
            for fact in trace.runs:
                if fact.HasField("run_went_stale") or fact.run_requeued.lost:
                    self.world.problem(f"heartbeats were not stored, and a run paid for it: {fact}".strip())

    def _whole(self, stream: str) -> None:
        verifier = ChainVerifier(stream)
        for one in self.world.cluster.streams[stream].store.order:
            verifier.feed(one.sequence, one.subject, one.data, bytes.fromhex(one.headers.get(DIGEST, "")))
        for found in verifier.finish(0):
            self.world.problem(f"chain: {found}")

    def _ending(self, run_id: str, trace: Trace) -> None:
        """One ending, and the one that its trainer's exit or its cancel gives."""
        endings = [kind for fact in trace.runs if (kind := fact.WhichOneof("kind")) in ENDINGS]
        if len(endings) != 1:
            self.world.problem(f"a run has {len(endings)} endings")
            return
        run = fold(trace.runs)
        lives = [life for life in self.hosts.lives if life.run_id == run_id]
        last = [life for life in lives if life.attempt == run.attempt and life.exit is not None]
        clean = any(life.exit is not None and life.exit.exit_code == life.exit.signal == 0 for life in last)
        if endings[0] == "run_completed" and not clean:
            self.world.problem("a run is COMPLETED and its trainer did not exit cleanly")
        self.world.reach(f"run.{Phase.Name(run.phase)}")
        if run.attempt > 1:
            self.world.reach("run.more_than_one_attempt")

    def _keys(self) -> None:
        """A key stands for one run, and every run with a key is that of its key."""
        by_key: dict[str, set[str]] = {}
        for trace in self.traces.values():
            for fact in trace.runs:
                if fact.HasField("run_submitted") and fact.run_submitted.idempotency_key:
                    run_id = fact.run_submitted.run_id
                    by_key.setdefault(fact.run_submitted.idempotency_key, set()).add(run_id)
        for key, runs in by_key.items():
            if len(runs) > 1:
                self.world.problem(f"{key} stands for {len(runs)} runs")

    def _calls(self) -> None:
        """What clients were shown has an order, and no acknowledged submit is lost."""
        report = check(self._certain(call) for call in self.calls)
        for found in report.contradictions:
            self.world.problem(f"history: {found}")
        for call in self.calls:
            self.world.reach(f"call.{call.operation}.{call.outcome}")
            for run_id in call.seen:
                if run_id not in self.traces:
                    self.world.problem(f"a client was shown run {run_id}, which is not on the log")

    def _certain(self, call: Call) -> Call:
        """What a call proves. While a deposed leader answers from its past, a write that changes nothing
        may show an older state (docs/consistency.md): whether this one changed anything, nobody knows."""
        subject = run_subject(call.run_id)
        old = any(of == subject and call.start <= at <= call.end for at, of in self.world.cluster.old_answers)
        if not old or not call.is_write or call.outcome not in ("ok", "missing", "refused"):
            return call
        self.world.reach("call.answered_from_the_past")
        return replace(call, outcome="unknown" if call.outcome == "ok" else "failed", seen={})

    def _lives(self) -> None:
        """Attempts of a run execute one at a time, each once."""
        by_run: dict[str, list[Life]] = {}
        for life in self.hosts.lives:
            by_run.setdefault(life.run_id, []).append(life)
        for lives in by_run.values():
            lives.sort(key=lambda life: life.start)
            for before, after in itertools.pairwise(lives):
                if before.attempt == after.attempt:
                    self.world.problem(f"executed twice: {before}, {after}")
                if (before.end is None or before.end > after.start) and not self._was_away(before, after):
                    self.world.problem(f"executed at once: {before}, {after}")

    def _was_away(self, before: Life, after: Life) -> bool:
        """A worker that was down or frozen for longer than its lease cannot end its trainer; it is fenced."""
        for name, start, end in self.world.away:
            if name == before.worker and end - start > self.lease and start < after.start < end + 5.0:
                self.world.reach("worker.fenced_while_away")
                return True
        return False
