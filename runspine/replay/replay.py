"""Replays an episode from its record and verifies every step."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from runspine.replay.agents_stage import AgentsStage
from runspine.replay.divergence import ChangedPackage, Divergence, changed_packages
from runspine.replay.env_factory import EnvMissingError, close_env, make_recorded_env, versions_now
from runspine.replay.record import EpisodeRecord
from runspine.replay.stage import Moment, Stage
from runspine.replay.ways import Way, ways_of
from runspine.sdk.drawing import RGB
from runspine.sdk.snapshot import DivergedError

# Makes an env from its env line, kwargs, render mode and size.
Make = Callable[..., Any]


@dataclass(frozen=True, slots=True)
class ReplayVerdict:
    """Result of replaying every step."""

    # None when the reset and all steps are as recorded.
    divergence: Divergence | None
    way: Way
    # Steps that are as recorded.
    steps: int
    # Packages whose version differs from the recording.
    changed: list[ChangedPackage]
    seconds: float

    @property
    def exact(self) -> bool:
        return self.divergence is None


class Replay:
    """A replay of one episode. `verdict` plays it once without frames and finds the way for all others.

    `before` are the slot's earlier episodes, for records without the state of the generator.
    `make` replaces Gymnasium's, for envs that need their own constructor.
    """

    def __init__(
        self, record: EpisodeRecord, *, before: Sequence[EpisodeRecord] = (), make: Make = make_recorded_env
    ) -> None:
        if len(record.agents) > 1 and not record.env.agents:
            raise EnvMissingError(
                f"the episode was recorded of {len(record.agents)} agents ({', '.join(record.agents[:5])}), "
                "and Gymnasium makes no env for several; look at one with --agent"
            )
        self.record = record
        self._before = before
        self._make = make
        self._verdict: ReplayVerdict | None = None
        self._unchanged: bool | None = None

    @property
    def verdict(self) -> ReplayVerdict:
        """Result of the replay. Raises EnvMissingError when the env cannot be made here."""
        if self._verdict is None:
            self._verdict = self._find_way()
        return self._verdict

    def moments(self) -> Iterator[Moment]:
        """Yield the reset and every step as the env returns them."""
        with self.stage() as stage:
            yield stage.begin()
            yield from stage.moments()

    def env_at(self, step: int) -> Any:
        """A fresh env in which the step with this number comes next. Raises DivergedError.

        The caller closes it.
        """
        if not 0 <= step <= self.record.length:
            raise IndexError(f"step {step} of an episode with {self.record.length}")
        stage = self._stage(self._env(None, None), self.verdict.way)
        divergence = stage.begin().divergence
        while divergence is None and stage.at < step:
            divergence = stage.step().divergence
        if divergence is not None:
            close_env(stage.env)
            raise DivergedError(str(divergence))
        return stage.env

    @contextmanager
    def stage(
        self, *, frames: bool = False, size: tuple[int, int] | None = None
    ) -> Iterator[Stage | AgentsStage]:
        """The env before its reset, prepared as the verdict found; with `frames`, one that draws."""
        way = self.verdict.way
        env = self._env(RGB if frames and self._draws_unchanged() else None, size if frames else None)
        try:
            yield self._stage(env, way)
        finally:
            close_env(env)

    def _stage(self, env: Any, way: Way) -> Stage | AgentsStage:
        if self.record.env.agents:
            return AgentsStage(self.record, env, way)
        return Stage(self.record, env, way, self._before)

    def _draws_unchanged(self) -> bool:
        """Whether the env computes the same with a render mode."""
        if self._unchanged is None:
            try:
                env = self._env(RGB, None)
            except EnvMissingError:
                # It takes no render mode; it may draw without one.
                self._unchanged = False
                return False
            divergence = self._stage(env, self.verdict.way).verify()
            close_env(env)
            self._unchanged = divergence == self.verdict.divergence
        return self._unchanged

    def _find_way(self) -> ReplayVerdict:
        start, best = time.perf_counter(), None
        for way in ways_of(self.record, self._before):
            env = self._env(None, None)
            began = time.perf_counter()
            stage = self._stage(env, way)
            divergence = stage.verify()
            took = time.perf_counter() - began
            close_env(env)
            if divergence is None:
                return self._verdict_of(None, way, stage.verifier.steps, took)
            if best is None or divergence.after > best[0].after:
                best = (divergence, way, stage.verifier.steps)
        assert best is not None
        return self._verdict_of(*best, time.perf_counter() - start)

    def _verdict_of(
        self, divergence: Divergence | None, way: Way, steps: int, seconds: float
    ) -> ReplayVerdict:
        recorded = dict(self.record.env.versions)
        changed = changed_packages(recorded, versions_now(recorded))
        return ReplayVerdict(divergence, way, steps, changed, seconds)

    def _env(self, render_mode: str | None, size: tuple[int, int] | None) -> Any:
        return self._make(self.record.env, self.record.kwargs, render_mode, size)
