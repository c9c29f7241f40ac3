"""Feeds a sink from the telemetry service: stored batches, or also new ones until the run ends."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from runspine.domain.run import ENDED
from runspine.errors import InvalidError, RefusedError, UnreachableError
from runspine.rpc.telemetry_client import TelemetryClient
from runspine.rpc.trainer_client import Client
from runspine.sinks.clips import StoredClips
from runspine.sinks.port import KINDS, VIDEOS, ExportedRun, Mark, Sink, resumed_step
from runspine.sinks.streams import follow_batches, read_stored
from runspine.spec.plain import plain_value
from runspine.wire.v1.run_pb2 import Run
from runspine.wire.v1.spec_pb2 import EVALUATE
from runspine.wire.v1.telemetry_pb2 import EnvMade, Reset

COMMIT_SECONDS = 1.0
# The service refreshes the attempts of a run once a second.
SETTLE_SECONDS = 1.2
POLL_SECONDS = 0.2
MAX_SQL_ROWS = 1_000_000


@dataclass(slots=True)
class ExportSummary:
    """Counts of an export, for output and --json."""

    where: str = ""
    points: int = 0
    episodes: int = 0
    steps: int = 0
    videos: int = 0
    # Videos that are too large, too many, damaged or of another format.
    left_out: int = 0
    done: bool = False
    # The output was already complete.
    nothing_new: bool = False


OnProgress = Callable[[ExportSummary], None]


def exported_run(run: Run) -> ExportedRun:
    spec = run.spec
    spec_parameters: dict[str, Any] = {
        "env": spec.env,
        "algo": spec.algo,
        "runner": spec.runner,
        "seed": spec.seed if spec.HasField("seed") else 1,
        "total_steps": spec.total_steps,
        **{f"env_kwargs.{key}": plain_value(value) for key, value in sorted(spec.env_kwargs.items())},
        **{key: plain_value(value) for key, value in sorted(spec.params.items())},
    }
    return ExportedRun(
        run_id=run.id,
        name=run.name,
        env=spec.env,
        algo=spec.algo,
        seed=spec.seed if spec.HasField("seed") else 1,
        project=spec.project,
        labels=dict(run.labels),
        spec_parameters={key: value for key, value in spec_parameters.items() if value not in ("", None)},
        submitted_at=run.submitted_at,
        evaluates=spec.mode == EVALUATE,
    )


class Pump:
    """Feeds one sink with one run. `stop` ends a follow early; what was fed is kept."""

    def __init__(
        self,
        client: Client,
        exported: ExportedRun,
        sink: Sink,
        *,
        on_progress: OnProgress,
        stop: threading.Event,
    ) -> None:
        self._client = client
        self._reader = TelemetryClient(client)
        self._exported = exported
        self._sink = sink
        self._on_progress = on_progress
        self._stop = stop
        self._summary = ExportSummary()
        self._committed = time.monotonic()
        self._config: Future[Mapping[str, Any]] | None = None
        # The configuration of a running run may arrive after its first batch.
        self._following = self._asked_early = False
        self._described: Mapping[str, Any] | None = None

    def run(self, *, follow: bool) -> ExportSummary:
        mark = self._sink.open()
        try:
            if mark.done:
                self._summary.nothing_new = self._summary.done = True
            else:
                with ThreadPoolExecutor(1) as asking:
                    self._asking = asking
                    mark = self._feed_videos(self._feed(mark, follow))
                    self._describe(wait=not self._stop.is_set())
                self._sink.commit(mark)
                self._summary.done = mark.done
        except BaseException:
            # Committed data stays; the next open truncates the rest.
            self._sink.abandon()
            raise
        self._summary.where = self._sink.close()
        return self._summary

    def _feed(self, mark: Mark, follow: bool) -> Mark:
        while True:
            run, newest = self._read_run()
            ended = run.phase in ENDED
            mark = self._discard_superseded(mark, newest)
            self._following = follow and not ended
            mark, more = self._feed_batches(mark, self._following)
            if more:
                # The batch may arrive before its attempt is known.
                self._stop.wait(POLL_SECONDS)
                continue
            if self._stop.is_set() or not (follow or ended):
                return mark
            if ended:
                return replace(mark, done=True)

    def _read_run(self) -> tuple[Run, int]:
        """The run and its newest attempt; waits for an attempt that has just begun to be indexed."""
        answer = self._client.get(self._exported.run_id)
        newest = max(answer.attempts, key=lambda a: a.number, default=None)
        self._attempts = list(answer.attempts)
        if newest is None:
            return answer.run, 0
        fresh = SETTLE_SECONDS - (time.time() - newest.started_at / 1e6)
        if newest.number > 1 and 0 < fresh <= SETTLE_SECONDS:
            time.sleep(fresh)
        return answer.run, newest.number

    def _discard_superseded(self, mark: Mark, newest: int) -> Mark:
        """Discard what later attempts supersede before anything is fed."""
        if not mark.is_start and newest > mark.attempt:
            step = resumed_step(self._exported.run_id, self._attempts, newest, mark.attempt)
            mark = self._sink.supersede(step, mark)
            self._described = None
        return replace(mark, attempt=max(newest, mark.attempt))

    def _feed_batches(self, mark: Mark, follow: bool) -> tuple[Mark, bool]:
        """Feed batches; True when a new attempt has begun and the run has to be read again."""
        with Client(self._client.endpoint) as streams:
            # A separate client: closing it ends its streams.
            read = follow_batches if follow else read_stored
            kinds = tuple(kind for kind in self._sink.kinds if kind in KINDS)
            for kind, batch in read(TelemetryClient(streams), self._exported.run_id, kinds, mark):
                if self._stop.is_set():
                    break
                if kind is not None:
                    if batch.attempt > mark.attempt and not mark.is_start:
                        self._sink.commit(mark)
                        return mark, True
                    self._request_config()
                    self._sink.feed(kind, batch)
                    mark = mark.moved(kind, batch.position, batch.attempt)
                    self._count(kind, batch)
                self._maybe_commit(mark)
        return mark, False

    def _feed_videos(self, mark: Mark) -> Mark:
        """Feed the stored clips, when there is time for them and the sink takes them."""
        if VIDEOS not in self._sink.kinds or self._stop.is_set():
            return mark
        clips = StoredClips(self._client, self._exported.run_id)
        for clip in clips.read():
            if self._stop.is_set():
                return replace(mark, done=False)
            self._sink.feed(VIDEOS, clip)
            mark = mark.moved(VIDEOS, clip.position, clip.attempt)
            self._summary.videos += 1
        self._summary.left_out = clips.left_out
        return mark

    def _maybe_commit(self, mark: Mark) -> None:
        now = time.monotonic()
        if now - self._committed >= COMMIT_SECONDS:
            self._committed = now
            if self._config is not None and self._config.done():
                self._describe(wait=False)
            self._sink.commit(mark)
            self._on_progress(self._summary)

    def _count(self, kind: str, batch: Any) -> None:
        match kind:
            case "metrics":
                self._summary.points += sum(len(block.values) for block in batch.blocks)
            case "episodes":
                self._summary.episodes += len(batch.episodes)
            case "steps":
                self._summary.steps += sum(block.count for block in batch.blocks)

    def _request_config(self) -> None:
        """Request the configuration that the trainer reported, concurrently with the batches."""
        if self._config is None:
            self._config = self._asking.submit(trainer_config, self._reader, self._exported.run_id)
            self._asked_early = self._following

    def _describe(self, *, wait: bool) -> None:
        reported: Mapping[str, Any] = {}
        if wait:
            self._request_config()
            assert self._config is not None
            if not self._config.result() and self._asked_early:
                self._config = None
                self._request_config()
        if self._config is not None and (wait or self._config.done()):
            reported = self._config.result()
        parameters = {**self._exported.spec_parameters, **reported}
        if parameters != self._described:
            self._described = parameters
            self._sink.describe(parameters)


def trainer_config(reader: TelemetryClient, run_id: str) -> Mapping[str, Any]:
    """Configuration reported by the trainer, newest attempt last; empty when there is none."""
    try:
        found = reader.sql(run_id, "SELECT data FROM envs WHERE entry = 3 ORDER BY attempt, position")
    except (InvalidError, RefusedError, UnreachableError):
        return {}  # no such table yet, or SQL unavailable: use the spec
    config: dict[str, Any] = {}
    for data in found.column("data").to_pylist():
        line = json.loads(data)
        arguments = line.pop("args", None)
        line.pop("type", None)
        config |= {key: value for key, value in line.items() if not isinstance(value, (dict, list))}
        if isinstance(arguments, dict):
            config |= arguments
    return config


def resets_after(reader: TelemetryClient, run_id: str, position: int) -> Iterator[tuple[int, int, Reset]]:
    """Yield resets after a position, a page at a time."""
    query = "SELECT position, attempt, data FROM envs WHERE entry = 2 AND position > {} ORDER BY position"
    try:
        while rows := reader.sql(run_id, query.format(int(position))).to_pylist():
            for row in rows:
                position = row["position"]
                yield position, row["attempt"], Reset.FromString(row["data"])
            if len(rows) < MAX_SQL_ROWS:
                return
    except InvalidError:
        return  # no such table: the run has reported no envs


def env_of(reader: TelemetryClient, run_id: str, episode_id: str, attempt: int) -> EnvMade:
    return reader.episode(run_id, episode_id, attempt).env
