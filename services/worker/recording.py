"""Everything one attempt's trainer says: read, counted, gathered. Pure: lines in, records out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.wire.v1.facts_pb2 import Counts, Progress
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import (
    MIND,
    STDERR,
    WORKER,
    EnvMade,
    Episode,
    LogSource,
    Reset,
    Score,
    StepBlock,
)
from services.worker.batches import Batcher
from services.worker.episodes import Episodes
from services.worker.observations import Observations
from services.worker.progress import Pace
from services.worker.protocol import ProtocolReader
from services.worker.protocol_events import Artifact, Config, Event, Line, Metrics, Mind, Reached, Step
from services.worker.redact import Redactor
from services.worker.scoring import Scoring
from services.worker.spool import Record

CUT_OBSERVATIONS = "observations of more than 200 KB do not fit into a batch: hashes are kept instead"

LOOKS_LIKE = "the next line looks like telemetry but cannot be read"
WHAT_THEN = "it and others like it are kept as log lines and counted; docs/protocol.md has every field"


class Recording:
    def __init__(self, run_id: str, attempt: int, spec: RunSpec, redact: Redactor | None = None) -> None:
        self._counts = Counts()
        # Counted here and not in the message: it is there once for every line.
        self._steps = 0
        self.lines_read = 0
        self.on_artifact: Callable[[dict[str, Any]], None] = _ignore
        self._reader = ProtocolReader(redact)
        self._observations = Observations(spec.capture.observations)
        self._episodes = Episodes()
        self._pace = Pace(spec.total_steps)
        self._batcher = Batcher(run_id, attempt, self._observations)
        self._told_cut = False
        self._scoring = Scoring()
        self._handlers: dict[type, Callable[[Any, int], bool]] = {
            Step: self._step,
            StepBlock: self._block,
            Metrics: self._metrics,
            Episode: self._episode,
            EnvMade: self._env,
            Reset: self._env,
            Config: self._env,
            Artifact: self._artifact,
            Reached: self._reached,
            Mind: self._mind,
            Score: self._score,
        }

    @property
    def empty(self) -> bool:
        """Whether there is nothing to cut now."""
        return self._batcher.empty and not self._episodes.waiting

    def take(self, line: bytes, source: LogSource, at: int) -> str | None:
        """One line as the trainer wrote it; its text when it is a log line."""
        self.lines_read += 1
        event: Event = self._reader.read(line, at, speaks=source != STDERR)
        if type(event) is Line:
            text, malformed = event
        elif self._handlers[type(event)](event, at):
            return None
        else:
            text, malformed = self._reader.text(line), False
        if malformed:
            self._note_malformed(at)
        elif "episodic_return=" in text and (step := self._episodes.printed(text, at)):
            self._reach(step, at)
        self._log(text, source, at)
        return text

    def _note_malformed(self, at: int) -> None:
        """Counted; of the first one people are told what is wrong, in the line before it."""
        if not self._counts.malformed:
            self.remark(
                f"the next line looks like telemetry but cannot be read ({self._reader.why}): {WHAT_THEN}", at
            )
        self._counts.malformed += 1

    def remark(self, text: str, at: int) -> None:
        """A line of the worker's own."""
        self._log(text, WORKER, at)

    def cut(self, at: int, *, everything: bool = False, final: bool = False) -> list[Record]:
        """Batches of what there is enough of; `everything` when it is time; `final` at the end."""
        if everything or final:
            for episode in self._episodes.take(at, final=final):
                self._batcher.add_episode(episode)
        records = self._batcher.cut(everything=everything or final)
        if self._observations.cut and not self._told_cut:
            self._told_cut = True
            self.remark(CUT_OBSERVATIONS, at)
            records += self._batcher.cut(everything=everything or final)
        return records

    @property
    def counts(self) -> Counts:
        self._counts.episodes, self._counts.steps = self._episodes.count, self._steps
        return self._counts

    def progress(self, at: int) -> Progress:
        """Where the trainer stands at this time."""
        told = self._pace.progress(at, self.counts, self._episodes.last_return, self._episodes.mean_return)
        self._scoring.fill(told)
        return told

    def note(self, at: int) -> bytes:
        """How far it is, counting what was cut: for whoever must tell of it without us."""
        told = self.progress(at)
        told.counts.CopyFrom(self._batcher.tally)
        told.counts.malformed = self._counts.malformed
        told.episodes = told.counts.episodes
        return told.SerializeToString()

    def _log(self, text: str, source: LogSource, at: int) -> None:
        self._batcher.add_line(text, source, at)
        self._counts.log_lines = self._batcher.lines

    def _reach(self, step: int, at: int) -> None:
        self._pace.reach(max(step, self._steps), at)

    def _step(self, step: Step, at: int) -> bool:
        self._batcher.add_step(step)
        self._episodes.stepped(step, at)
        self._steps += 1
        self._reach(max(step.step, step.global_step), at)
        return True

    def _block(self, block: StepBlock, at: int) -> bool:
        self._episodes.stepped_block(block, at)
        self._steps += block.count
        self._reach(max(block.first_step + block.count - 1, block.global_step), at)
        self._batcher.add_block(block)
        return True

    def _metrics(self, metrics: Metrics, at: int) -> bool:
        if metrics.step is not None:
            self._reach(metrics.step, at)
        self._batcher.add_metrics(metrics, self._pace.step if metrics.step is None else metrics.step)
        self._counts.metrics += len(metrics.values)
        return True

    def _episode(self, episode: Episode, at: int) -> bool:
        if not self._episodes.said(episode, at):
            return False
        if episode.global_step:
            self._reach(episode.global_step, at)
        return True

    def _env(self, said: EnvMade | Reset | Config, at: int) -> bool:
        self._batcher.add_env(said)
        return True

    def _artifact(self, artifact: Artifact, at: int) -> bool:
        self.on_artifact(artifact.said)
        return True

    def _score(self, score: Score, at: int) -> bool:
        self._scoring.add(score)
        self._batcher.add_score(score)
        return True

    def _mind(self, mind: Mind, at: int) -> bool:
        """Numbers to the charts, the whole to the log, where whoever shows minds finds it by its source."""
        self._metrics(Metrics(mind.values, mind.step, mind.at), at)
        self._log(mind.text, MIND, mind.at)
        return True

    def _reached(self, reached: Reached, at: int) -> bool:
        if reached.total is not None:
            self._pace.total_steps = reached.total
        self._reach(reached.step, at)
        return True


def _ignore(said: dict[str, Any]) -> None:
    """Nobody uploads: as in a test of the reader alone."""
