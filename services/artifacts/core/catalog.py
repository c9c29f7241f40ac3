"""The catalog: every artifact of every run, folded from the log. Pure; fed by the projector.

Three streams are read side by side, so nothing here may depend on which of them is ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

from runspine.artifact.evolve import apply, as_produced, describe
from runspine.log import Recorded
from runspine.log.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.retention import RETENTION, apply_rules
from runspine.run.evolve import ENDED
from runspine.run.evolve import apply as apply_run
from runspine.wire.v1.artifacts_pb2 import (
    CORRUPT,
    KEPT,
    Artifact,
    CatalogRun,
    CatalogState,
    Place,
    RunArtifacts,
    ScopedProfile,
)
from runspine.wire.v1.facts_pb2 import (
    ArtifactIndexed,
    ArtifactProduced,
    EvaluationSummary,
    Fact,
    Progress,
)
from runspine.wire.v1.run_pb2 import PHASE_UNSPECIFIED
from runspine.wire.v1.runner_pb2 import RunnerInfo


class Catalog:
    name = "artifacts"
    schema = 1
    streams: tuple[str, ...] = (RUNS, ATTEMPTS, ARTIFACTS)

    def __init__(self) -> None:
        self.runs: dict[str, CatalogRun] = {}
        self.shelves: dict[str, RunArtifacts] = {}
        # Which runs have said that these bytes are theirs.
        self.owners: dict[str, set[str]] = {}
        # Runs with something that was produced and not read yet.
        self.unread: set[str] = set()
        self.profiles: dict[str, ScopedProfile] = {}
        self.evaluations: dict[str, EvaluationSummary] = {}
        self.runners: dict[str, RunnerInfo] = {}
        # Where people's names point; the newest word on the stream counts.
        self.aliases: dict[str, tuple[str, str]] = {}
        self.actors: dict[str, tuple[str, str]] = {}
        # Grows with every fact that could change how things stand.
        self.version = 0

    def apply(self, recorded: Recorded) -> None:
        kind, _, key = recorded.subject.partition(".")
        for fact in recorded.commit.facts:
            self.version += not fact.HasField("attempt_progressed")
            if kind == "runs":
                apply_run(self._run(key).run, fact)
            elif kind == "attempts":
                self._apply_attempt(key, fact)
            elif kind == "workers" and fact.HasField("worker_online"):
                self.runners.update({info.name: info for info in fact.worker_online.runners})
            elif kind == "artifacts" and key == RETENTION:
                apply_rules(self.profiles, fact)
            elif kind == "artifacts":
                self._apply_artifact(key, fact)

    def artifacts(self) -> Iterator[Artifact]:
        for shelf in self.shelves.values():
            yield from shelf.artifacts.values()

    def get(self, run_id: str, digest: str) -> Artifact | None:
        shelf = self.shelves.get(run_id)
        return shelf.artifacts.get(digest) if shelf is not None else None

    def due(self) -> list[tuple[str, ArtifactIndexed]]:
        """What is to be read next: produced, not indexed, and not found corrupt since."""
        found = []
        for run_id in self.unread:
            for waiting in self._run(run_id).waiting:
                artifact = self.get(run_id, waiting.artifact.digest)
                corrupt = artifact is not None and artifact.integrity == CORRUPT
                if not corrupt or (artifact is not None and waiting.produced_at > artifact.checked_at):
                    found.append((run_id, waiting))
        found.sort(key=lambda each: (each[1].artifact.kind != "checkpoint", each[1].produced_at))
        return found

    def kept(self, digest: str) -> list[Artifact]:
        """Where these bytes are still kept, in whichever run, verified or not."""
        found = [self.get(run_id, digest) for run_id in self.owners.get(digest, ())]
        return [artifact for artifact in found if artifact is not None and artifact.keeping == KEPT]

    def awaited(self, digest: str) -> bool:
        """Whether a run has said that it stored these bytes, and nobody has read them since."""
        return any(
            waiting.artifact.digest == digest
            for run_id in self.owners.get(digest, ())
            for waiting in self._run(run_id).waiting
        )

    def has_ended(self, run_id: str) -> bool:
        """An import has always ended; a run that is only known from a worker has not."""
        known = self.runs.get(run_id)
        if known is None or known.run.phase == PHASE_UNSPECIFIED:
            return self.shelves[run_id].HasField("imported") if run_id in self.shelves else False
        return known.run.phase in ENDED

    def dump(self) -> bytes:
        return CatalogState(
            runs=self.shelves.values(),
            known=self.runs.values(),
            profiles=self.profiles.values(),
            evaluations=self.evaluations,
            runners=self.runners.values(),
            aliases=_places(self.aliases),
            actors=_places(self.actors),
        ).SerializeToString()

    def load(self, state: bytes) -> None:
        loaded = CatalogState.FromString(state)
        self.shelves = {shelf.run_id: shelf for shelf in loaded.runs}
        self.runs = {known.run.id: known for known in loaded.known}
        self.profiles = {each.scope: each for each in loaded.profiles}
        self.evaluations = dict(loaded.evaluations)
        self.runners = {info.name: info for info in loaded.runners}
        self.unread = {known.run.id for known in loaded.known if known.waiting}
        for artifact in self.artifacts():
            self.owners.setdefault(artifact.digest, set()).add(artifact.run_id)
        self.aliases = {name: (place.run_id, place.digest) for name, place in loaded.aliases.items()}
        self.actors = {name: (place.run_id, place.digest) for name, place in loaded.actors.items()}

    def _run(self, run_id: str) -> CatalogRun:
        if run_id not in self.runs:
            self.runs[run_id] = CatalogRun()
            self.runs[run_id].run.id = run_id
        return self.runs[run_id]

    def _shelf(self, run_id: str) -> RunArtifacts:
        if run_id not in self.shelves:
            self.shelves[run_id] = RunArtifacts(run_id=run_id)
        return self.shelves[run_id]

    def _apply_attempt(self, run_id: str, fact: Fact) -> None:
        known = self._run(run_id)
        match fact.WhichOneof("kind"):
            case "attempt_started":
                started = fact.attempt_started
                if started.HasField("resumed_from"):
                    known.starts[started.attempt].CopyFrom(started.resumed_from)
            case "attempt_progressed":
                self._hear_progress(known, fact.attempt_progressed.progress)
            case "attempt_exited":
                self._hear_progress(known, fact.attempt_exited.progress)
            case "artifact_produced":
                self._produced(run_id, fact.artifact_produced, fact.at)
                if known.HasField("mean_return"):
                    artifact = self.shelves[run_id].artifacts[fact.artifact_produced.digest]
                    artifact.return_then = known.mean_return

    def _hear_progress(self, known: CatalogRun, progress: Progress) -> None:
        if progress.HasField("mean_return"):
            known.mean_return = progress.mean_return
        if progress.HasField("evaluation") and progress.evaluation.episodes:
            said = progress.evaluation
            before = self.evaluations.get(said.digest)
            if before is None or said.episodes >= before.episodes:
                self.evaluations[said.digest] = said
                self.version += 1

    def _produced(self, run_id: str, said: ArtifactProduced, at: int) -> None:
        artifact = self._shelf(run_id).artifacts[said.digest]
        artifact.run_id = run_id
        describe(artifact, said, at)
        self.owners.setdefault(said.digest, set()).add(run_id)
        if not any(_same(said, indexed) for indexed in artifact.productions):
            self._run(run_id).waiting.append(ArtifactIndexed(artifact=said, produced_at=at))
            self.unread.add(run_id)

    def _apply_artifact(self, run_id: str, fact: Fact) -> None:
        shelf = self._shelf(run_id)
        apply(shelf, fact)
        match fact.WhichOneof("kind"):
            case "artifact_indexed":
                self._indexed(run_id, fact.artifact_indexed.artifact)
            case "artifact_corrupt":
                self.owners.setdefault(fact.artifact_corrupt.digest, set()).add(run_id)
            case "checkpoint_imported":
                self._produced(run_id, as_produced(shelf), fact.at)
            case "alias_set":
                self.aliases[fact.alias_set.alias] = (run_id, fact.alias_set.digest)
            case "alias_removed":
                if self.aliases.get(fact.alias_removed.alias, ("", ""))[0] == run_id:
                    del self.aliases[fact.alias_removed.alias]
            case "checkpoint_activated":
                self.actors[fact.checkpoint_activated.actor] = (run_id, fact.checkpoint_activated.digest)
            case "checkpoint_retired":
                if self.actors.get(fact.checkpoint_retired.actor, ("", ""))[0] == run_id:
                    del self.actors[fact.checkpoint_retired.actor]

    def _indexed(self, run_id: str, said: ArtifactProduced) -> None:
        self.owners.setdefault(said.digest, set()).add(run_id)
        known = self._run(run_id)
        left = [each for each in known.waiting if not _same(each.artifact, said)]
        del known.waiting[:]
        known.waiting.extend(left)
        if not left:
            self.unread.discard(run_id)


def _places(names: dict[str, tuple[str, str]]) -> dict[str, Place]:
    return {name: Place(run_id=run_id, digest=digest) for name, (run_id, digest) in names.items()}


def _same(one: ArtifactProduced, other: ArtifactProduced) -> bool:
    """Compared as bytes, because NaN is not equal to itself."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
