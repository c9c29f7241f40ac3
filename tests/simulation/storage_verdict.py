"""What must hold for telemetry and files at the end of a schedule, whatever went wrong in between."""

from __future__ import annotations

import hashlib
import itertools
from typing import Any

import numpy as np

from runspine.domain.run import fold
from runspine.eventlog.projection import Projector
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS, TELEMETRY
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.telemetry.core.manifest import manifest_key, unpack
from runspine.services.telemetry.edges.batches import BatchReader
from runspine.services.telemetry.edges.log_lines import LogReader
from runspine.services.telemetry.edges.manifest_chain import ArchiveCatalog
from runspine.services.telemetry.edges.run_lookup import RunLookup
from runspine.services.telemetry.edges.segment_store import SegmentStore
from runspine.services.telemetry.settings import TelemetrySettings
from runspine.storage.ranged_blobs import RangedS3Blobs
from runspine.wire.v1.artifacts_pb2 import CORRUPT, ERASED, PRUNED, Artifact
from runspine.wire.v1.facts_pb2 import LOST, Commit, Fact
from runspine.wire.v1.run_pb2 import COMPLETED, Run
from tests.model.trace import Trace, problems, traces
from tests.simulation.hosts import Hosts
from tests.simulation.precedence import check_precedence
from tests.simulation.training import Training
from tests.simulation.world import Connected, World, settings_of


class StorageVerdict:
    """Holds what trainers wrote against what is stored, and what readers are given."""

    def __init__(self, world: World, hosts: Hosts, *, archive: bool, registry: bool) -> None:
        self.world = world
        self.hosts = hosts
        self._archive = archive
        self._registry = registry

    def _facts(self, stream: str) -> list[tuple[str, Fact]]:
        group = self.world.cluster.streams.get(stream)
        return [
            (one.subject.partition(".")[2], fact)
            for one in (group.store.order if group else ())
            for fact in Commit.FromString(one.data).facts
        ]

    def _concluded(self) -> tuple[set[tuple[str, str]], set[tuple[str, str]]]:
        """Digests that are stored, and those that were given up, by run."""
        facts = self._facts(ATTEMPTS)
        stored = {
            (run, fact.artifact_produced.digest) for run, fact in facts if fact.HasField("artifact_produced")
        }
        given_up = {
            (run, fact.artifact_given_up.digest) for run, fact in facts if fact.HasField("artifact_given_up")
        }
        return stored, given_up

    def unsettled(self) -> list[str]:
        """What is still on its way."""
        left = [f"{run_id} {digest}" for run_id, digest in self._unstored()]
        if self._archive:
            left += self._unarchived()
        if self._registry:
            known = {
                artifact.artifact.digest
                for _, fact in self._facts(ARTIFACTS)
                if fact.HasField("artifact_indexed")
                for artifact in (fact.artifact_indexed,)
            }
            left += [digest for _, digest in self._concluded()[0] if digest not in known]
        return left

    def _unstored(self) -> list[tuple[str, str]]:
        """Files of trainers whose end their worker has seen, neither stored nor given up.

        What a trainer announced to a worker that was killed at that moment is made again by the next attempt,
        unless the run was cancelled.
        """
        stored, given_up = self._concluded()
        lost = {
            (run_id, fact.attempt_exited.attempt)
            for run_id, fact in self._facts(ATTEMPTS)
            if fact.attempt_exited.outcome == LOST
        }
        return [
            (training.trainer.life.run_id, digest)
            for training in self.hosts.trainings
            if training.finished and (training.trainer.life.run_id, training.trainer.life.attempt) not in lost
            for digest in training.announced
            if (training.trainer.life.run_id, digest) not in stored | given_up
        ]

    def _unarchived(self) -> list[str]:
        group = self.world.cluster.streams[TELEMETRY]
        model = self.world.s3.model
        numbers = [int(key[-12:]) for key in model.objects if key.startswith("telemetry/manifests/")]
        if not numbers:
            return ["no manifest"] if group.store.last else []
        cursor = unpack(model.objects[manifest_key(0, 1, max(numbers))].data).cursor
        return [f"archived to {cursor} of {group.store.last}"] if cursor < group.store.last else []

    async def check(self, connected: Connected, settings: dict[str, Any]) -> None:
        for run_id, digest in self._unstored():
            self.world.problem(f"a file of run {run_id} is neither stored nor given up: {digest}")
        commits = [
            (one.subject, Commit.FromString(one.data))
            for stream in (RUNS, ATTEMPTS)
            for one in self.world.cluster.streams[stream].store.order
        ]
        found = traces(commits)
        for trace in found.values():
            for each in problems(trace):
                self.world.problem(f"model: {each}")
        check_precedence(self.world, self.hosts)
        if self._archive:
            await self._check_telemetry(connected, settings, found)
        if self._registry:
            await self._check_artifacts(connected)

    # Telemetry.

    async def _check_telemetry(
        self, connected: Connected, settings: dict[str, Any], found: dict[str, Trace]
    ) -> None:
        for each in self._unarchived():
            self.world.problem(f"telemetry is not archived: {each}")
        blobs = RangedS3Blobs(settings_of(TelemetrySettings, **settings))
        catalog, store = ArchiveCatalog(blobs, 1), SegmentStore(blobs, 1 << 20)
        await catalog.check_partitions()
        batches = BatchReader(connected.link, connected.log, catalog, store, RunLookup(connected.log))
        for run_id, trace in found.items():
            run = fold(trace.runs)
            await self._check_steps(batches, run_id, run)
            await self._check_lines(LogReader(batches), run_id, run)
        for chain in catalog.chains:
            await chain.ensure_loaded()
            for (run_id, kind), segments in chain.archive.segments.items():
                for before, after in itertools.pairwise(segments):
                    if after.first <= before.last:
                        self.world.problem(f"{kind} of run {run_id}: {before.key} and {after.key} overlap")

    def _last(self, run: Run) -> Training | None:
        """The trainer of a run that was not stopped: its every step is known."""
        ended = [one for one in self.hosts.trainings if one.trainer.life.run_id == run.id and one.finished]
        last = [one for one in ended if one.trainer.life.attempt == run.attempt]
        return last[-1] if last and run.phase == COMPLETED else None

    async def _check_steps(self, batches: BatchReader, run_id: str, run: Run) -> None:
        answered: list[tuple[tuple[int, int], list[int]]] = []
        async for read in batches.read(run_id, "steps", 0, False):
            batch, actions = read.arrival.batch, []
            for block in batch.steps.blocks:
                actions += np.frombuffer(block.action.data, block.action.dtype).tolist()
            answered.append(((batch.attempt, batch.number), actions))
        # A batch that was sent again is stored, and answered, after later ones.
        if answered != sorted(answered):
            self.world.reach("telemetry.batch_stored_late")
        steps = [step for _, actions in sorted(answered) for step in actions]
        if steps != sorted(set(steps)):
            self.world.problem(f"steps of a run are doubled or out of order: {steps}")
        last = self._last(run)
        if last is not None:
            self.world.reach("telemetry.run_complete")
            if run.attempt > 1:
                self.world.reach("telemetry.run_resumed")
            if steps != list(range(last.steps)):
                self.world.problem(f"steps of a completed run: {steps} instead of {last.steps}")

    async def _check_lines(self, reader: LogReader, run_id: str, run: Run) -> None:
        by_attempt: dict[int, list[int]] = {}
        async for _, batch in reader.read(run_id, 0, False):
            for line in batch.logs.lines:
                if line.text.startswith("line "):
                    by_attempt.setdefault(batch.attempt, []).append(int(line.text.split()[1]))
        for attempt, lines in by_attempt.items():
            # What a superseded attempt had not shipped is dropped; of what it had sent, a part may be lost.
            whole = attempt == run.attempt or not self.world.reached["spool.dropped"]
            expected = list(range(len(lines))) if whole else sorted(set(lines))
            if lines != expected:
                self.world.problem(f"lines of attempt {attempt} are out of order: {lines}")
        last = self._last(run)
        if last is not None and len(by_attempt.get(run.attempt, ())) != last.lines:
            self.world.problem(f"{len(by_attempt.get(run.attempt, ()))} lines instead of {last.lines}")

    # Artifacts.

    async def _check_artifacts(self, connected: Connected) -> None:
        catalog = ArtifactCatalog()
        await Projector(connected.log, None, catalog).start()
        # Janitors are at work while the catalog is read: what they have pruned by now is not in it yet.
        pruned = {fact.artifact_pruned.digest for _, fact in self._facts(ARTIFACTS)}
        for artifact in catalog.artifacts():
            self._check_object(artifact, artifact.digest in pruned)
        for run_id, waiting in catalog.due():
            self.world.problem(f"an artifact of run {run_id} is not verified: {waiting.artifact.name}")

    def _check_object(self, artifact: Artifact, pruned: bool) -> None:
        if artifact.integrity == CORRUPT:
            self.world.problem(f"{artifact.name} is called damaged, and S3 has lost nothing: {artifact.flaw}")
        if pruned or artifact.keeping in (PRUNED, ERASED):
            self.world.reach("artifacts.pruned")
            return
        stored = self.world.s3.model.objects.get(artifact.key)
        if stored is None or hashlib.sha256(stored.data).hexdigest() != artifact.digest:
            self.world.problem(f"{artifact.name} is kept by the log, and S3 does not have its bytes")
        else:
            self.world.reach("artifacts.kept")
