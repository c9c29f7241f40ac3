"""Plan of a prune by the retention rules. Pure: a dry run and a prune use the same plan."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from runspine.domain.artifact.decide import hold_reason
from runspine.domain.artifact_kinds import CHECKPOINT, LOADABLE, VIDEO
from runspine.domain.retention import DEFAULT, PROJECT, RUN, RUNS_WITH, effective
from runspine.services.artifacts.core.catalog import ArtifactCatalog
from runspine.services.artifacts.core.ranking import CardSource, Ranking, age_order, best, is_good
from runspine.wire.v1.artifacts_pb2 import KEPT, UNVERIFIED, Artifact
from runspine.wire.v1.facts_pb2 import RetentionProfile

SECOND = 1_000_000
# Selects the runs of a plan.
Wanted = Callable[[CardSource, RetentionProfile], bool]


@dataclass(frozen=True, slots=True)
class PlannedPrune:
    """An artifact to prune, with the rule and its scope."""

    artifact: Artifact
    rule: str
    scope: str
    # Its aliases do not hold it.
    with_aliases: bool = False


@dataclass(slots=True)
class PrunePlan:
    """The artifacts that a prune removes, and the bytes it frees."""

    items: list[PlannedPrune] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)
    freed: int = 0

    @property
    def token(self) -> str:
        """A digest of exactly these items."""
        lines = (f"{i.artifact.run_id} {i.artifact.digest} {i.rule} {i.scope}\n" for i in self.items)
        return hashlib.sha256("".join(lines).encode()).hexdigest()[:32]


@dataclass(slots=True)
class _RunCase:
    """One run as the rules see it."""

    about: CardSource
    profile: RetentionProfile
    origin: dict[str, str]
    # Every kept and verified artifact, and the digests of those past the grace period.
    kept: list[Artifact]
    old_enough: set[str]
    # By digest: why it must stay.
    held: dict[str, str]
    # Held, or best or latest: exempt from every rule within a run.
    safe: set[str]


class Planner:
    """Plans a prune for one state of the catalog."""

    def __init__(self, catalog: ArtifactCatalog, ranking: Ranking, now: int) -> None:
        self._catalog = catalog
        self._ranking = ranking
        self._now = now
        self._needed = _needed(catalog)
        self._planned: dict[tuple[str, str], PlannedPrune] = {}
        self._notices: list[str] = []

    def plan(self, wanted: Wanted) -> PrunePlan:
        """The plan for the wanted runs; rules across runs take all runs into account."""
        cases = [self._case(run_id) for run_id in sorted(self._catalog.run_artifacts)]
        self._limit_runs(cases)
        for case in cases:
            self._limit_kind(case, VIDEO, "max_videos_per_run")
            self._limit_kind(case, CHECKPOINT, "max_checkpoints_per_run")
            self._limit_age(case)
        for rule, kind in RUNS_WITH.items():
            self._limit_runs_with(cases, kind, rule)
        self._limit_bytes(cases)
        chosen = {case.about.run_id for case in cases if wanted(case.about, case.profile)}
        items = [item for (run_id, _), item in self._planned.items() if run_id in chosen]
        items.sort(key=_listing)
        return PrunePlan(items, self._notices, self.freed(items))

    def freed(self, items: Iterable[PlannedPrune]) -> int:
        """Bytes that no run keeps once these items are pruned."""
        going = {(item.artifact.run_id, item.artifact.digest) for item in items}
        sizes = {item.artifact.digest: item.artifact.size for item in items}
        return sum(
            size
            for digest, size in sizes.items()
            if all((other.run_id, digest) in going for other in self._catalog.kept(digest))
        )

    def needed(self, artifact: Artifact) -> str:
        """Why a run that has not ended may need this artifact; empty if none does."""
        return self._needed.get((artifact.run_id, artifact.digest), "")

    def _case(self, run_id: str) -> _RunCase:
        this = self._ranking.sources[run_id]
        profile, origin = effective(self._catalog.profiles, run_id, this.project)
        entry = self._catalog.run_artifacts[run_id]
        kept = [a for a in entry.artifacts.values() if a.keeping == KEPT and a.integrity != UNVERIFIED]
        grace = profile.grace_seconds * SECOND
        held = {a.digest: why for a in kept if (why := hold_reason(entry, a) or self.needed(a))}
        standing = (self._ranking.best_of_run.get(run_id), self._ranking.latest_of_run.get(run_id))
        return _RunCase(
            about=this,
            profile=profile,
            origin=origin,
            kept=kept,
            old_enough={a.digest for a in kept if self._now - a.produced_at >= grace},
            held=held,
            safe={*held, *(a.digest for a in standing if a is not None)},
        )

    def _plan_prune(self, case: _RunCase, artifact: Artifact, rule: str, scope: str) -> bool:
        place = (artifact.run_id, artifact.digest)
        if place in self._planned or artifact.digest in case.held or artifact.digest not in case.old_enough:
            return False
        self._planned[place] = PlannedPrune(artifact, rule, scope)
        return True

    def _is_planned(self, artifact: Artifact) -> bool:
        return (artifact.run_id, artifact.digest) in self._planned

    def _limit_runs(self, cases: list[_RunCase]) -> None:
        """Keep the newest runs of each agent, and the agent's best and newest checkpoint."""
        agents: dict[tuple[str, str], list[_RunCase]] = {}
        for case in cases:
            if case.kept:
                agents.setdefault((case.about.project, case.about.agent), []).append(case)
        stay = {
            (a.run_id, a.digest)
            for group in (self._ranking.best_of_kind, self._ranking.latest_of_kind)
            for a in group.values()
        }
        for runs in agents.values():
            leader = self._best_among(runs)
            if leader is not None:
                stay.add((leader.run_id, leader.digest))
            runs.sort(key=lambda case: (case.about.begun_at, case.about.run_id), reverse=True)
            for place, case in enumerate(runs):
                limit = case.profile.max_runs_per_agent
                if not limit or place < limit or not self._catalog.has_ended(case.about.run_id):
                    continue
                for artifact in case.kept:
                    if (artifact.run_id, artifact.digest) not in stay:
                        scope = case.origin["max_runs_per_agent"]
                        self._plan_prune(case, artifact, f"max_runs_per_agent={limit}", scope)

    def _best_among(self, runs: list[_RunCase]) -> Artifact | None:
        bests = [self._ranking.best_of_run.get(case.about.run_id) for case in runs]
        return best(self._catalog, (a for a in bests if a is not None), runs[0].about.env)

    def _limit_kind(self, case: _RunCase, kind: str, rule: str) -> None:
        """Keep the newest; safe artifacts count first, so that the limit is met where possible."""
        limit = getattr(case.profile, rule)
        if not limit:
            return
        there = [a for a in case.kept if a.kind == kind and not self._is_planned(a) and is_good(a)]
        order = age_order if kind in LOADABLE else _clock
        there.sort(key=lambda a: (a.digest in case.safe, *order(a)), reverse=True)
        for artifact in there[limit:]:
            if artifact.digest not in case.safe:
                self._plan_prune(case, artifact, f"{rule}={limit}", case.origin[rule])

    def _limit_runs_with(self, cases: list[_RunCase], kind: str, rule: str) -> None:
        """Of the runs that have files of a kind, keep those of the newest, in each scope that sets the rule.

        Runs that have not ended and those with a held file count first.
        """
        scopes: dict[str, list[tuple[_RunCase, list[Artifact]]]] = {}
        for case in cases:
            files = [a for a in case.kept if a.kind == kind and not self._is_planned(a)]
            if files and getattr(case.profile, rule):
                scopes.setdefault(case.origin[rule], []).append((case, files))
        for scope, runs in scopes.items():
            runs.sort(key=self._precedence, reverse=True)
            limit = getattr(runs[0][0].profile, rule)
            for case, files in runs[limit:]:
                if not self._catalog.has_ended(case.about.run_id):
                    continue
                for artifact in files:
                    self._plan_prune(case, artifact, f"{rule}={limit}", scope)

    def _precedence(self, entry: tuple[_RunCase, list[Artifact]]) -> tuple[bool, bool, int, str]:
        case, files = entry
        running = not self._catalog.has_ended(case.about.run_id)
        held = any(artifact.digest in case.held for artifact in files)
        return running, held, case.about.begun_at, case.about.run_id

    def _limit_age(self, case: _RunCase) -> None:
        limit = case.profile.max_age_seconds
        if not limit:
            return
        for artifact in case.kept:
            if self._now - artifact.produced_at > limit * SECOND and artifact.digest not in case.safe:
                self._plan_prune(case, artifact, f"max_age={limit:g}s", case.origin["max_age_seconds"])

    def _limit_bytes(self, cases: list[_RunCase]) -> None:
        """Narrow scopes come first, so that bytes they free count for the wider ones."""
        for scope in sorted(self._catalog.profiles, key=_width):
            limit = self._catalog.profiles[scope].profile.max_bytes
            if limit:
                self._fit(scope, limit, [case for case in cases if _covers(scope, case.about)])

    def _fit(self, scope: str, limit: int, cases: list[_RunCase]) -> None:
        left = [(case, a) for case in cases for a in case.kept if not self._is_planned(a)]
        users: dict[str, int] = {}
        total = 0
        for _, artifact in left:
            if artifact.digest not in users:
                total += artifact.size
            users[artifact.digest] = users.get(artifact.digest, 0) + 1
        # Files that cannot be loaded go first, the oldest before the newest.
        left.sort(key=lambda each: (each[1].kind in LOADABLE, each[1].produced_at, each[1].digest))
        for case, artifact in left:
            if total <= limit:
                return
            if artifact.digest in case.safe or not self._plan_prune(
                case, artifact, f"max_bytes={limit}", scope
            ):
                continue
            users[artifact.digest] -= 1
            if not users[artifact.digest]:
                total -= artifact.size
        if total > limit:
            self._notices.append(
                f"{scope} keeps {total:,} bytes, more than its {limit:,}: the rest is pinned, named, "
                "best, latest, needed to resume, or within the grace period"
            )


def _listing(item: PlannedPrune) -> tuple[str, str, int, str]:
    artifact = item.artifact
    return artifact.run_id, artifact.kind, artifact.produced_at, artifact.digest


def _clock(artifact: Artifact) -> tuple[int, int, int]:
    return artifact.produced_at, artifact.attempt, artifact.step


def _width(scope: str) -> tuple[int, str]:
    return (0 if scope.startswith(RUN) else 1 if scope.startswith(PROJECT) else 2), scope


def _covers(scope: str, this: CardSource) -> bool:
    return scope in (DEFAULT, PROJECT + this.project, RUN + this.run_id)


def _needed(catalog: ArtifactCatalog) -> dict[tuple[str, str], str]:
    """Artifacts that runs under way may need: their two newest checkpoints and those they start from.

    Two, because the newest may turn out to be damaged.
    """
    found: dict[tuple[str, str], str] = {}
    for run_id, known in catalog.runs.items():
        if catalog.has_ended(run_id):
            continue
        why = f"run {run_id} has not ended"
        spec = known.run.spec
        found.update(dict.fromkeys(_newest(catalog, run_id), why))
        if spec.warm_start.run_id:
            source, digest = spec.warm_start.run_id, spec.warm_start.digest
            places = [(source, digest)] if digest else _newest(catalog, source)
            found.update(dict.fromkeys(places, why))
        for digest in (spec.evaluation.digest, spec.dataset.digest):
            for owner in catalog.owners.get(digest, ()) if digest else ():
                found[owner, digest] = why
    return found


def _newest(catalog: ArtifactCatalog, run_id: str) -> list[tuple[str, str]]:
    if run_id not in catalog.run_artifacts:
        return []
    good = [
        a for a in catalog.run_artifacts[run_id].artifacts.values() if a.kind == CHECKPOINT and is_good(a)
    ]
    return [(run_id, a.digest) for a in sorted(good, key=age_order)[-2:]]
