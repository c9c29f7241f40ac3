"""Gathers events by kind and cuts them into numbered batches. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import Message

from runspine.services.worker.protocol.events import ConfigEvent, MetricsEvent, StepEvent
from runspine.services.worker.protocol.line_splitter import split_text
from runspine.services.worker.telemetry.assembly.columns import StepGatherer
from runspine.services.worker.telemetry.assembly.observations import Observations
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.assembly.step_payload import (
    EncodedBlock,
    encoded_blocks,
    grouped,
    step_payload,
)
from runspine.wire.v1.facts_pb2 import Counts
from runspine.wire.v1.telemetry_pb2 import (
    Batch,
    EnvBatch,
    EnvMade,
    Episode,
    EpisodeBatch,
    EvaluationBatch,
    LogBatch,
    LogLine,
    LogSource,
    MetricBatch,
    MetricBlock,
    Reset,
    Score,
    StepBlock,
)

# Last parts of the subjects telemetry.<run>.<attempt>.<kind>; a record's kind is its index here, from 1.
KINDS = ("log", "step", "episode", "metric", "env", "evaluation")
LOG, STEP, EPISODE, METRIC, ENV, EVALUATION = range(1, 7)

# A kind is cut as soon as it has about this many bytes.
CUT_BYTES = 96 << 10
# Items are packed into batches of at most this size; a single item is never twice as large.
MAX_BATCH_BYTES = 256 << 10
MAX_LINE_BYTES = 240 << 10
_LINE_OVERHEAD = 24
_POINT_BYTES = 24
_EPISODE_BYTES = 64


class Batcher:
    """Gathers the events of one attempt and numbers its batches."""

    def __init__(self, run_id: str, attempt: int, observations: Observations) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._observations = observations
        self._number = 0
        # Counts of what was cut so far.
        self.tally = Counts()
        self._sizes = dict.fromkeys((ENV, STEP, EPISODE, METRIC, EVALUATION, LOG), 0)
        self._lines: list[LogLine] = []
        self._gatherer = StepGatherer()
        self._blocks: list[EncodedBlock] = []
        self._episodes: list[Episode] = []
        self._series: dict[str, MetricBlock] = {}
        self._envs: list[EnvMade | Reset | ConfigEvent] = []
        self._scores: list[Score] = []
        self.lines = 0

    @property
    def empty(self) -> bool:
        return not any(self._sizes.values())

    def add_line(self, text: str, source: LogSource, at: int) -> None:
        for piece in split_text(text, MAX_LINE_BYTES):
            self.lines += 1
            self._lines.append(LogLine(number=self.lines, at=at, source=source, text=piece))
            self._sizes[LOG] += len(piece) + _LINE_OVERHEAD

    def add_step(self, step: StepEvent) -> None:
        self._gatherer.add(step)
        # Encoded numbers take about half of their text.
        self._sizes[STEP] += step.size >> 1

    def add_block(self, block: StepBlock) -> None:
        # Earlier steps of the same episode come first.
        self._blocks += self._gathered()
        self._observations.apply(block)
        found = encoded_blocks(block, MAX_BATCH_BYTES)
        self._blocks += found
        self._sizes[STEP] += sum(len(each.data) for each in found)

    def add_episode(self, episode: Episode) -> None:
        self._episodes.append(episode)
        self._sizes[EPISODE] += _EPISODE_BYTES + len(episode.episode_id)

    def add_metrics(self, metrics: MetricsEvent, step: int) -> None:
        for name, value in metrics.values.items():
            block = self._series.get(name)
            if block is None:
                block = self._series[name] = MetricBlock(name=name)
                self._sizes[METRIC] += len(name)
            block.values.append(value)
            block.steps.append(step)
            block.at.append(metrics.at)
        self._sizes[METRIC] += _POINT_BYTES * len(metrics.values)

    def add_env(self, event: EnvMade | Reset | ConfigEvent) -> None:
        if isinstance(event, Reset):
            self._observations.apply(event)
        self._envs.append(event)
        self._sizes[ENV] += _size(event)

    def add_score(self, score: Score) -> None:
        self._scores.append(score)
        self._sizes[EVALUATION] += score.ByteSize()

    def cut(self, *, everything: bool = False) -> list[SpoolRecord]:
        """Batches of the kinds that have enough bytes, or of all kinds."""
        records: list[SpoolRecord] = []
        for kind, size in self._sizes.items():
            if size >= CUT_BYTES or (everything and size):
                self._sizes[kind] = 0
                if kind == STEP:
                    records += self._step_records()
                else:
                    records += [self._record(kind, batch) for batch in self._batches(kind)]
        return records

    def _batches(self, kind: int) -> Iterator[Batch]:
        if kind == LOG:
            lines, self._lines = self._lines, []
            yield from (Batch(logs=LogBatch(lines=group)) for group in pack(lines))
        elif kind == EPISODE:
            episodes, self._episodes = self._episodes, []
            yield from (Batch(episodes=EpisodeBatch(episodes=group)) for group in pack(episodes))
        elif kind == METRIC:
            series, self._series = list(self._series.values()), {}
            yield from (Batch(metrics=MetricBatch(blocks=group)) for group in pack(series))
        elif kind == EVALUATION:
            scores, self._scores = self._scores, []
            yield from (Batch(evaluations=EvaluationBatch(scores=group)) for group in pack(scores))
        else:
            envs, self._envs = self._envs, []
            yield from (Batch(envs=_env_batch(group)) for group in pack(envs))

    def _gathered(self) -> Iterator[EncodedBlock]:
        for block in self._gatherer.take():
            self._observations.apply(block)
            yield from encoded_blocks(block, MAX_BATCH_BYTES)

    def _step_records(self) -> Iterator[SpoolRecord]:
        blocks, self._blocks = [*self._blocks, *self._gathered()], []
        for group in grouped(blocks, MAX_BATCH_BYTES):
            self._number += 1
            head = Batch(run_id=self._run_id, attempt=self._attempt, number=self._number)
            payload = step_payload(head, self.tally.steps, group)
            self.tally.steps += sum(each.steps for each in group)
            yield SpoolRecord(self._number, STEP, payload)

    def _record(self, kind: int, batch: Batch) -> SpoolRecord:
        self._number += 1
        batch.run_id, batch.attempt, batch.number = self._run_id, self._attempt, self._number
        count_batch(self.tally, batch)
        return SpoolRecord(self._number, kind, batch.SerializeToString())


def count_batch(counts: Counts, batch: Batch) -> None:
    """Add the contents of a batch to the counts."""
    counts.steps += sum(block.count for block in batch.steps.blocks)
    counts.episodes += len(batch.episodes.episodes)
    counts.metrics += sum(len(block.values) for block in batch.metrics.blocks)
    counts.log_lines += len(batch.logs.lines)


def _env_batch(events: Sequence[EnvMade | Reset | ConfigEvent]) -> EnvBatch:
    return EnvBatch(
        made=[each for each in events if isinstance(each, EnvMade)],
        resets=[each for each in events if isinstance(each, Reset)],
        configs=[each.text for each in events if isinstance(each, ConfigEvent)],
    )


def _size(item: Message | ConfigEvent) -> int:
    return len(item.text) if isinstance(item, ConfigEvent) else item.ByteSize()


T = TypeVar("T", bound=Message | ConfigEvent)


def pack(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, in groups that fit into a batch."""
    group: list[T] = []
    total = 0
    for item in items:
        size = _size(item) + 8
        if group and total + size > MAX_BATCH_BYTES:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
