"""Compares the telemetry of two runs step by step and bit by bit. Pure."""

from __future__ import annotations

import itertools
import re
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

from runspine.wire.v1.telemetry_pb2 import Array, MetricBlock, StepBlock

# Series that measure time or the machine: they differ between any two runs.
_TIMED = re.compile(
    r"\Asystem/|(?:\A|[/_.-])(?:sps|fps|time|seconds|duration|elapsed|speed)(?:[/_.-]|\Z)", re.IGNORECASE
)
# Parts of a step, in the order in which a difference is reported.
PARTS = ("episode", "step in the episode", "action", "reward", "end", "observation")


class StepDivergence(NamedTuple):
    """The first place at which two runs differ."""

    # A slot with its agent, or a series.
    where: str
    # Number of the step in the slot from 0, or the step of the series' point.
    step: int
    part: str
    first: str
    second: str


@dataclass(slots=True)
class RunTelemetry:
    """Steps and metrics of one attempt."""

    steps: dict[tuple[int, str], list[StepBlock]] = field(default_factory=dict)
    metrics: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    step_count: int = 0

    def add_steps(self, blocks: Sequence[StepBlock]) -> None:
        for block in blocks:
            self.steps.setdefault((block.slot, block.agent_id), []).append(block)
            self.step_count += block.count

    def add_metrics(self, blocks: Sequence[MetricBlock]) -> None:
        for block in blocks:
            if not is_timed(block.name):
                self.metrics.setdefault(block.name, []).extend(zip(block.steps, block.values, strict=False))

    @property
    def point_count(self) -> int:
        return sum(map(len, self.metrics.values()))


@dataclass(frozen=True, slots=True)
class TelemetryVerdict:
    """Whether two runs are the same, how much was compared, and where they first differ."""

    steps: int
    points: int
    divergence: StepDivergence | None

    @property
    def compared(self) -> bool:
        return bool(self.steps or self.points)

    @property
    def identical(self) -> bool:
        return self.compared and self.divergence is None


def is_timed(name: str) -> bool:
    """Whether a series measures time or the machine."""
    return bool(_TIMED.search(name))


def compare_telemetry(first: RunTelemetry, second: RunTelemetry) -> TelemetryVerdict:
    """Compare all steps, then all series; of several differences the one at the earliest step counts."""
    found = [*_step_divergences(first, second)] or [*_metric_divergences(first, second)]
    earliest = min(found, key=lambda each: each.step, default=None)
    steps = max(first.step_count, second.step_count)
    return TelemetryVerdict(steps, max(first.point_count, second.point_count), earliest)


def _step_divergences(first: RunTelemetry, second: RunTelemetry) -> Iterator[StepDivergence]:
    for key in sorted({*first.steps, *second.steps}):
        where = f"slot {key[0]}" + (f", agent {key[1]}" if key[1] else "")
        pairs = itertools.zip_longest(_rows(first.steps.get(key, [])), _rows(second.steps.get(key, [])))
        for number, (one, two) in enumerate(pairs):
            if one == two:
                continue
            if one is None or two is None:
                yield StepDivergence(where, number, "length", _presence(one), _presence(two))
            else:
                part = next(
                    index for index, pair in enumerate(zip(one, two, strict=True)) if pair[0] != pair[1]
                )
                yield StepDivergence(where, number, PARTS[part], _shown(one[part]), _shown(two[part]))
            break


def _metric_divergences(first: RunTelemetry, second: RunTelemetry) -> Iterator[StepDivergence]:
    for name in sorted({*first.metrics, *second.metrics}):
        pairs = itertools.zip_longest(first.metrics.get(name, []), second.metrics.get(name, []))
        for one, two in pairs:
            if one is None or two is None:
                there = one or two or (0, 0.0)
                yield StepDivergence(f"series {name}", there[0], "length", _presence(one), _presence(two))
                break
            if one[0] != two[0] or struct.pack("<d", one[1]) != struct.pack("<d", two[1]):
                yield StepDivergence(
                    f"series {name}", min(one[0], two[0]), "value", repr(one[1]), repr(two[1])
                )
                break


Row = tuple[object, ...]


def _rows(blocks: Sequence[StepBlock]) -> Iterator[Row]:
    """Steps one by one, whatever blocks they came in. Ids of episodes may be random: their order counts."""
    episode, last = -1, None
    for block in blocks:
        if block.episode_id != last:
            episode, last = episode + 1, block.episode_id
        actions, rewards = _cells(block.action, block.count), _cells(block.reward, block.count)
        seen = _cells(block.observation, block.count)
        for index in range(block.count):
            action = block.action_json[index] if index < len(block.action_json) else actions(index)
            observation: object = seen(index) or block.observation_hash[8 * index : 8 * index + 8]
            if index < len(block.observation_json):
                observation = block.observation_json[index]
            flags = block.flags[index : index + 1]
            yield episode, block.first_step + index, action, rewards(index), flags, observation


def _cells(array: Array, count: int) -> _Cells:
    return _Cells(array.dtype, array.data, len(array.data) // count if count else 0)


class _Cells:
    """The bytes of each row of a column; a call returns one."""

    def __init__(self, dtype: str, data: bytes, size: int) -> None:
        self._dtype, self._data, self._size = dtype, data, size

    def __call__(self, index: int) -> tuple[str, bytes] | None:
        if not self._size:
            return None
        return self._dtype, self._data[index * self._size : (index + 1) * self._size]


def _presence(row: object) -> str:
    return "no more" if row is None else "goes on"


_FORMATS = {"<f4": "f", "<f8": "d", "<i4": "i", "<i8": "q", "|u1": "B", "<u8": "Q", "<u4": "I", "|i1": "b"}


def _shown(value: object) -> str:
    """A part of a step for people."""
    if isinstance(value, tuple) and len(value) == 2 and isinstance(value[1], bytes):
        form = _FORMATS.get(str(value[0]))
        if form and len(value[1]) % struct.calcsize(form) == 0:
            numbers = [each[0] for each in struct.iter_unpack(f"<{form}", value[1])]
            return repr(numbers[0] if len(numbers) == 1 else numbers)[:200]
        return value[1].hex()[:200]
    return value.hex() if isinstance(value, bytes) else repr(value)[:200]
