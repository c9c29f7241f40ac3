"""Detects ended episodes: by the trainer's `episode` lines, else by step flags, else by CleanRL's prints.

The sources report the same episodes, so only one of them counts. It is chosen a few seconds after the first
report, because a print may precede the line for the same episode; ended episodes are held until then. A
better source that appears later counts from then on, without the episodes that it reports again. Pure.
"""

from __future__ import annotations

import struct
from collections import OrderedDict, deque
from enum import IntEnum

from runspine.services.worker.protocol.events import StepEvent
from runspine.wire.v1.telemetry_pb2 import Array, Episode, StepBlock

HOLD_MICROS = 2_000_000
# Prints are held for longer when an env is recorded: its steps may wait in the trainer while it compiles.
RECORDED_HOLD_MICROS = 30_000_000
# Held or remembered at most; a trainer that never ends an episode must not exhaust the memory.
MAX_EPISODES = 10_000
_FORMATS = {"|b1": "?", "|i1": "b", "|u1": "B", "<i2": "h", "<u2": "H", "<i4": "i", "<u4": "I"}
_FORMATS |= {"<i8": "q", "<u8": "Q", "<f2": "e", "<f4": "f", "<f8": "d"}


# Slot, agent, episode.
Key = tuple[int, str, str]
RECENT_EPISODES = 20
# Agents whose mean returns are known apart.
MAX_AGENTS = 64
# Prefix of the ids of a trainer's own evaluation episodes.
EVALUATION_PREFIX = "eval-"


class EpisodeSource(IntEnum):
    """Sources of ended episodes; a higher value is better."""

    NONE = 0
    PRINTS = 1
    FLAGS = 2
    LINES = 3


class EpisodeTracker:
    """Chooses the source, and counts and returns ended episodes."""

    def __init__(self) -> None:
        self.count = 0
        # Of those, the ones of the training itself.
        self.trained = 0
        self.last_return: float | None = None
        # By agent: returns of agents that play against each other have no mean.
        self._recent: dict[str, deque[float]] = {}
        self._source = EpisodeSource.NONE
        self._held: dict[EpisodeSource, list[Episode]] = {}
        self._decide_at = 0
        self._ended: list[Episode] = []
        # Steps and return of open episodes, and episodes whose end was derived from flags.
        self._open: OrderedDict[Key, tuple[int, float]] = OrderedDict()
        self._derived: OrderedDict[tuple[int, str], None] = OrderedDict()
        self._prints = 0
        # Whether the trainer records an env: then its steps report the same episodes as its prints.
        self._recorded = False
        # Episodes that were counted from prints, and the time of the last.
        self._printed = 0
        self._printed_until = 0

    @property
    def mean_return(self) -> float | None:
        """Mean return of the last episodes; None before the first, and when there are several agents."""
        means = self._means()
        return next(iter(means.values())) if len(means) == 1 else None

    @property
    def agent_returns(self) -> dict[str, float]:
        """Mean return of the last episodes of each agent; empty unless there are several."""
        means = self._means()
        return means if len(means) > 1 else {}

    def _means(self) -> dict[str, float]:
        return {agent: sum(values) / len(values) for agent, values in self._recent.items()}

    @property
    def waiting(self) -> bool:
        """Whether there are episodes to take, now or when the source is chosen."""
        return bool(self._ended or self._held)

    def add_line(self, episode: Episode, at: int) -> bool:
        """Add an `episode` line. False when the end of this episode was derived from flags already."""
        if self._source == EpisodeSource.FLAGS and (episode.slot, episode.episode_id) in self._derived:
            return False
        self._offer(EpisodeSource.LINES, episode, at)
        return True

    def add_step(self, step: StepEvent, at: int) -> None:
        """Add one step; its flags may end the episode."""
        if self._source == EpisodeSource.LINES:
            return
        key = (step.slot, step.agent_id, step.episode_id)
        steps, total = self._open.get(key, (0, 0.0))
        self._update_open(key, steps + 1, total + step.reward)
        if step.flags:
            self._derive(key, step.flags, step.at, step.global_step, at)

    def add_block(self, block: StepBlock, at: int) -> None:
        """Add a block of steps; the last flags may end the episode."""
        if self._source == EpisodeSource.LINES:
            return
        key = (block.slot, block.agent_id, block.episode_id)
        steps, total = self._open.get(key, (0, 0.0))
        self._update_open(key, steps + block.count, total + _sum(block.reward))
        if flags := block.flags.rstrip(b"\0")[-1:]:
            self._derive(key, flags[0], block.last_at, block.global_step, at)

    def add_env(self) -> None:
        """An env is recorded from now on."""
        if not self._recorded and set(self._held) == {EpisodeSource.PRINTS}:
            self._decide_at += RECORDED_HOLD_MICROS - HOLD_MICROS
        self._recorded = True

    def add_print(self, step: int, value: float, length: int | None, at: int) -> None:
        """Add an episode that CleanRL printed; `length` is None when it was not printed."""
        self._prints += 1
        episode = _ended((0, "", f"print-{self._prints}"), length, value, 0, at, step)
        self._offer(EpisodeSource.PRINTS, episode, at)

    def take(self, at: int, *, final: bool = False) -> list[Episode]:
        """Episodes that ended since the last call and whose source is chosen."""
        if self._held and (final or at >= self._decide_at):
            self._decide()
        ended, self._ended = self._ended, []
        return ended

    def _update_open(self, key: Key, steps: int, total: float) -> None:
        self._open[key] = (steps, total)
        if len(self._open) > MAX_EPISODES:
            self._open.popitem(last=False)

    def _derive(self, key: Key, flags: int, ended_at: int, global_step: int, at: int) -> None:
        slot, _, episode_id = key
        steps, total = self._open.pop(key)
        self._derived[slot, episode_id] = None
        if len(self._derived) > MAX_EPISODES:
            self._derived.popitem(last=False)
        self._offer(EpisodeSource.FLAGS, _ended(key, steps, total, flags, ended_at, global_step), at)

    def _offer(self, source: EpisodeSource, episode: Episode, at: int) -> None:
        if self._source == EpisodeSource.NONE:
            if not self._held:
                patient = self._recorded and source == EpisodeSource.PRINTS
                self._decide_at = at + (RECORDED_HOLD_MICROS if patient else HOLD_MICROS)
            self._held.setdefault(source, []).append(episode)
            best = self._held[max(self._held)]
            self.count, self._recent = len(best), {}
            self.trained = 0
            for each in best:
                self._reached(each)
            if source == EpisodeSource.LINES or len(best) >= MAX_EPISODES:
                self._decide()
        elif source >= self._source:
            self._source = source
            if self._is_printed(source, episode):
                return
            self._ended.append(episode)
            self.count += 1
            self._reached(episode)

    def _is_printed(self, source: EpisodeSource, episode: Episode) -> bool:
        """Whether a better source reports late what was counted from a print."""
        if source == EpisodeSource.PRINTS:
            self._printed, self._printed_until = self._printed + 1, episode.ended_at
            return False
        if self._printed and episode.ended_at <= self._printed_until:
            self._printed -= 1
            return True
        return False

    def _reached(self, episode: Episode) -> None:
        """Count it and update the returns; the trainer's own evaluation episodes do not count."""
        if not episode.episode_id.startswith(EVALUATION_PREFIX):
            self.trained += 1
            self.last_return = _return(episode)
            agent = episode.agent_id
            if agent in self._recent or len(self._recent) < MAX_AGENTS:
                recent = self._recent.setdefault(agent, deque(maxlen=RECENT_EPISODES))
                recent.append(self.last_return)

    def _decide(self) -> None:
        self._source = max(self._held)
        self._ended += self._held[self._source]
        if self._source == EpisodeSource.PRINTS:
            self._printed, self._printed_until = len(self._ended), self._ended[-1].ended_at
        self._held = {}


def _ended(key: Key, steps: int | None, total: float, flags: int, ended_at: int, global_step: int) -> Episode:
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
