"""Which episodes ended: by the trainer's own lines, else by the flags of its steps, else by its prints.

The sources tell of the same episodes, so one of them counts. Which one is decided a few seconds
after the first word, because a print may come before the line that says the same; what has ended
until then waits. A better source that shows up later counts from then on. Pure.
"""

from __future__ import annotations

import re
import struct
from collections import OrderedDict, deque
from enum import IntEnum

from runspine.wire.v1.telemetry_pb2 import Array, Episode, StepBlock
from services.worker.protocol_events import Step

HOLD_MICROS = 2_000_000
# Held or remembered at most; a trainer that never ends an episode must not fill the memory.
MOST = 10_000
_CLEANRL = re.compile(
    r"global_step=(?P<step>\d{1,18}),\s*episodic_return=\[?\s*"
    r"(?P<value>[-+]?(?:\d+\.?\d*(?:[eE][-+]?\d+)?|\.\d+|nan|inf))"
)
_FORMATS = {"|b1": "?", "|i1": "b", "|u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I"}
_FORMATS |= {"<i8": "q", "<u8": "Q", "<f2": "e", "<f4": "f", "<f8": "d"}


# Slot, agent, episode.
Key = tuple[int, str, str]
RECENT = 20
# How the ids of episodes begin in which a trainer only looks how good it is.
EVALUATION = "eval-"


class Source(IntEnum):
    """Later ones are better."""

    NONE = 0
    PRINTS = 1
    FLAGS = 2
    LINES = 3


class Episodes:
    def __init__(self) -> None:
        self.count = 0
        self.last_return: float | None = None
        self._recent: deque[float] = deque(maxlen=RECENT)
        self._source = Source.NONE
        self._held: dict[Source, list[Episode]] = {}
        self._decide_at = 0
        self._ended: list[Episode] = []
        # Steps and return so far of what has not ended, and whose end was told from flags.
        self._open: OrderedDict[Key, tuple[int, float]] = OrderedDict()
        self._derived: OrderedDict[tuple[int, str], None] = OrderedDict()
        self._prints = 0

    @property
    def mean_return(self) -> float | None:
        """Of the last few that ended; None before the first."""
        return sum(self._recent) / len(self._recent) if self._recent else None

    @property
    def waiting(self) -> bool:
        """Whether there is anything to take, now or when the source is decided."""
        return bool(self._ended or self._held)

    def said(self, episode: Episode, at: int) -> bool:
        """The trainer's own word. False when the end of this episode was told already."""
        if self._source == Source.FLAGS and (episode.slot, episode.episode_id) in self._derived:
            return False
        self._offer(Source.LINES, episode, at)
        return True

    def stepped(self, step: Step, at: int) -> None:
        if self._source == Source.LINES:
            return
        key = (step.slot, step.agent_id, step.episode_id)
        steps, total = self._open.get(key, (0, 0.0))
        self._go_on(key, steps + 1, total + step.reward)
        if step.flags:
            self._derive(key, step.flags, step.at, step.global_step, at)

    def stepped_block(self, block: StepBlock, at: int) -> None:
        if self._source == Source.LINES:
            return
        key = (block.slot, block.agent_id, block.episode_id)
        steps, total = self._open.get(key, (0, 0.0))
        self._go_on(key, steps + block.count, total + _sum(block.reward))
        if flags := block.flags.rstrip(b"\0")[-1:]:
            self._derive(key, flags[0], block.last_at, block.global_step, at)

    def printed(self, text: str, at: int) -> int:
        """Take a log line; the step it names when it is CleanRL's word on an episode, else 0."""
        found = _CLEANRL.search(text)
        if found is None:
            return 0
        step, value = int(found["step"]), float(found["value"])
        self._prints += 1
        episode = _ended((0, "", f"print-{self._prints}"), 0, value, 0, at, step)
        self._offer(Source.PRINTS, episode, at)
        return step

    def take(self, at: int, *, final: bool = False) -> list[Episode]:
        """Those that ended since the last call and whose source is decided."""
        if self._held and (final or at >= self._decide_at):
            self._decide()
        ended, self._ended = self._ended, []
        return ended

    def _go_on(self, key: Key, steps: int, total: float) -> None:
        self._open[key] = (steps, total)
        if len(self._open) > MOST:
            self._open.popitem(last=False)

    def _derive(self, key: Key, flags: int, ended_at: int, global_step: int, at: int) -> None:
        slot, _, episode_id = key
        steps, total = self._open.pop(key)
        self._derived[slot, episode_id] = None
        if len(self._derived) > MOST:
            self._derived.popitem(last=False)
        self._offer(Source.FLAGS, _ended(key, steps, total, flags, ended_at, global_step), at)

    def _offer(self, source: Source, episode: Episode, at: int) -> None:
        if self._source == Source.NONE:
            if not self._held:
                self._decide_at = at + HOLD_MICROS
            self._held.setdefault(source, []).append(episode)
            best = self._held[max(self._held)]
            self.count, self._recent = len(best), deque(maxlen=RECENT)
            for each in best:
                self._reached(each)
            if source == Source.LINES or len(best) >= MOST:
                self._decide()
        elif source >= self._source:
            self._source = source
            self._ended.append(episode)
            self.count += 1
            self._reached(episode)

    def _reached(self, episode: Episode) -> None:
        """What training has come to; the trainer's own evaluation is not part of that."""
        if not episode.episode_id.startswith(EVALUATION):
            self.last_return = _return(episode)
            self._recent.append(self.last_return)

    def _decide(self) -> None:
        self._source = max(self._held)
        self._ended += self._held[self._source]
        self._held = {}


def _ended(key: Key, steps: int, total: float, flags: int, ended_at: int, global_step: int) -> Episode:
    slot, agent_id, episode_id = key
    return Episode(
        episode_id=episode_id,
        slot=slot,
        agent_id=agent_id,
        steps=steps,
        ended_at=ended_at,
        global_step=global_step,
        flags=flags,
        **{"return": total},
    )


def _return(episode: Episode) -> float:
    value: float = getattr(episode, "return")
    return value


def _sum(column: Array) -> float:
    kind = _FORMATS.get(column.dtype)
    if kind is None:
        return float("nan")
    return float(sum(struct.unpack(f"<{len(column.data) // struct.calcsize(f'<{kind}')}{kind}", column.data)))
