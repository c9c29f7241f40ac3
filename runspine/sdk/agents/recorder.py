"""Records the agents of one env: each has its own steps and return, all share the episode."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

from runspine.sdk import lines
from runspine.sdk.agents.digest import first_digest
from runspine.sdk.columns import HashColumn
from runspine.sdk.drawing import drawing
from runspine.sdk.episode import Episode
from runspine.sdk.generator import generator_state
from runspine.sdk.identity import Identity
from runspine.sdk.slot_recorder import LINE_BYTES, SlotRecorder

if TYPE_CHECKING:
    from collections.abc import Callable

    from runspine.sdk.run import Run

# Names of agents that an env may have over its life.
MAX_AGENTS = 1000


class AgentRecorder(SlotRecorder):
    """Recorder of one agent. Its episode is that of the env, and its steps are numbered on their own."""

    def __init__(self, run: Run, slot: int, agent: str, shared: Episode) -> None:
        super().__init__(run, slot)
        self.agent, self._shared = agent, shared
        self._row: Any = None
        self._feed = self.recording(lambda _: self._row)

    def join(self, shared: Episode) -> None:
        """The env has begun an episode."""
        self.cut()
        self._shared, self.episode, self.ended = shared, None, False

    def add(self, action: Any, observation: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        """Record a step of the agent."""
        if self.episode is None:
            self._new_episode()
            self._learn_observations(observation)
        self._row = (observation, reward, terminated, truncated, None)
        self._feed(action)

    def _new_episode(self) -> Episode:
        # An agent that acts after its end goes on in the same episode.
        if self.episode is None or self.episode.number != self._shared.number:
            self.episode = Episode(self._shared.number, self._shared.id, self._shared.ordinal)
        self.ended = False
        return self.episode


class AgentsRecorder:
    """Recorders of the agents of one env. No method raises: what fails is in the run's log."""

    def __init__(self, run: Run, slot: int, env: Any, identity: Callable[[], Identity]) -> None:
        self.run, self.slot = run, slot
        self._env, self._identity = env, identity
        self._agents: dict[Any, AgentRecorder] = {}
        self._episode = Episode(0, "")
        self._resets = 0
        self._start: tuple[Any, Any, Any] = (None, None, None)
        self.failure = ""

    def before_reset(self, seed: Any, options: Any) -> None:
        """Read before a reset what it depends on."""
        self._quietly(self._read_start, seed, options)

    def begin(self, observations: Any) -> None:
        """The env was reset; `observations` are the first of its agents."""
        self._quietly(self._begin, observations)

    def add(self, agent: Any, action: Any, results: tuple[Any, Any, Any, Any]) -> None:
        """Record a step of an agent: observation after it, reward, terminated, truncated."""
        self._quietly(self._add, agent, action, results)

    def add_idle(self, agent: Any, value: float) -> None:
        """An agent has ended without a step of its own, with this return."""
        self._quietly(self._add_idle, agent, value)

    def close(self) -> None:
        """Write what is left; the steps still count."""
        for recorder in self._agents.values():
            self.run.retire(recorder)

    def _read_start(self, seed: Any, options: Any) -> None:
        self._start = (seed, options, generator_state(self._env.unwrapped))

    def _begin(self, observations: Any) -> None:
        run, now = self.run, time.time()
        if not self._resets and run.pipe.open:
            run.pipe.write(lines.env(run.rank.slot(self.slot), self._identity(), now))
        seed, options, rng = self._start
        self._new_episode()
        episode = self._episode
        episode.seed, episode.options, episode.rng, episode.at = seed, options, rng, now
        episode.first, episode.first_column = first_digest(observations), HashColumn()
        if run.pipe.open and episode.id:
            run.pipe.write_later(LINE_BYTES, lines.reset, run.rank.slot(self.slot), episode)

    def _new_episode(self) -> None:
        number, name = self.run.ids.next(self.run.rank.slot(self.slot))
        self._episode = Episode(number, name, self._resets)
        self._resets += 1
        for recorder in self._agents.values():
            recorder.join(self._episode)

    def _add(self, agent: Any, action: Any, results: tuple[Any, Any, Any, Any]) -> None:
        if not self._episode.id:
            # A step without a reset begins an episode that cannot be replayed.
            self._new_episode()
        recorder = self._agents.get(agent)
        if recorder is None:
            if len(self._agents) >= MAX_AGENTS:
                raise RuntimeError(f"the env has had more than {MAX_AGENTS} agents")
            recorder = AgentRecorder(self.run, self.slot, str(agent), self._episode)
            if not self._agents:
                recorder.draw = drawing(self._env)
            self._agents[agent] = recorder
        recorder.add(action, *results)

    def _add_idle(self, agent: Any, value: float) -> None:
        run, name = self.run, self._episode.id
        if not run.pipe.open or not name:
            return
        ended = Episode(self._episode.number, name, value=value)
        where = (run.rank.slot(self.slot), ended, 0, run.position(), time.time(), str(agent))
        run.pipe.write_later(LINE_BYTES, lines.episode, *where)

    def _quietly(self, method: Any, *args: Any) -> None:
        if self.failure:
            return
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001 - a recorder's error is not the trainer's
            self.fail(error)

    def fail(self, error: Exception) -> None:
        """Stop recording; the run's log states why."""
        if not self.failure:
            self.failure = f"{type(error).__name__}: {error}"
            self.run.drop(f"slot {self.slot}: its agents are no longer recorded: {self.failure}")
