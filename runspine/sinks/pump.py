"""From the telemetry service into a sink: all there is, or all there will be."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

from runspine.client import Client
from runspine.errors import Invalid, Refused, Unreachable
from runspine.plain import plain_value
from runspine.sinks.port import Mark, Sink, Subject, resumed_step
from runspine.sinks.streams import one_by_one, side_by_side
from runspine.telemetry_reader import TelemetryReader
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.telemetry_pb2 import EnvMade, Reset

COMMIT_SECONDS = 1.0
# The service may look at the attempts of a run only once a second.
SETTLE_SECONDS = 1.2
LOOK_SECONDS = 0.2
MOST_ROWS = 1_000_000
ENDED = (Phase.COMPLETED, Phase.FAILED, Phase.CANCELLED)


@dataclass(slots=True)
class Told:
    """What went through: for people, and for --json."""

    where: str = ""
    points: int = 0
    episodes: int = 0
    steps: int = 0
    done: bool = False
    # Everything was there already.
    nothing_new: bool = False


OnProgress = Callable[[Told], None]


def subject_of(run: Run) -> Subject:
    spec = run.spec
    asked: dict[str, Any] = {
        "env": spec.env,
        "algo": spec.algo,
        "runner": spec.runner,
        "seed": spec.seed if spec.HasField("seed") else 1,
        "total_steps": spec.total_steps,
        **{f"env_kwargs.{key}": plain_value(value) for key, value in sorted(spec.env_kwargs.items())},
        **{key: plain_value(value) for key, value in sorted(spec.params.items())},
    }
    return Subject(
        run_id=run.id,
        name=run.name,
        env=spec.env,
        algo=spec.algo,
        seed=spec.seed if spec.HasField("seed") else 1,
        project=spec.project,
        labels=dict(run.labels),
        asked={key: value for key, value in asked.items() if value not in ("", None)},
        submitted_at=run.submitted_at,
    )


class Pump:
    """Fills one sink with one run. `stop` ends a follow early; what was fed by then is kept."""

    def __init__(
        self, client: Client, subject: Subject, sink: Sink, *, tell: OnProgress, stop: threading.Event
    ) -> None:
        self._client = client
        self._reader = TelemetryReader(client)
        self._subject = subject
        self._sink = sink
        self._tell = tell
        self._stop = stop
        self._told = Told()
        self._committed = time.monotonic()
        self._config: Future[Mapping[str, Any]] | None = None
        # While a run goes on, its configuration may come after its first batch.
        self._following = self._asked_early = False
        self._described: Mapping[str, Any] | None = None

    def run(self, *, follow: bool) -> Told:
        mark = self._sink.open()
        try:
            if mark.done:
                self._told.nothing_new = self._told.done = True
            else:
                with ThreadPoolExecutor(1) as asking:
                    self._asking = asking
                    mark = self._fill(mark, follow)
                    self._describe(wait=not self._stop.is_set())
                self._sink.commit(mark)
                self._told.done = mark.done
        except BaseException:
            # Whatever was committed stays; the rest is cut off by the next open.
            self._sink.abandon()
            raise
        self._told.where = self._sink.close()
        return self._told

    def _fill(self, mark: Mark, follow: bool) -> Mark:
        while True:
            run, newest = self._look()
            ended = run.phase in ENDED
            mark = self._caught_up(mark, newest)
            self._following = follow and not ended
            mark, more = self._pass(mark, self._following)
            if more:
                # The batch may have come sooner than the news of its attempt.
                self._stop.wait(LOOK_SECONDS)
                continue
            if self._stop.is_set() or not (follow or ended):
                return mark
            if ended:
                return replace(mark, done=True)

    def _look(self) -> tuple[Run, int]:
        """The run, and its newest attempt. One that has only just begun is given time to be known."""
        answer = self._client.get(self._subject.run_id)
        newest = max(answer.attempts, key=lambda a: a.number, default=None)
        self._attempts = list(answer.attempts)
        if newest is None:
            return answer.run, 0
        fresh = SETTLE_SECONDS - (time.time() - newest.started_at / 1e6)
        if newest.number > 1 and 0 < fresh <= SETTLE_SECONDS:
            time.sleep(fresh)
        return answer.run, newest.number

    def _caught_up(self, mark: Mark, newest: int) -> Mark:
        """What later attempts took the place of is taken back before anything is fed."""
        if not mark.is_start and newest > mark.attempt:
            step = resumed_step(self._subject.run_id, self._attempts, newest, mark.attempt)
            mark = self._sink.supersede(step, mark)
            self._described = None
        return replace(mark, attempt=max(newest, mark.attempt))

    def _pass(self, mark: Mark, follow: bool) -> tuple[Mark, bool]:
        """Feed what comes; True when a new attempt has begun and its like must be looked at again."""
        with Client(self._client.endpoint) as streams:
            # Streams of their own: closing the client ends them, wherever they wait.
            read = side_by_side if follow else one_by_one
            for kind, batch in read(TelemetryReader(streams), self._subject.run_id, self._sink.kinds, mark):
                if self._stop.is_set():
                    break
                if kind is not None:
                    if batch.attempt > mark.attempt and not mark.is_start:
                        self._sink.commit(mark)
                        return mark, True
                    self._ask_config()
                    self._sink.feed(kind, batch)
                    mark = mark.moved(kind, batch.position, batch.attempt)
                    self._count(kind, batch)
                self._maybe_commit(mark)
        return mark, False

    def _maybe_commit(self, mark: Mark) -> None:
        now = time.monotonic()
        if now - self._committed >= COMMIT_SECONDS:
            self._committed = now
            if self._config is not None and self._config.done():
                self._describe(wait=False)
            self._sink.commit(mark)
            self._tell(self._told)

    def _count(self, kind: str, batch: Any) -> None:
        match kind:
            case "metrics":
                self._told.points += sum(len(block.values) for block in batch.blocks)
            case "episodes":
                self._told.episodes += len(batch.episodes)
            case "steps":
                self._told.steps += sum(block.count for block in batch.blocks)

    def _ask_config(self) -> None:
        """The trainer's own words on its configuration, asked for beside the batches."""
        if self._config is None:
            self._config = self._asking.submit(trainer_config, self._reader, self._subject.run_id)
            self._asked_early = self._following

    def _describe(self, *, wait: bool) -> None:
        said: Mapping[str, Any] = {}
        if wait:
            self._ask_config()
            assert self._config is not None
            if not self._config.result() and self._asked_early:
                self._config = None
                self._ask_config()
        if self._config is not None and (wait or self._config.done()):
            said = self._config.result()
        parameters = {**self._subject.asked, **said}
        if parameters != self._described:
            self._described = parameters
            self._sink.describe(parameters)


def trainer_config(reader: TelemetryReader, run_id: str) -> Mapping[str, Any]:
    """What the newest attempt's trainer said of itself; nothing when it said nothing."""
    try:
        found = reader.sql(run_id, "SELECT data FROM envs WHERE entry = 3 ORDER BY attempt, position")
    except (Invalid, Refused, Unreachable):
        return {}  # no such table yet, or no SQL here: the spec says enough
    said: dict[str, Any] = {}
    for data in found.column("data").to_pylist():
        told = json.loads(data)
        arguments = told.pop("args", None)
        told.pop("type", None)
        said |= {key: value for key, value in told.items() if not isinstance(value, (dict, list))}
        if isinstance(arguments, dict):
            said |= arguments
    return said


def resets_after(reader: TelemetryReader, run_id: str, position: int) -> Iterator[tuple[int, int, Reset]]:
    """How episodes began, a million at a time."""
    query = "SELECT position, attempt, data FROM envs WHERE entry = 2 AND position > {} ORDER BY position"
    try:
        while rows := reader.sql(run_id, query.format(int(position))).to_pylist():
            for row in rows:
                position = row["position"]
                yield position, row["attempt"], Reset.FromString(row["data"])
            if len(rows) < MOST_ROWS:
                return
    except Invalid:
        return  # no such table: the run has told nothing of its envs


def env_of(reader: TelemetryReader, run_id: str, episode_id: str, attempt: int) -> EnvMade:
    return reader.episode(run_id, episode_id, attempt).env
