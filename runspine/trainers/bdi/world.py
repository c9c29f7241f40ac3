"""The world of a BDI agent: an env, a table of values, and the actions of its plans."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import runspine
from runspine.trainers.bdi.args import Args
from runspine.trainers.bdi.mind import AgentMind
from runspine.trainers.bdi.table import ValueTable
from runspine.trainers.builtin.history import TrainingHistory
from runspine.trainers.output import echo

PRINT_SECONDS = 1.0
FINISHED = "finished"


class AgentEnvError(Exception):
    """The agent cannot act in this env; the message gives the reason."""


class PlanActionError(Exception):
    """The plans called an action that is not possible now."""


class World:
    """Called by the plans through `vocabulary`. `ended` is the reason why the run is over."""

    def __init__(self, args: Args, plan_text: str, run: Any) -> None:
        self.args, self.plan_text, self.run = args, plan_text, run
        self.ended = ""
        self.step = 0
        self.over = True
        self._mind: AgentMind | None = None
        self._make_env()
        self.table = ValueTable(int(self._observations.n), int(self._actions.n))
        self.rng = np.random.default_rng(args.seed)
        self.history = TrainingHistory(args.total_timesteps)
        self._state = 0
        self._return, self._length, self._path = 0.0, 0, set[int]()
        self._confidence = 0.0
        self._log_mind_at = self._print_at = 0.0

    def _make_env(self) -> None:
        try:
            env = gym.make(self.args.env_id, **json.loads(self.args.env_kwargs))
        except (gym.error.Error, ImportError, TypeError, ValueError, KeyError) as error:
            raise AgentEnvError(f"env {self.args.env_id} cannot be made: {error}") from error
        self._check_spaces(env)
        self.env = runspine.wrap(env)

    def _check_spaces(self, env: gym.Env[Any, Any]) -> None:
        """Check that the env has a table. Raises AgentEnvError."""
        seen, done = env.observation_space, env.action_space
        if not isinstance(seen, spaces.Discrete) or not isinstance(done, spaces.Discrete):
            raise AgentEnvError(
                f"a table needs discrete observations and actions, and {self.args.env_id} has "
                f"{seen} and {done}"
            )
        self._observations, self._actions = seen, done

    def attach(self, mind: AgentMind) -> None:
        """Set the mind, before any of its plans has run."""
        self._mind = mind

    @property
    def mind(self) -> AgentMind:
        assert self._mind is not None, "attach comes first"
        return self._mind

    # These differ between training, evaluation and play.

    @property
    def spent(self) -> bool:
        raise NotImplementedError

    def curious(self) -> bool:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def _seed(self) -> int | None:
        """Seed of the next reset."""
        raise NotImplementedError

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        raise NotImplementedError

    def _episode_over(self) -> None:
        raise NotImplementedError

    # Actions of the plans.

    def explore(self) -> int:
        return int(self.rng.integers(self._actions.n))

    def exploit(self) -> int:
        """The best action; a random one among equals, so that an empty table explores."""
        best = self.table.best(self._state)
        return best[0] if len(best) == 1 else best[int(self.rng.integers(len(best)))]

    def begin(self) -> None:
        """Begin the next episode."""
        seen, _ = self.env.reset(seed=self._seed())
        self._arrive(self._numbered(seen))

    def _numbered(self, seen: Any) -> int:
        """Row of the table for an observation."""
        return int(seen) - int(self._observations.start)

    def _arrive(self, state: int) -> None:
        self.over = False
        self._return, self._length = 0.0, 0
        self._state = state
        self._path = {self._state}
        self.mind.put("episode", self.history.episodes + 1)
        self.mind.put("state", self._state)
        self.mind.drop("over")

    def act(self, wanted: object) -> None:
        """Take an action and learn from its result."""
        action = self._checked(wanted)
        seen, reward, terminated, truncated, _ = self.env.step(action + int(self._actions.start))
        over = bool(terminated or truncated)
        self._came(action, self._numbered(seen), float(reward), bool(terminated), over)

    def _came(self, action: int, after: int, gained: float, terminated: bool, over: bool) -> None:
        """Learn from the result of a step, and update beliefs."""
        self._learn(action, gained, after, terminated)
        self.step += 1
        self._state, self.over = after, over
        self._return += gained
        self._length += 1
        self._path.add(after)
        mind = self.mind
        mind.put("state", after)
        mind.put("did", action)
        mind.put("reward", gained)
        if self.over:
            mind.put("over")
        now = time.monotonic()
        if now >= self._log_mind_at:
            self._log_mind_at = now + self.args.mind_seconds
            self.log_mind()

    def _checked(self, wanted: object) -> int:
        if self.over:
            raise PlanActionError(".act after the end of an episode: .begin comes first")
        count = int(self._actions.n)
        if not isinstance(wanted, int | float) or wanted not in range(count):
            # Numbers of AgentSpeak are floats.
            shown = f"{wanted:g}" if isinstance(wanted, float) else wanted
            raise PlanActionError(f".act({shown}): the actions of {self.args.env_id} are 0 to {count - 1}")
        return int(wanted)

    def reflect(self) -> None:
        """Update return and confidence after an episode."""
        if not self.over:
            raise PlanActionError(".reflect in the middle of an episode: .act until it is over")
        self.history.add(self.step, self._return)
        self._chart()
        # The agent never acts in the last state of an episode.
        self._confidence = self.table.confidence(self._path - {self._state})
        self.mind.put("mean_return", round(self.history.mean, 4))
        self.mind.put("confidence", round(self._confidence, 3))
        self.mind.put("known_states", self.table.known)
        self._episode_over()

    def _chart(self) -> None:
        charts = {"charts/episodic_return": self._return, "charts/episodic_length": self._length}
        self.run.log(charts, step=self.step)
        now = time.monotonic()
        if now >= self._print_at:
            self._print_at = now + PRINT_SECONDS
            echo(f"global_step={self.step}, episodic_return={self._return:.6g}")

    def log_mind(self) -> None:
        """Record the current state of the mind."""
        self.run.log_mind(**self.mind.seen(), confidence=round(self._confidence, 4), step=self.step)

    # When the run does not end by its plans.

    def keep(self) -> str:
        """Save what is worth saving; return a sentence about it."""
        raise NotImplementedError
