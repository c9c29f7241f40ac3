"""Calls that wait to be written to the audit trail. Equal refusals become one fact with a count. Pure."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from runspine.wire.v1.facts_pb2 import REFUSED, CallRecorded, Fact

# After the first refusal of a kind, the next ones are counted for so long.
GROUP_SECONDS = 60.0
# Kinds of refusals that are counted apart; beyond it all others count as one. Strangers can choose addresses.
MAX_GROUPS = 32
# Calls of people between two writes, and while NATS is away; beyond it they are counted like refusals.
MAX_WAITING = 5_000
OTHERS = "other addresses"
MAX_LENGTHS = {"reason": 300, "target": 160, "request_id": 64, "method": 64, "peer": 64, "forwarded": 64}


@dataclass(slots=True)
class CallGroup:
    """Calls of one kind since the last fact about them."""

    call: CallRecorded
    at: int = 0
    count: int = 0
    next_write: float = 0.0


@dataclass(slots=True)
class CallGroups:
    """Groups of calls, a bounded number of them."""

    groups: dict[Hashable, CallGroup] = field(default_factory=dict)

    def add(self, key: Hashable, at: int, call: CallRecorded) -> None:
        if key not in self.groups and len(self.groups) >= MAX_GROUPS:
            key = ("others", call.outcome)
            call = CallRecorded(service=call.service, method="", peer=OTHERS, outcome=call.outcome)
        group = self.groups.setdefault(key, CallGroup(call))
        group.at = at
        group.count += 1

    def take(self, now: float) -> Iterator[Fact]:
        for key, group in list(self.groups.items()):
            if group.next_write > now:
                continue
            if not group.count:
                del self.groups[key]
                continue
            call = CallRecorded()
            call.CopyFrom(group.call)
            call.count = group.count
            group.count, group.next_write = 0, now + GROUP_SECONDS
            yield Fact(at=group.at, call_recorded=call)


class AuditBuffer:
    """Bounded whatever arrives: single calls of people up to a number, and groups."""

    def __init__(self) -> None:
        self._calls: list[Fact] = []
        self._strangers, self._people = CallGroups(), CallGroups()

    def add(self, at: int, call: CallRecorded) -> None:
        _shorten(call)
        if not call.caller and call.outcome == REFUSED:
            self._strangers.add((call.method, call.code, call.peer), at, call)
        elif call.outcome == REFUSED or len(self._calls) >= MAX_WAITING:
            self._people.add((call.caller, call.method, call.code, call.outcome), at, call)
        else:
            self._calls.append(Fact(at=at, call_recorded=call))

    def take(self, now: float) -> list[Fact]:
        """What is to be written at this time, the oldest first."""
        taken = [*self._calls, *self._strangers.take(now), *self._people.take(now)]
        self._calls = []
        return sorted(taken, key=lambda fact: fact.at)


def _shorten(call: CallRecorded) -> None:
    """Texts of strangers are bounded."""
    for name, length in MAX_LENGTHS.items():
        text = getattr(call, name)
        if len(text) > length:
            setattr(call, name, f"{text[: length - 1]}…")
