"""Events into numbered batches: each kind gathered apart, cut when there is enough or it is time. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TypeVar

from google.protobuf.message import Message

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
    StepBatch,
    StepBlock,
)
from services.worker.columns import StepGatherer, pieces_of
from services.worker.lines import pieces
from services.worker.observations import Observations
from services.worker.protocol_events import Config, Metrics, Step
from services.worker.spool import Record

# Last parts of the subjects telemetry.<run>.<attempt>.<kind>; a record's kind is its place here, from 1.
KINDS = ("log", "step", "episode", "metric", "env", "evaluation")
LOG, STEP, EPISODE, METRIC, ENV, EVALUATION = range(1, 7)

# A kind is cut as soon as it has about this much.
ENOUGH_BYTES = 40 << 10
# What is cut together is packed into batches of at most this; one item alone is never twice as large.
BATCH_BYTES = 256 << 10
LINE_BYTES = 240 << 10
_LINE_OVERHEAD = 24
_POINT_BYTES = 24
_EPISODE_BYTES = 64


class Batcher:
    """The one numberer of an attempt's batches."""

    def __init__(self, run_id: str, attempt: int, observations: Observations) -> None:
        self._run_id = run_id
        self._attempt = attempt
        self._observations = observations
        self._number = 0
        # What was cut so far.
        self.tally = Counts()
        self._sizes = dict.fromkeys((ENV, STEP, EPISODE, METRIC, EVALUATION, LOG), 0)
        self._lines: list[LogLine] = []
        self._gatherer = StepGatherer()
        self._blocks: list[StepBlock] = []
        self._episodes: list[Episode] = []
        self._series: dict[str, MetricBlock] = {}
        self._envs: list[EnvMade | Reset | Config] = []
        self._scores: list[Score] = []
        self.lines = 0

    @property
    def empty(self) -> bool:
        return not any(self._sizes.values())

    def add_line(self, text: str, source: LogSource, at: int) -> None:
        for piece in pieces(text, LINE_BYTES):
            self.lines += 1
            self._lines.append(LogLine(number=self.lines, at=at, source=source, text=piece))
            self._sizes[LOG] += len(piece) + _LINE_OVERHEAD

    def add_step(self, step: Step) -> None:
        self._gatherer.add(step)
        # Numbers take about half of what their text takes.
        self._sizes[STEP] += step.size >> 1

    def add_block(self, block: StepBlock) -> None:
        # What was said before of the same episode comes before.
        self._blocks += self._gathered()
        self._observations.apply(block)
        self._blocks.append(block)
        self._sizes[STEP] += block.ByteSize()

    def add_episode(self, episode: Episode) -> None:
        self._episodes.append(episode)
        self._sizes[EPISODE] += _EPISODE_BYTES + len(episode.episode_id)

    def add_metrics(self, metrics: Metrics, step: int) -> None:
        for name, value in metrics.values.items():
            block = self._series.get(name)
            if block is None:
                block = self._series[name] = MetricBlock(name=name)
                self._sizes[METRIC] += len(name)
            block.values.append(value)
            block.steps.append(step)
            block.at.append(metrics.at)
        self._sizes[METRIC] += _POINT_BYTES * len(metrics.values)

    def add_env(self, said: EnvMade | Reset | Config) -> None:
        if isinstance(said, Reset):
            self._observations.apply(said)
        self._envs.append(said)
        self._sizes[ENV] += _size(said)

    def add_score(self, score: Score) -> None:
        self._scores.append(score)
        self._sizes[EVALUATION] += score.ByteSize()

    def cut(self, *, everything: bool = False) -> list[Record]:
        """Batches of the kinds that have enough, or of all that was gathered."""
        records: list[Record] = []
        for kind, size in self._sizes.items():
            if size >= ENOUGH_BYTES or (everything and size):
                self._sizes[kind] = 0
                records += [self._record(kind, batch) for batch in self._batches(kind)]
        return records

    def _batches(self, kind: int) -> Iterator[Batch]:
        if kind == LOG:
            lines, self._lines = self._lines, []
            yield from (Batch(logs=LogBatch(lines=group)) for group in packed(lines))
        elif kind == STEP:
            blocks, self._blocks = [*self._blocks, *self._gathered()], []
            parts = [piece for block in blocks for piece in pieces_of(block, BATCH_BYTES)]
            yield from (Batch(steps=StepBatch(blocks=group)) for group in packed(parts))
        elif kind == EPISODE:
            episodes, self._episodes = self._episodes, []
            yield from (Batch(episodes=EpisodeBatch(episodes=group)) for group in packed(episodes))
        elif kind == METRIC:
            series, self._series = list(self._series.values()), {}
            yield from (Batch(metrics=MetricBatch(blocks=group)) for group in packed(series))
        elif kind == EVALUATION:
            scores, self._scores = self._scores, []
            yield from (Batch(evaluations=EvaluationBatch(scores=group)) for group in packed(scores))
        else:
            envs, self._envs = self._envs, []
            yield from (Batch(envs=_env_batch(group)) for group in packed(envs))

    def _gathered(self) -> list[StepBlock]:
        blocks = self._gatherer.take()
        for block in blocks:
            self._observations.apply(block)
        return blocks

    def _record(self, kind: int, batch: Batch) -> Record:
        self._number += 1
        batch.run_id, batch.attempt, batch.number = self._run_id, self._attempt, self._number
        count_batch(self.tally, batch)
        return Record(self._number, kind, batch.SerializeToString())


def count_batch(counts: Counts, batch: Batch) -> None:
    """Add what a batch holds."""
    counts.steps += sum(block.count for block in batch.steps.blocks)
    counts.episodes += len(batch.episodes.episodes)
    counts.metrics += sum(len(block.values) for block in batch.metrics.blocks)
    counts.log_lines += len(batch.logs.lines)


def _env_batch(said: Sequence[EnvMade | Reset | Config]) -> EnvBatch:
    return EnvBatch(
        made=[each for each in said if isinstance(each, EnvMade)],
        resets=[each for each in said if isinstance(each, Reset)],
        configs=[each.text for each in said if isinstance(each, Config)],
    )


def _size(item: Message | Config) -> int:
    return len(item.text) if isinstance(item, Config) else item.ByteSize()


T = TypeVar("T", bound=Message | Config)


def packed(items: Iterable[T]) -> Iterator[list[T]]:
    """The items in order, in groups that are small enough to be a batch."""
    group: list[T] = []
    total = 0
    for item in items:
        size = _size(item) + 8
        if group and total + size > BATCH_BYTES:
            yield group
            group, total = [], 0
        group.append(item)
        total += size
    if group:
        yield group
