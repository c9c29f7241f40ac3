"""One env with several agents in which an episode is replayed, each agent compared with its own record."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from runspine.replay.divergence import Divergence
from runspine.replay.record import EpisodeRecord
from runspine.replay.stage import Moment
from runspine.replay.verifier import ReplayVerifier, as_float
from runspine.replay.ways import Way, fitted
from runspine.sdk.agents.digest import first_digest
from runspine.sdk.agents.identity import PARALLEL
from runspine.sdk.episode_start import set_start


class AgentsVerifier:
    """Compares each agent with its record. `steps` are those of the env: calls of `step`."""

    def __init__(self, record: EpisodeRecord) -> None:
        self.records = {name: EpisodeRecord(record.response, name) for name in record.agents}
        self._verifiers = {name: ReplayVerifier(each) for name, each in self.records.items()}
        self.taken = dict.fromkeys(self.records, 0)
        self.divergence: Divergence | None = None
        self.steps = 0

    def left(self, agent: str) -> bool:
        """Whether the agent has a recorded action that was not replayed."""
        return agent in self.records and self.taken[agent] < self.records[agent].length

    def stepped(self, agent: str, number: int, result: tuple[Any, ...]) -> None:
        """Compare the result of an agent's action."""
        found = self._verifiers[agent].stepped(number, result)
        if found is not None and self.divergence is None:
            self.divergence = replace(found, step=self.steps, field=f"{found.field} of {agent}")

    def diverged(self, field: str, recorded: Any, got: Any) -> Divergence:
        """Keep the first difference."""
        self.divergence = self.divergence or Divergence(self.steps, field, recorded, got)
        return self.divergence


class AgentsStage:
    """As a Stage: plays the recorded actions of all agents."""

    def __init__(self, record: EpisodeRecord, env: Any, way: Way) -> None:
        self.record, self.env, self.way = record, env, way
        self.verifier = AgentsVerifier(record)
        self._agents: dict[str, Any] = {}
        self._early: dict[str, float] = {}
        # AEC: agents whose action is not complete, with its number.
        self._open: dict[str, int] = {}
        self.at = 0

    def begin(self) -> Moment:
        try:
            for _ in range(self.way.resets):
                self.env.reset()
            how = self.record.start
            set_start(self.env, how)
            result = self.env.reset(seed=how.seed, options=how.options)
            if self._is_parallel:
                first = result[0]
            else:
                first = {agent: self.env.observe(agent) for agent in list(self.env.agents)}
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            return Moment(None, None, divergence=self._raised(error))
        expected, got = self.record.response.reset.observation_hash, first_digest(first)
        if expected and expected != got:
            self.verifier.divergence = Divergence(None, "observation", expected.hex(), got.hex())
        return Moment(None, first, divergence=self.verifier.divergence)

    def moments(self) -> Iterator[Moment]:
        """Yield moments up to the last action, or until the env ends."""
        while self._goes_on:
            moment = self.step()
            yield moment
            if moment.observation is None:
                return

    def step(self) -> Moment:
        """One call of the env's `step`."""
        try:
            moment = self._step_all() if self._is_parallel else self._take_turn()
        except Exception as error:  # noqa: BLE001 - an env may raise anything
            return Moment(self.at, None, divergence=self._raised(error))
        self.at += 1
        if self.verifier.divergence is None:
            self.verifier.steps = self.at
        return moment

    def verify(self) -> Divergence | None:
        """Replay to the first divergence, or to the end."""
        if self.begin().divergence is None:
            for moment in self.moments():
                if moment.divergence is not None:
                    break
        return self.verifier.divergence

    @property
    def _is_parallel(self) -> bool:
        return self.record.env.agents == PARALLEL

    @property
    def _goes_on(self) -> bool:
        return bool(self.env.agents) and any(map(self.verifier.left, self.verifier.records))

    def _step_all(self) -> Moment:
        actions, check = {}, self.verifier
        for agent in self.env.agents:
            if not check.left(str(agent)):
                return self._ended(check.diverged("action", None, f"{agent} is still in the env"))
            actions[agent] = self._action(str(agent), agent)
        observations, rewards, terminated, truncated, _ = self.env.step(dict(actions))
        for agent in actions:
            result: tuple[Any, ...] = (
                observations.get(agent),
                rewards[agent],
                terminated[agent],
                truncated[agent],
                {},
            )
            self._check(str(agent), check.taken[str(agent)] - 1, result)
        ended = all(terminated.values()), all(truncated.values())
        total = sum(map(as_float, rewards.values()))
        return Moment(self.at, observations, actions, total, *ended, {}, check.divergence)

    def _take_turn(self) -> Moment:
        """The agent whose turn it is acts, as recorded; one that has ended does not."""
        agent, name = self.env.agent_selection, str(self.env.agent_selection)
        self._complete(agent, *self.env.last(observe=False)[1:4])
        over = self.env.terminations[agent] or self.env.truncations[agent]
        if not over and not self.verifier.left(name):
            # The trainer left the episode here.
            return self._ended(self.verifier.divergence)
        action = None if over else self._action(name, agent)
        if not over:
            self._open[name] = self.verifier.taken[name] - 1
            self._early.setdefault(name, 0.0)
        self.env.step(action)
        if not self._goes_on:
            self._complete_all()
        reward = sum(map(as_float, self.env.rewards.values()))
        return Moment(self.at, {}, {name: action}, reward, not self.env.agents, False, {}, self._divergence)

    @property
    def _divergence(self) -> Divergence | None:
        return self.verifier.divergence

    def _complete_all(self) -> None:
        """The last action is replayed: agents that have ended take their turns, then the rest is compared."""
        while self.env.agents and all(map(self._is_over, self.env.agents)):
            agent = self.env.agent_selection
            self._complete(agent, *self.env.last(observe=False)[1:4])
            self.env.step(None)
        given = getattr(self.env, "_cumulative_rewards", {})
        for name in list(self._open):
            agent = self._agents[name]
            flags = self.env.terminations.get(agent, False), self.env.truncations.get(agent, False)
            self._complete(agent, given.get(agent, 0.0), *flags)

    def _is_over(self, agent: Any) -> bool:
        return bool(self.env.terminations[agent] or self.env.truncations[agent])

    def _complete(self, agent: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        name = str(agent)
        if name in self._open:
            number = self._open.pop(name)
            early = self._early.get(name, 0.0) if number == 0 else 0.0
            result: tuple[Any, ...] = (
                self.env.observe(agent),
                as_float(reward) + early,
                terminated,
                truncated,
                {},
            )
            self._check(name, number, result)
        elif name not in self._agents:
            self._early[name] = self._early.get(name, 0.0) + as_float(reward)

    def _check(self, agent: str, number: int, result: tuple[Any, ...]) -> None:
        self.verifier.stepped(agent, number, result)

    def _action(self, name: str, agent: Any) -> Any:
        """The agent's next recorded action."""
        self._agents[name] = agent
        record, number = self.verifier.records[name], self.verifier.taken[name]
        self.verifier.taken[name] += 1
        action = record.action(number, self.way.python)
        is_structure = type(action) is dict or type(action) is list
        return fitted(self.env.action_space(agent), action) if is_structure else action

    def _ended(self, divergence: Divergence | None) -> Moment:
        self._complete_all()
        return Moment(self.at, None, divergence=divergence or self.verifier.divergence)

    def _raised(self, error: Exception) -> Divergence:
        return self.verifier.diverged("error", None, f"{type(error).__name__}: {error}")
