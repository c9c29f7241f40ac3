"""What the histories must agree on, whatever was done to the processes. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import Commit
from runspine.wire.v1.run_pb2 import CANCELLED, COMPLETED, FAILED, Phase

ENDINGS = {"run_completed": COMPLETED, "run_failed": FAILED, "run_cancelled": CANCELLED}


@dataclass(frozen=True, slots=True)
class Asked:
    """A run whose acceptance the client received, and how it may end."""

    run_id: str
    steps: int
    ends: frozenset[int]


@dataclass(slots=True)
class Verdict:
    """Counts of what must not be, with the first examples."""

    lost_facts: int = 0
    lost_runs: int = 0
    misstated: int = 0
    executed_at_once: int = 0
    lost_steps: int = 0
    doubled_steps: int = 0
    never_stored: int = 0
    unreadable: int = 0
    unseen_damage: int = 0
    examples: list[str] = field(default_factory=list)

    def blame(self, what: str, example: str, count: int = 1) -> None:
        setattr(self, what, getattr(self, what) + count)
        if len(self.examples) < 20:
            self.examples.append(f"{what}: {example}")

    @property
    def clean(self) -> bool:
        return not self.examples


def check_ends(verdict: Verdict, asked: Iterable[Asked], log: Iterable[tuple[str, Commit]]) -> None:
    """Each accepted run has exactly one ending on the log, and it is the true one."""
    endings: dict[str, list[int]] = {}
    for subject, commit in log:
        for fact in commit.facts:
            if (kind := fact.WhichOneof("kind")) in ENDINGS:
                endings.setdefault(subject.partition(".")[2], []).append(ENDINGS[kind])
    for run in asked:
        found = endings.get(run.run_id, [])
        if not found:
            verdict.blame("lost_runs", f"{run.run_id} has no ending")
        elif len(found) > 1 or found[0] not in run.ends:
            words = [Phase.Name(end) for end in found]  # type: ignore[arg-type]
            verdict.blame("misstated", f"{run.run_id} ended {words}")


def check_acknowledged(
    verdict: Verdict, asked: Iterable[str], cancelled: Iterable[str], log: Iterable[tuple[str, Commit]]
) -> None:
    """What a client received as done is on the log: a run that was accepted, a cancel that was taken."""
    kinds: dict[str, set[str]] = {}
    for subject, commit in log:
        emitted = {str(fact.WhichOneof("kind")) for fact in commit.facts}
        kinds.setdefault(subject.partition(".")[2], set()).update(emitted)
    for run_id in asked:
        if "run_submitted" not in kinds.get(run_id, ()):
            verdict.blame("lost_facts", f"{run_id} was accepted and is not on the log")
    for run_id in cancelled:
        if not kinds.get(run_id, set()) & {"run_cancel_requested", *ENDINGS}:
            verdict.blame("lost_facts", f"the cancel of {run_id} was accepted and is not on the log")


Excuse = Callable[[str, int, float], bool]


def check_ledger(verdict: Verdict, lines: Iterable[str], excused: Excuse = lambda *_: False) -> None:
    """No attempt was begun twice, and none lived on when the next one had begun.

    `excused(run, attempt, at)`: its worker was unreachable then. Such a worker trains on, what it
    brings back is ignored, and that is checked on the steps.
    """
    begun: Counter[tuple[str, int]] = Counter()
    begin: dict[tuple[str, int], float] = {}
    last: dict[tuple[str, int], float] = {}
    for line in lines:
        run_id, attempt, at, what = line.split()
        if what == "begin":
            begun[run_id, int(attempt)] += 1
            begin[run_id, int(attempt)] = float(at)
        last[run_id, int(attempt)] = float(at)
    for (name, number), count in begun.items():
        if count > 1:
            verdict.blame("executed_at_once", f"{name} attempt {number} was begun {count} times")
    for (name, number), lived in last.items():
        later = begin.get((name, number + 1))
        if later is not None and later < lived and not excused(name, number, later):
            late = lived - later
            verdict.blame("executed_at_once", f"{name}: attempt {number} overlapped the next by {late:.1f} s")


def check_steps(verdict: Verdict, run: Asked, found: Mapping[int, int]) -> None:
    """`found` counts how often each step, by its own number, is in the answer."""
    lost = [step for step in range(run.steps) if step not in found]
    doubled = [step for step, count in found.items() if count > 1]
    if lost:
        verdict.blame("lost_steps", f"{run.run_id}: {len(lost)} of {run.steps}, first {lost[0]}", len(lost))
    if doubled:
        verdict.blame("doubled_steps", f"{run.run_id}: {len(doubled)}, first {doubled[0]}", len(doubled))


def check_artifacts(
    verdict: Verdict, found_problems: Mapping[str, str], flipped: Collection[str], whole: Collection[str]
) -> None:
    """`found_problems` by digest as the service reports them; `flipped` was damaged, `whole` reads well.

    Damage that was done must be named, unless the object was stored again; and there is no other.
    """
    for digest, problem in found_problems.items():
        if digest not in flipped:
            verdict.blame("unreadable", problem)
    for digest in flipped:
        if digest not in found_problems and digest not in whole:
            verdict.blame("unseen_damage", f"{digest} has a flipped bit that is not reported")
