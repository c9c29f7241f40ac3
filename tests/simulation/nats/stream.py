"""What a stream of JetStream holds, and what each replica of it shows."""

from __future__ import annotations

import base64
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from runspine.eventlog import memory

NANO = 1_000_000_000
# Removed messages that are kept for replicas which lag, when a stream keeps the newest of each subject.
KEPT_REMOVED = 64
matches = lru_cache(1 << 14)(memory.matches)


@dataclass(slots=True, eq=False)
class Stored:
    """A message of a stream. `index` and `gone` are positions in the log of the replicas."""

    sequence: int
    index: int
    subject: str
    headers: dict[str, str]
    data: bytes
    at: float
    gone: int | None = None

    def visible(self, applied: int) -> bool:
        return self.index < applied and (self.gone is None or self.gone >= applied)

    @property
    def size(self) -> int:
        return len(self.data) + len(self.subject) + sum(len(k) + len(v) + 4 for k, v in self.headers.items())

    @property
    def time(self) -> str:
        return datetime.fromtimestamp(self.at, UTC).isoformat().replace("+00:00", "Z")

    def described(self, stream: str) -> dict[str, str]:
        """Its headers when it is sent outside of its subject."""
        return {
            **self.headers,
            "Nats-Stream": stream,
            "Nats-Subject": self.subject,
            "Nats-Sequence": str(self.sequence),
            "Nats-Time-Stamp": self.time,
        }

    def as_json(self) -> dict[str, Any]:
        raw = "NATS/1.0\r\n" + "".join(f"{name}: {value}\r\n" for name, value in self.headers.items())
        found = {"subject": self.subject, "seq": self.sequence, "time": self.time}
        if self.data:
            found["data"] = base64.b64encode(self.data).decode()
        if self.headers:
            found["hdrs"] = base64.b64encode(f"{raw}\r\n".encode()).decode()
        return found


@dataclass(slots=True)
class StreamStore:
    """The committed content of one stream; a replica shows it up to what it has applied."""

    config: dict[str, Any]
    last: int = 0
    committed: int = 0
    order: list[Stored] = field(default_factory=list)
    subjects: dict[str, list[Stored]] = field(default_factory=dict)
    ids: dict[str, Stored] = field(default_factory=dict)

    @property
    def window(self) -> float:
        return float(self.config.get("duplicate_window", 120 * NANO)) / NANO

    def takes(self, subject: str) -> bool:
        return any(matches(pattern, subject) for pattern in self.config["subjects"])

    def add(self, subject: str, headers: dict[str, str], data: bytes, at: float) -> Stored:
        """Commit a message."""
        self.last += 1
        stored = Stored(self.last, self.committed, subject, headers, data, at)
        self.committed += 1
        self.order.append(stored)
        of_subject = self.subjects.setdefault(subject, [])
        of_subject.append(stored)
        if message_id := headers.get("Nats-Msg-Id"):
            self.ids[message_id] = stored
        most = self.config.get("max_msgs_per_subject", -1)
        if most > 0 and len(of_subject) > most:
            of_subject[-most - 1].gone = stored.index
            self._forget(of_subject)
        return stored

    def _forget(self, of_subject: list[Stored]) -> None:
        if len(of_subject) > KEPT_REMOVED:
            del of_subject[: -KEPT_REMOVED // 2]
            kept = {id(one) for some in self.subjects.values() for one in some}
            self.order = [one for one in self.order if id(one) in kept]

    def remove(self, sequence: int) -> bool:
        """Commit a removal; False when there is no such message."""
        found = self._at(sequence)
        if found is None or found.gone is not None:
            return False
        found.gone = self.committed
        self.committed += 1
        return True

    def purge(self, before: int) -> int:
        """Commit the removal of every message before a position; how many."""
        removed = [one for one in self.order if one.sequence < before and one.gone is None]
        for one in removed:
            one.gone = self.committed
        self.committed += 1
        return len(removed)

    def _at(self, sequence: int) -> Stored | None:
        place = bisect_left(self.order, sequence, key=lambda one: one.sequence)
        found = self.order[place] if place < len(self.order) else None
        return found if found is not None and found.sequence == sequence else None

    def since(self, sequence: int, pattern: str, applied: int) -> Iterator[Stored]:
        """Messages from a position on, as a replica shows them."""
        wide = not pattern or "*" in pattern or ">" in pattern
        exact = None if wide else self.subjects.get(pattern, [])
        source = self.order if exact is None else exact
        start = bisect_left(source, sequence, key=lambda one: one.sequence)
        for place in range(start, len(source)):
            one = source[place]
            if one.index >= applied:
                return
            if one.visible(applied) and (exact is not None or not pattern or matches(pattern, one.subject)):
                yield one

    def newest(self, pattern: str, applied: int) -> Stored | None:
        """The last message of a subject or pattern, as a replica shows it."""
        if "*" in pattern or ">" in pattern:
            found = list(self.since(1, pattern, applied))
            return found[-1] if found else None
        for one in reversed(self.subjects.get(pattern, [])):
            if one.visible(applied):
                return one
        return None

    def known_id(self, message_id: str, applied: int, now: float) -> Stored | None:
        """The message that was stored under this id within the window of duplicates."""
        found = self.ids.get(message_id)
        if found is None or found.index >= applied or now - found.at > self.window:
            return None
        return found

    def state(self, applied: int) -> dict[str, Any]:
        """`state` of STREAM.INFO."""
        shown = [one for one in self.order if one.visible(applied)]
        last = max((one.sequence for one in self.order if one.index < applied), default=0)
        last = max(last, int(self.config.get("first_seq", 1)) - 1)
        return {
            "messages": len(shown),
            "bytes": sum(one.size for one in shown),
            "first_seq": shown[0].sequence if shown else last + 1 if last else 0,
            "last_seq": last,
        }

    def bytes_held(self) -> int:
        return sum(one.size for one in self.order if one.gone is None)
