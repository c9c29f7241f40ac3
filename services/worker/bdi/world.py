"""What the agent lives in: an env, a table of values, and the words its plans have for them."""

from __future__ import annotations

import json
import time
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces

import runspine
from services.worker.algorithms.history import History
from services.worker.bdi.args import Args
from services.worker.bdi.mind import Mind
from services.worker.bdi.table import Table

PRINT_SECONDS = 1.0
FINISHED = "finished"


class Unfit(Exception):
    """The agent cannot live in this env; the message says why."""


class Misuse(Exception):
    """The plans asked for something that makes no sense now."""


class World:
    """Called by the plans, through the vocabulary. `ended` is why there is nothing more to do."""

    def __init__(self, args: Args, plan_text: str, run: Any) -> None:
        self.args, self.plan_text, self.run = args, plan_text, run
        self.ended = ""
        self.step = 0
        self.over = True
        self._mind: Mind | None = None
        self._make_env()
        self.table = Table(int(self._observations.n), int(self._actions.n))
        self.rng = np.random.default_rng(args.seed)
        self.history = History(args.total_timesteps)
        self._state = 0
        self._return, self._length, self._path = 0.0, 0, set[int]()
        self._confidence = 0.0
        self._look_at = self._print_at = 0.0

    def _make_env(self) -> None:
        try:
            env = gym.make(self.args.env_id, **json.loads(self.args.env_kwargs))
        except (gym.error.Error, ImportError, TypeError, ValueError, KeyError) as error:
            raise Unfit(f"env {self.args.env_id} cannot be made: {error}") from error
        self._settle(env)
        self.env = runspine.wrap(env)

    def _settle(self, env: gym.Env[Any, Any]) -> None:
        """See whether there can be a table for the env."""
        seen, done = env.observation_space, env.action_space
        if not isinstance(seen, spaces.Discrete) or not isinstance(done, spaces.Discrete):
            raise Unfit(
                f"a table needs discrete observations and actions, and {self.args.env_id} has "
                f"{seen} and {done}"
            )
        self._observations, self._actions = seen, done

    def attach(self, mind: Mind) -> None:
        """The mind that lives here from now on. It is a fresh one: no plan of it has run yet."""
        self._mind = mind

    @property
    def mind(self) -> Mind:
        assert self._mind is not None, "attach comes first"
        return self._mind

    # What is different when the agent only shows what it can.

    @property
    def spent(self) -> bool:
        raise NotImplementedError

    def curious(self) -> bool:
        raise NotImplementedError

    def finish(self) -> None:
        raise NotImplementedError

    def _seed(self) -> int | None:
        """Of the next reset."""
        raise NotImplementedError

    def _learn(self, action: int, gained: float, after: int, terminated: bool) -> None:
        raise NotImplementedError

    def _episode_over(self) -> None:
        raise NotImplementedError

    # What the plans can do.

    def explore(self) -> int:
        return int(self.rng.integers(self._actions.n))

    def exploit(self) -> int:
        """Among equals any, or an untouched table would never leave its corner."""
        best = self.table.best(self._state)
        return best[0] if len(best) == 1 else best[int(self.rng.integers(len(best)))]

    def begin(self) -> None:
        """The next episode."""
        seen, _ = self.env.reset(seed=self._seed())
        self._arrive(self._numbered(seen))

    def _numbered(self, seen: Any) -> int:
        """An observation as a row of the table."""
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
        """Take an action, and learn from what happens."""
        action = self._checked(wanted)
        seen, reward, terminated, truncated, _ = self.env.step(action + int(self._actions.start))
        over = bool(terminated or truncated)
        self._came(action, self._numbered(seen), float(reward), bool(terminated), over)

    def _came(self, action: int, after: int, gained: float, terminated: bool, over: bool) -> None:
        """What a step gave: learnt from, and believed."""
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
        if now >= self._look_at:
            self._look_at = now + self.args.mind_seconds
            self.look()

    def _checked(self, wanted: object) -> int:
        if self.over:
            raise Misuse(".act after the end of an episode: .begin comes first")
        count = int(self._actions.n)
        if not isinstance(wanted, int | float) or wanted not in range(count):
            # AgentSpeak's numbers are floats.
            said = f"{wanted:g}" if isinstance(wanted, float) else wanted
            raise Misuse(f".act({said}): the actions of {self.args.env_id} are 0 to {count - 1}")
        return int(wanted)

    def reflect(self) -> None:
        """After an episode: what it was worth, and how sure the agent is by now."""
        if not self.over:
            raise Misuse(".reflect in the middle of an episode: .act until it is over")
        self.history.add(self.step, self._return)
        self._chart()
        # What comes after the end of an episode is never acted in.
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
            say(f"global_step={self.step}, episodic_return={self._return:.6g}")

    def look(self) -> None:
        """The mind as it is now, for whoever watches."""
        self.run.log_mind(**self.mind.seen(), confidence=round(self._confidence, 4), step=self.step)

    # When it ends otherwise than by the plans.

    def keep(self) -> str:
        """Save what is worth saving; where it is, or that there is nothing."""
        raise NotImplementedError


def say(text: str) -> None:
    print(text, flush=True)  # noqa: T201 - a trainer's standard output is its log
