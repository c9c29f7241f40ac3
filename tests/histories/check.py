"""Checks a history run by run and key by key: each is small, so 100,000 calls take seconds. Pure.

What replies promise (docs/consistency.md): writes are linearizable; a session sees its own writes and never
goes back; reads may lag behind other sessions. `linearizable=True` asks more of Get and List.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.histories import key_model, run_model
from tests.histories.calls import Call
from tests.histories.linearizability import Search
from tests.histories.timeline import timeline

Fits = Callable[[list[Call]], bool]


@dataclass(frozen=True, slots=True)
class Contradiction:
    """Calls about one run or one key that no order explains, as few as show it."""

    about: str
    calls: list[Call]

    def __str__(self) -> str:
        picture = timeline(self.calls, self.about)
        return f"{self.about}: no order of these calls explains what they showed\n{picture}"


@dataclass(slots=True)
class Report:
    """How much was checked, and what cannot be."""

    calls: int = 0
    runs: int = 0
    keys: int = 0
    contradictions: list[Contradiction] = field(default_factory=list)


def check(calls: Iterable[Call], *, linearizable: bool = False) -> Report:
    history = [
        call for call in calls if call.outcome != "failed" and (call.is_write or call.outcome != "unknown")
    ]
    by_key = _by_key(history)
    by_run = _by_run(history, by_key)
    report = Report(len(history), len(by_run), len(by_key))

    def fresh(call: Call) -> bool:
        return call.is_write or (linearizable and call.operation != "watch")

    for key, some in by_key.items():
        about = f"key {key}"
        search = _searching(about, key_model.step, None, lambda call: call.is_write)
        _add(report, about, some, search)
    for run_id, some in by_run.items():
        _add(report, run_id, some, _searching(run_id, run_model.step, None, fresh))
    return report


def _searching(
    name: str, step: Callable[..., Iterable[object]], initial: object, fresh: Callable[[Call], bool]
) -> Fits:
    return lambda calls: Search(calls, name, step, fresh).fits(initial)


def _add(report: Report, about: str, calls: list[Call], fits: Fits) -> None:
    if not fits(calls):
        report.contradictions.append(Contradiction(about, smallest(calls, fits)))


def smallest(calls: list[Call], fits: Fits) -> list[Call]:
    """As few calls as still contradict each other: those up to the first contradiction, without idle reads.

    A write that had not ended by then is kept as unanswered.
    """
    ordered = sorted(calls, key=lambda call: call.end)
    low, high = 0, len(ordered)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(_until(ordered, middle)) else (low, middle)
    kept = _until(ordered, high)
    for call in [call for call in kept if not call.is_write]:
        fewer = [each for each in kept if each is not call]
        if not fits(fewer):
            kept = fewer
    return [
        call
        for call in kept
        if call.outcome != "unknown" or not fits([each for each in kept if each is not call])
    ]


def _until(ordered: list[Call], count: int) -> list[Call]:
    """The first so many to end; a write that began before the last of them ended may have happened."""
    if not count:
        return []
    last = ordered[count - 1].end
    from_later = [
        Call(call.session, call.operation, call.start, call.end, "unknown", call.run_id, call.key, call.given)
        for call in ordered[count:]
        if call.is_write and call.start <= last and call.outcome in ("ok", "unknown")
    ]
    return ordered[:count] + from_later


def _by_key(history: list[Call]) -> dict[str, list[Call]]:
    found: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history:
        if call.operation == "submit" and call.key and call.outcome in ("ok", "unknown"):
            found[call.key].append(call)
    return found


def _by_run(history: list[Call], by_key: dict[str, list[Call]]) -> dict[str, list[Call]]:
    """A submit without a reply belongs to the run that its key turned out to be.

    When no call of the key was answered, it may be any run that was seen and no submit was answered with.
    """
    found: defaultdict[str, list[Call]] = defaultdict(list)
    for call in history:
        for run_id in call.seen or ([call.run_id] if call.run_id else []):
            found[run_id].append(call)
    for some in by_key.values():
        runs = {run_id for call in some for run_id in call.seen}
        for call in some:
            if call.outcome == "unknown":
                for run_id in runs:
                    found[run_id].append(call)
    unanswered = [call for some in by_key.values() if not any(each.seen for each in some) for call in some]
    for some in found.values():
        if not any(call.operation == "submit" for call in some):
            first = min(call.end for call in some)
            some += [call for call in unanswered if call.start <= first]
    return found
