"""Assembles one attempt's lines into batches and counts them. Pure: lines in, records out."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from runspine.domain.artifact_kinds import CHECKPOINT
from runspine.domain.evaluation_series import batch_points
from runspine.domain.event_scalars import EventScalar
from runspine.domain.tracking import read_output, wandb_run
from runspine.services.worker.protocol.events import (
    ArtifactEvent,
    ArtifactsEvent,
    ConfigEvent,
    DroppedEvent,
    Event,
    HelloEvent,
    LogLine,
    MetricsEvent,
    MindEvent,
    ProgressEvent,
    StepEvent,
    TurnEvent,
)
from runspine.services.worker.protocol.frame_splitter import Frame
from runspine.services.worker.protocol.grid import GridEvent
from runspine.services.worker.protocol.reader import ProtocolReader
from runspine.services.worker.protocol.redact import Redactor
from runspine.services.worker.telemetry.assembly.batches import Batcher
from runspine.services.worker.telemetry.assembly.description import TrainerDescription
from runspine.services.worker.telemetry.assembly.episodes import EVALUATION_PREFIX, EpisodeTracker
from runspine.services.worker.telemetry.assembly.evaluation_totals import EvaluationTotals
from runspine.services.worker.telemetry.assembly.grid import GridSplitter
from runspine.services.worker.telemetry.assembly.not_finite import NotFinite
from runspine.services.worker.telemetry.assembly.observations import Observations
from runspine.services.worker.telemetry.assembly.prints import CleanrlPrint, read_print
from runspine.services.worker.telemetry.assembly.progress import StepRate
from runspine.services.worker.telemetry.assembly.spool_record import SpoolRecord
from runspine.services.worker.telemetry.assembly.step_origin import StepOrigin
from runspine.wire.v1.facts_pb2 import Counts, Progress
from runspine.wire.v1.spec_pb2 import EVALUATE, RunSpec
from runspine.wire.v1.telemetry_pb2 import (
    MIND,
    STDERR,
    TURN,
    WORKER,
    EnvMade,
    Episode,
    LogSource,
    Reset,
    Score,
    StepBlock,
)

MAX_REPORTED = 100_000
CUT_OBSERVATIONS = "observations of more than 200 KB do not fit into a batch: hashes are kept instead"
# Series of the returns of one agent, when there are several.
AGENT_RETURN = "episode/return/"
DAMAGED_FRAME = "a frame of telemetry cannot be read"
MALFORMED_LINE = "the next line looks like telemetry but cannot be read"
MALFORMED_HINT = "it and others like it are kept as log lines and counted; docs/protocol.md has every field"


class BatchAssembler:
    """Reads lines, tracks episodes and progress, and cuts batches."""

    def __init__(
        self,
        run_id: str,
        attempt: int,
        spec: RunSpec,
        redact: Redactor | None = None,
        *,
        episodes_before: int = 0,
        resumed_at: int = 0,
    ) -> None:
        self._counts = Counts()
        # Counted here and not in the message, which is slower for every line.
        self._steps = 0
        # Of training alone, in actions of the trainer: what the progress counts.
        self._trained = 0.0
        self._frame_skips: dict[int, int] = {}
        self._origin = StepOrigin(resumed_at)
        # Whether the trainer writes the protocol: then its prints are no metrics.
        self._speaks = False
        # Names of the series that the trainer reports by lines.
        self._reported: set[str] = set()
        # Names of series with a value that is NaN or infinite.
        self._not_finite = NotFinite()
        # Whether it reports its progress: then nothing else moves it.
        self._paced = False
        self.lines_read = 0
        self.on_artifact: Callable[[dict[str, Any]], None] = _ignore
        self._reader = ProtocolReader(redact)
        self._observations = Observations(spec.capture.observations)
        self._episodes = EpisodeTracker()
        # Trained until the checkpoint that the attempt resumed from.
        self._episodes_before = episodes_before
        self._pace = StepRate(spec.total_steps)
        self._batcher = Batcher(run_id, attempt, self._observations)
        self._cut_reported = False
        self._scoring = EvaluationTotals()
        self._evaluates = spec.mode == EVALUATE
        self.description = TrainerDescription()
        self._handlers: dict[type, Callable[[Any, int], bool]] = {
            StepEvent: self._step,
            StepBlock: self._block,
            MetricsEvent: self._reported_metrics,
            Episode: self._episode,
            EnvMade: self._env,
            Reset: self._env,
            ConfigEvent: self._config,
            ArtifactEvent: self._artifact,
            ArtifactsEvent: self._artifacts,
            HelloEvent: self._hello,
            ProgressEvent: self._reached,
            MindEvent: self._mind,
            TurnEvent: self._turn,
            Score: self._score,
            DroppedEvent: self._dropped,
        }

    @property
    def empty(self) -> bool:
        """Whether there is nothing to cut."""
        return self._batcher.empty and not self._episodes.waiting

    def take(self, line: bytes, source: LogSource, at: int) -> str | None:
        """Add one line of the trainer; its text when it is a log line."""
        self.lines_read += 1
        event: Event = self._reader.read(line, at, protocol=source != STDERR)
        if type(event) is LogLine:
            text, malformed = event
        elif self._handlers[type(event)](event, at):
            self._speaks = True
            return None
        else:
            text, malformed = self._reader.text(line), False
        if malformed:
            self._note_malformed(at)
        else:
            self._read_output(text, at)
        self._log(text, source, at)
        return text

    def take_frame(self, frame: Frame, at: int) -> str | None:
        """Add one frame of the trainer; a text for its log when the frame cannot be read."""
        self.lines_read += 1
        read = self._reader.read_frame(frame)
        if read is None:
            self._counts.malformed += 1
            text = f"{DAMAGED_FRAME} ({self._reader.why}): {len(frame.payload):,} bytes are not recorded"
            self.log_line(text, at)
            return text
        self._speaks = True
        if isinstance(read, StepBlock):
            self._block(read, at)
        else:
            self._grid(read, at)
        return None

    def _grid(self, grid: GridEvent, at: int) -> None:
        origin = self._counter("", grid.global_step)
        split = GridSplitter(grid, origin)
        for block in split.blocks():
            self._batcher.add_block(block)
        for reset in split.resets():
            self._batcher.add_env(reset)
        for episode in split.episodes():
            self._episodes.add_line(episode, at)
        self._steps += split.steps
        self._trained += split.steps
        self._reach(origin + split.steps, at)

    def add_metrics(self, values: dict[str, float], at: int) -> None:
        """Add metrics of the worker at the step that the run has reached."""
        self._metrics(MetricsEvent(values, None, at), at)

    def add_scalar(self, scalar: EventScalar, at: int) -> None:
        """Add a scalar of an event file, unless the trainer reports its series itself."""
        name = self._reader.redacted(scalar.tag)
        if name not in self._reported:
            self._metrics(MetricsEvent({name: scalar.value}, scalar.step, scalar.at or at), at)

    def _read_output(self, text: str, at: int) -> None:
        """Take over what a line of plain text states: an episode of CleanRL, its rates, a run at W&B."""
        if "episodic_return=" in text or text.startswith("SPS:"):
            self._print(read_print(text), at)
        elif "wandb" in text or "View run" in text:
            self.description.add_tracking(read_output(text))

    def _print(self, found: CleanrlPrint | None, at: int) -> None:
        if found is None:
            return
        if found.step is not None and found.value is not None:
            self._episodes.add_print(found.step, found.value, found.length, at)
            self._reach(found.step, at)
        if found.metrics and not self._speaks:
            self._reported_metrics(MetricsEvent(found.metrics, found.step, at), at)

    def _note_malformed(self, at: int) -> None:
        """Count it; the run's log states what is wrong with the first one, in the line before it."""
        if not self._counts.malformed:
            self.log_line(f"{MALFORMED_LINE} ({self._reader.why}): {MALFORMED_HINT}", at)
        self._counts.malformed += 1

    def log_line(self, text: str, at: int) -> None:
        """Add a log line of the worker."""
        self._log(text, WORKER, at)

    def cut(self, at: int, *, everything: bool = False, final: bool = False) -> list[SpoolRecord]:
        """Cut full batches; with `everything` also incomplete ones; `final` at the end of the attempt."""
        if everything or final:
            for episode in self._episodes.take(at, final=final):
                self._batcher.add_episode(episode)
                self._add_agent_return(episode)
        records = self._batcher.cut(everything=everything or final)
        if self._observations.cut and not self._cut_reported:
            self._cut_reported = True
            self.log_line(CUT_OBSERVATIONS, at)
            records += self._batcher.cut(everything=everything or final)
        return records

    def _add_agent_return(self, episode: Episode) -> None:
        """The return of one of several agents as a point of a series of its own."""
        if episode.agent_id in self._episodes.agent_returns:
            points = {f"{AGENT_RETURN}{episode.agent_id}": float(getattr(episode, "return"))}
            step = episode.global_step or self._pace.step
            self._batcher.add_metrics(MetricsEvent(points, None, episode.ended_at), step)
            self._counts.metrics += 1

    @property
    def counts(self) -> Counts:
        """What was read so far."""
        self._counts.episodes, self._counts.steps = self._episodes.count, self._steps
        return self._counts

    def progress(self, at: int) -> Progress:
        """Progress of the trainer at this time."""
        progress = self._pace.progress(
            at, self.counts, self._episodes.last_return, self._episodes.mean_return
        )
        progress.agent_returns.update(self._episodes.agent_returns)
        self._scoring.fill(progress)
        return progress

    @property
    def episodes_trained(self) -> int:
        """Episodes that the run has trained, those before the checkpoint it resumed from included."""
        return self._episodes_before + self._episodes.trained

    def note(self, at: int) -> bytes:
        """The progress, counting only what was cut, for recovery after a restart."""
        progress = self.progress(at)
        progress.counts.CopyFrom(self._batcher.tally)
        for field in ("malformed", "dropped", "not_finite"):
            setattr(progress.counts, field, getattr(self._counts, field))
        progress.episodes = progress.counts.episodes
        return progress.SerializeToString()

    def _log(self, text: str, source: LogSource, at: int) -> None:
        self._batcher.add_line(text, source, at)
        self._counts.log_lines = self._batcher.lines

    def _reach(self, step: int, at: int) -> None:
        if not self._paced:
            self._pace.reach(max(step, int(self._trained)), at)

    def _count_steps(self, step: StepEvent | StepBlock, count: int, in_episode: int, at: int) -> None:
        """Count recorded steps. Those of the trainer's own evaluation are no progress, and of several
        that repeat one action only one is."""
        self._steps += count
        if not step.episode_id.startswith(EVALUATION_PREFIX):
            skip = self._frame_skips.get(step.slot, 1)
            self._trained += count / skip
            self._reach(max(in_episode // skip, step.global_step), at)

    def _counter(self, episode_id: str, reported: int) -> int:
        if episode_id.startswith(EVALUATION_PREFIX):
            return reported
        return self._origin.counter(reported, int(self._trained))

    def _step(self, step: StepEvent, at: int) -> bool:
        if (counter := self._counter(step.episode_id, step.global_step)) != step.global_step:
            step = step._replace(global_step=counter)
        self._batcher.add_step(step)
        self._episodes.add_step(step, at)
        self._count_steps(step, 1, step.step, at)
        return True

    def _block(self, block: StepBlock, at: int) -> bool:
        if (counter := self._counter(block.episode_id, block.global_step)) != block.global_step:
            block.global_step = counter
        self._episodes.add_block(block, at)
        self._count_steps(block, block.count, block.first_step + block.count - 1, at)
        self._batcher.add_block(block)
        return True

    def _reported_metrics(self, metrics: MetricsEvent, at: int) -> bool:
        if len(self._reported) < MAX_REPORTED:
            self._reported.update(metrics.values)
        return self._metrics(metrics, at)

    def _metrics(self, metrics: MetricsEvent, at: int) -> bool:
        if metrics.step is not None:
            self._reach(metrics.step, at)
        step = self._pace.step if metrics.step is None else metrics.step
        self._batcher.add_metrics(metrics, step)
        self._counts.metrics += len(metrics.values)
        for text in self._not_finite.add(metrics.values, step):
            self.log_line(text, at)
        self._counts.not_finite = self._not_finite.count
        return True

    def _dropped(self, dropped: DroppedEvent, at: int) -> bool:
        self._counts.dropped += dropped.lines
        self.log_line(f"not recorded: {self._reader.redacted(dropped.reason)}", at)
        return True

    def _episode(self, episode: Episode, at: int) -> bool:
        if not episode.episode_id.startswith(EVALUATION_PREFIX):
            episode.global_step = self._origin.episode(episode.global_step)
        if not self._episodes.add_line(episode, at):
            return False
        if episode.global_step and not episode.episode_id.startswith(EVALUATION_PREFIX):
            self._reach(episode.global_step, at)
        return True

    def _config(self, event: ConfigEvent, at: int) -> bool:
        self.description.add_config(event)
        return self._env(event, at)

    def _hello(self, hello: HelloEvent, at: int) -> bool:
        if notice := self.description.add_hello(hello):
            self.log_line(notice, at)
        return True

    def _artifacts(self, event: ArtifactsEvent, at: int) -> bool:
        for fields in event.files:
            self._announce(fields)
        if event.url:
            self.description.add_tracking(wandb_run(self._reader.redacted(event.url)))
        return True

    def _env(self, event: EnvMade | Reset | ConfigEvent, at: int) -> bool:
        self._batcher.add_env(event)
        if type(event) is not ConfigEvent:
            self._episodes.add_env()
        if type(event) is EnvMade and (event.frame_skip or event.slot in self._frame_skips):
            self._frame_skips[event.slot] = event.frame_skip or 1
        return True

    def _artifact(self, artifact: ArtifactEvent, at: int) -> bool:
        self._announce(artifact.fields)
        return True

    def _announce(self, fields: dict[str, Any]) -> None:
        if fields.get("kind") == CHECKPOINT:
            # A run that resumes from it has trained so many episodes, up to this step of the run.
            fields = {**fields, "episodes": self.episodes_trained}
            if type(step := fields.get("step")) is int:
                fields["step"] = self._origin.announced(step)
        self.on_artifact(fields)

    def _score(self, score: Score, at: int) -> bool:
        self._scoring.add(score)
        self._batcher.add_score(score)
        if self._evaluates:
            # Not through _metrics: the number of a batch is no progress.
            points = batch_points(score)
            self._batcher.add_metrics(MetricsEvent(points, None, score.at), score.batch + 1)
            self._counts.metrics += len(points)
        return True

    def _mind(self, mind: MindEvent, at: int) -> bool:
        """Numbers become metrics; the whole becomes a log line with its own source, for views of minds."""
        self._metrics(MetricsEvent(mind.values, mind.step, mind.at), at)
        self._log(mind.text, MIND, mind.at)
        return True

    def _turn(self, turn: TurnEvent, at: int) -> bool:
        self._log(turn.text, TURN, turn.at)
        return True

    def _reached(self, reached: ProgressEvent, at: int) -> bool:
        if reached.total is not None:
            self._pace.total_steps = reached.total
        self._paced = True
        self._pace.reach(reached.step, at)
        return True


def _ignore(fields: dict[str, Any]) -> None:
    """The default callback for artifact lines."""
