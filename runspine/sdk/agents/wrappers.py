"""Wrappers that record PettingZoo's envs: all agents at once (parallel), or one after another (AEC)."""

from __future__ import annotations

from typing import Any

import numpy as np
from pettingzoo import AECEnv, ParallelEnv
from pettingzoo.utils import BaseParallelWrapper, BaseWrapper

from runspine.sdk.agents.identity import AEC, PARALLEL, agents_identity
from runspine.sdk.agents.recorder import AgentsRecorder
from runspine.sdk.run import Run


class RecordedParallel(BaseParallelWrapper):  # type: ignore[misc]
    """A parallel env whose agents are recorded."""

    def __init__(self, env: Any, run: Run, slot: int) -> None:
        super().__init__(env)
        self.metadata = getattr(env, "metadata", {})
        self.recorder = AgentsRecorder(run, slot, env, lambda: agents_identity(env, PARALLEL))

    def reset(self, seed: Any = None, options: Any = None) -> Any:
        self.recorder.before_reset(seed, options)
        result = self.env.reset(seed=seed, options=options)
        self.recorder.begin(result[0])
        return result

    def step(self, actions: Any) -> Any:
        # Copies: an env may change them in place.
        taken = {agent: _kept(action) for agent, action in actions.items()}
        result = self.env.step(actions)
        observations, rewards, terminated, truncated, _ = result
        for agent, action in taken.items():
            if agent in rewards:
                row = (observations.get(agent), rewards[agent], terminated[agent], truncated[agent])
                self.recorder.add(agent, action, row)
        return result

    def close(self) -> Any:
        self.recorder.close()
        return self.env.close()


class RecordedAec(BaseWrapper):  # type: ignore[misc]
    """An AEC env whose agents are recorded.

    A step of an agent is complete at its next turn, where `last` gives the reward since its action. What an
    agent is given before its first action is part of the reward of that action.
    """

    def __init__(self, env: Any, run: Run, slot: int) -> None:
        super().__init__(env)
        self.recorder = AgentsRecorder(run, slot, env, lambda: agents_identity(env, AEC))
        self._turns = Turns(env, self.recorder)

    def reset(self, seed: Any = None, options: Any = None) -> None:
        self._turns.end()
        self.recorder.before_reset(seed, options)
        self.env.reset(seed=seed, options=options)
        self._turns.begin()

    def step(self, action: Any) -> None:
        self._turns.before(action)
        self.env.step(action)
        self._turns.after()

    def last(self, observe: bool = True) -> Any:
        return self.env.last(observe)

    def close(self) -> None:
        self._turns.end()
        self.recorder.close()
        self.env.close()


class Turns:
    """Completes the steps of agents that act one after another. Never raises."""

    def __init__(self, env: Any, recorder: AgentsRecorder) -> None:
        self._env, self._recorder = env, recorder
        # Actions whose step is not complete.
        self._actions: dict[Any, Any] = {}
        # Rewards before an agent's first action, and agents that have acted.
        self._early: dict[Any, float] = {}
        self._acted: set[Any] = set()

    def begin(self) -> None:
        """The env was reset."""
        self._quietly(self._begin)

    def before(self, action: Any) -> None:
        """The agent whose turn it is acts: its step before this one is complete."""
        if not self._recorder.failure:
            self._quietly(self._before, action)

    def after(self) -> None:
        """The env has stepped."""
        if not self._env.agents:
            self.end()

    def end(self) -> None:
        """The episode is over, or is left: complete what agents did last."""
        self._quietly(self._end)

    def _begin(self) -> None:
        self._actions, self._early, self._acted = {}, {}, set()
        first = {agent: self._observe(agent) for agent in list(self._env.agents)}
        self._recorder.begin(first)

    def _before(self, action: Any) -> None:
        agent = self._env.agent_selection
        _, reward, terminated, truncated, _ = self._env.last(observe=False)
        self._complete(agent, reward, terminated, truncated)
        if not (terminated or truncated):
            self._actions[agent] = _kept(action)
            self._acted.add(agent)

    def _end(self) -> None:
        env = self._env
        given = getattr(env, "_cumulative_rewards", {})
        for agent in list(self._actions):
            flags = (env.terminations.get(agent, False), env.truncations.get(agent, False))
            self._complete(agent, given.get(agent, 0.0), *flags)
        for agent, value in self._early.items():
            self._recorder.add_idle(agent, value)
        self._early = {}

    def _complete(self, agent: Any, reward: Any, terminated: Any, truncated: Any) -> None:
        if agent in self._actions:
            reward = reward + self._early.pop(agent, 0)
            row = (self._observe(agent), reward, terminated, truncated)
            self._recorder.add(agent, self._actions.pop(agent), row)
        elif agent not in self._acted:
            self._early[agent] = self._early.get(agent, 0.0) + float(reward)

    def _observe(self, agent: Any) -> Any:
        try:
            return self._env.observe(agent)
        except Exception as error:  # noqa: BLE001 - an env may refuse an agent that has ended
            self._recorder.run.drop(f"observation of {agent}: {type(error).__name__}", kind="observe")
            return None

    def _quietly(self, method: Any, *args: Any) -> None:
        try:
            method(*args)
        except Exception as error:  # noqa: BLE001 - an env may do anything when asked
            self._recorder.fail(error)


def wrapped(run: Run, env: Any, slot: int | None) -> Any:
    """The env with recording; None when it is none of PettingZoo's."""
    if isinstance(env, RecordedParallel | RecordedAec):
        return env
    if not isinstance(env, ParallelEnv | AECEnv):
        return None
    kind = RecordedParallel if isinstance(env, ParallelEnv) else RecordedAec
    return kind(env, run, run.free_slots() if slot is None else slot)


def _kept(action: Any) -> Any:
    return action.copy() if type(action) is np.ndarray else action
