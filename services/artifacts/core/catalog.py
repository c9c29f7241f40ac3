"""The catalog: a projection of every artifact of every run. Pure; the projector feeds it.

Three streams are followed independently, so nothing here may depend on which of them is ahead.
"""

from __future__ import annotations

from collections.abc import Iterator

from runspine.domain.artifact.evolve import apply, as_produced, describe
from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.domain.janitor import JANITOR, apply_term
from runspine.domain.retention import RETENTION, apply_rules
from runspine.domain.run.evolve import ENDED
from runspine.domain.run.evolve import apply as apply_run
from runspine.eventlog import Recorded
from runspine.eventlog.subjects import ARTIFACTS, ATTEMPTS, RUNS
from runspine.wire.v1.artifacts_pb2 import (
    CORRUPT,
    KEPT,
    ActivatedPlace,
    Artifact,
    CatalogRun,
    CatalogState,
    JanitorTerm,
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
from runspine.wire.v1.run_pb2 import PHASE_UNSPECIFIED, Quarantine
from runspine.wire.v1.runner_pb2 import RunnerInfo
from runspine.wire.v1.spec_pb2 import RunSpec


class ArtifactCatalog:
    """The artifacts service's projection of artifacts, runs, retention rules and names."""

    name = "artifacts"
    # 2: sums of what was pruned. 4: with the state of the chains.
    schema = 4
    streams: tuple[str, ...] = (RUNS, ATTEMPTS, ARTIFACTS)

    def __init__(self) -> None:
        self.runs: dict[str, CatalogRun] = {}
        self.run_artifacts: dict[str, RunArtifacts] = {}
        # By digest: the runs that produced or imported these bytes.
        self.owners: dict[str, set[str]] = {}
        # Runs with artifacts that were produced and not verified yet.
        self.unverified: set[str] = set()
        self.profiles: dict[str, ScopedProfile] = {}
        self.evaluations: dict[str, EvaluationSummary] = {}
        self.runners: dict[str, RunnerInfo] = {}
        # Artifacts that aliases and actors refer to; the newest fact on the stream decides. Actors are known
        # by name and env, as in their facts: the env is empty in those of earlier releases.
        self.aliases: dict[str, tuple[str, str]] = {}
        self.actors: dict[tuple[str, str], tuple[str, str]] = {}
        # Code that runs refer to: digests of trees, and of differences to commits. It is kept with its runs.
        self.code_trees: set[str] = set()
        self.code_diffs: set[str] = set()
        # Grows with every fact that can change a ranking.
        self.version = 0
        # Grows with every prune and undo, after which the janitor moves objects.
        self.prunes = 0
        self.janitor = JanitorTerm()
        self.quarantined: set[str] = set()

    def apply(self, recorded: Recorded) -> None:
        kind, _, key = recorded.subject.partition(".")
        for fact in recorded.commit.facts:
            self.version += not fact.HasField("attempt_progressed")
            if kind == "runs":
                apply_run(self._run(key).run, fact)
                if fact.HasField("run_submitted"):
                    self._refer(fact.run_submitted.spec)
            elif kind == "attempts":
                self._apply_attempt(key, fact)
            elif kind == "workers" and fact.HasField("worker_online"):
                self.runners.update({info.name: info for info in fact.worker_online.runners})
            elif kind == "artifacts" and key == RETENTION:
                apply_rules(self.profiles, fact)
            elif kind == "artifacts" and key == JANITOR:
                apply_term(self.janitor, fact)
            elif kind == "artifacts":
                self._apply_artifact(key, fact)

    def apply_quarantine(self, quarantine: Quarantine) -> None:
        """Note that a subject is quarantined, or that it was released."""
        if quarantine.released:
            self.quarantined.discard(quarantine.subject)
        else:
            self.quarantined.add(quarantine.subject)

    def artifacts(self) -> Iterator[Artifact]:
        for entry in self.run_artifacts.values():
            yield from entry.artifacts.values()

    def get(self, run_id: str, digest: str) -> Artifact | None:
        entry = self.run_artifacts.get(run_id)
        return entry.artifacts.get(digest) if entry is not None else None

    def due(self) -> list[tuple[str, ArtifactIndexed]]:
        """Artifacts to verify: produced, not indexed, and not found corrupt since."""
        found = []
        for run_id in self.unverified:
            for waiting in self._run(run_id).waiting:
                artifact = self.get(run_id, waiting.artifact.digest)
                corrupt = artifact is not None and artifact.integrity == CORRUPT
                if not corrupt or (artifact is not None and waiting.produced_at > artifact.checked_at):
                    found.append((run_id, waiting))
        found.sort(key=lambda each: (each[1].artifact.kind != CHECKPOINT, each[1].produced_at))
        return found

    def kept(self, digest: str) -> list[Artifact]:
        """The artifacts that keep these bytes, in any run, verified or not."""
        found = [self.get(run_id, digest) for run_id in self.owners.get(digest, ())]
        return [artifact for artifact in found if artifact is not None and artifact.keeping == KEPT]

    def is_unverified(self, digest: str) -> bool:
        """Whether a run has produced these bytes and they were not verified since."""
        return any(
            waiting.artifact.digest == digest
            for run_id in self.owners.get(digest, ())
            for waiting in self._run(run_id).waiting
        )

    def has_ended(self, run_id: str) -> bool:
        """An import has always ended; a run that is known only from a worker has not."""
        known = self.runs.get(run_id)
        if known is None or known.run.phase == PHASE_UNSPECIFIED:
            return self.run_artifacts[run_id].HasField("imported") if run_id in self.run_artifacts else False
        return known.run.phase in ENDED

    def dump(self) -> bytes:
        return CatalogState(
            runs=self.run_artifacts.values(),
            known=self.runs.values(),
            profiles=self.profiles.values(),
            evaluations=self.evaluations,
            runners=self.runners.values(),
            aliases=_places(self.aliases),
            activated=[
                ActivatedPlace(actor=actor, env=env, run_id=run_id, digest=digest)
                for (actor, env), (run_id, digest) in self.actors.items()
            ],
            janitor=self.janitor,
        ).SerializeToString()

    def load(self, state: bytes) -> None:
        loaded = CatalogState.FromString(state)
        self.run_artifacts = {entry.run_id: entry for entry in loaded.runs}
        self.runs = {known.run.id: known for known in loaded.known}
        self.profiles = {each.scope: each for each in loaded.profiles}
        self.evaluations = dict(loaded.evaluations)
        self.runners = {info.name: info for info in loaded.runners}
        self.unverified = {known.run.id for known in loaded.known if known.waiting}
        self.janitor = loaded.janitor
        for known in loaded.known:
            self._refer(known.run.spec)
        for artifact in self.artifacts():
            self.owners.setdefault(artifact.digest, set()).add(artifact.run_id)
        self.aliases = {name: (place.run_id, place.digest) for name, place in loaded.aliases.items()}
        self.actors = {(name, ""): (place.run_id, place.digest) for name, place in loaded.actors.items()}
        for each in loaded.activated:
            self.actors[each.actor, each.env] = (each.run_id, each.digest)

    def _refer(self, spec: RunSpec) -> None:
        code = spec.code
        self.code_trees |= {tree for tree in (code.tree, spec.packages.tree) if tree}
        if code.origin.diff:
            self.code_diffs.add(code.origin.diff)

    def _run(self, run_id: str) -> CatalogRun:
        if run_id not in self.runs:
            self.runs[run_id] = CatalogRun()
            self.runs[run_id].run.id = run_id
        return self.runs[run_id]

    def _run_artifacts(self, run_id: str) -> RunArtifacts:
        if run_id not in self.run_artifacts:
            self.run_artifacts[run_id] = RunArtifacts(run_id=run_id)
        return self.run_artifacts[run_id]

    def _apply_attempt(self, run_id: str, fact: Fact) -> None:
        known = self._run(run_id)
        match fact.WhichOneof("kind"):
            case "attempt_started":
                started = fact.attempt_started
                if started.HasField("resumed_from"):
                    known.starts[started.attempt].CopyFrom(started.resumed_from)
            case "attempt_progressed":
                self._apply_progress(known, fact.attempt_progressed.progress)
            case "attempt_exited":
                self._apply_progress(known, fact.attempt_exited.progress)
            case "artifact_produced":
                self._produced(run_id, fact.artifact_produced, fact.at)
                if known.HasField("mean_return"):
                    artifact = self.run_artifacts[run_id].artifacts[fact.artifact_produced.digest]
                    artifact.return_then = known.mean_return

    def _apply_progress(self, known: CatalogRun, progress: Progress) -> None:
        if progress.HasField("mean_return"):
            known.mean_return = progress.mean_return
        elif progress.agent_returns:
            # Several agents: no number compares their checkpoints.
            known.ClearField("mean_return")
        if progress.HasField("evaluation") and progress.evaluation.episodes:
            evaluation = progress.evaluation
            before = self.evaluations.get(evaluation.digest)
            if before is None or evaluation.episodes >= before.episodes:
                self.evaluations[evaluation.digest] = evaluation
                self.version += 1

    def _produced(self, run_id: str, produced: ArtifactProduced, at: int) -> None:
        artifact = self._run_artifacts(run_id).artifacts[produced.digest]
        artifact.run_id = run_id
        describe(artifact, produced, at)
        self.owners.setdefault(produced.digest, set()).add(run_id)
        if not any(_same(produced, indexed) for indexed in artifact.productions):
            self._run(run_id).waiting.append(ArtifactIndexed(artifact=produced, produced_at=at))
            self.unverified.add(run_id)

    def _apply_artifact(self, run_id: str, fact: Fact) -> None:
        entry = self._run_artifacts(run_id)
        apply(entry, fact)
        match fact.WhichOneof("kind"):
            case "artifact_indexed":
                self._indexed(run_id, fact.artifact_indexed.artifact)
            case "artifact_pruned" | "artifact_restored":
                self.prunes += 1
            case "artifact_corrupt":
                self.owners.setdefault(fact.artifact_corrupt.digest, set()).add(run_id)
            case "checkpoint_imported":
                self._produced(run_id, as_produced(entry), fact.at)
            case "alias_set":
                self.aliases[fact.alias_set.alias] = (run_id, fact.alias_set.digest)
            case "alias_removed":
                if self.aliases.get(fact.alias_removed.alias, ("", ""))[0] == run_id:
                    del self.aliases[fact.alias_removed.alias]
            case "checkpoint_activated":
                activated = fact.checkpoint_activated
                if self.actors.get((activated.actor, ""), ("", ""))[0] == run_id:
                    del self.actors[activated.actor, ""]  # a run has one env: this is the newer fact for it
                self.actors[activated.actor, activated.env] = (run_id, activated.digest)
            case "checkpoint_retired":
                key = (fact.checkpoint_retired.actor, fact.checkpoint_retired.env)
                if self.actors.get(key, ("", ""))[0] == run_id:
                    del self.actors[key]

    def _indexed(self, run_id: str, produced: ArtifactProduced) -> None:
        self.owners.setdefault(produced.digest, set()).add(run_id)
        known = self._run(run_id)
        left = [each for each in known.waiting if not _same(each.artifact, produced)]
        del known.waiting[:]
        known.waiting.extend(left)
        if not left:
            self.unverified.discard(run_id)


def _places(names: dict[str, tuple[str, str]]) -> dict[str, Place]:
    return {name: Place(run_id=run_id, digest=digest) for name, (run_id, digest) in names.items()}


def _same(one: ArtifactProduced, other: ArtifactProduced) -> bool:
    """Compared as bytes, because NaN is not equal to itself."""
    return one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True)
