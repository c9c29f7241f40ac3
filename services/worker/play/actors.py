"""Who can act: chance, the policy of a checkpoint, a BDI agent. A person acts through the session's keys."""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium import spaces

from runspine.checkpoints import BadCheckpoint
from services.worker.algorithms.checkpoints import Unusable
from services.worker.algorithms.envs import Unfit
from services.worker.evaluation.policy import load_policy

HUMAN, RANDOM, BDI, POLICY = "human", "random", "bdi", "policy:"
SPADE = "runspine[spade]"


class NoActor(Exception):
    """The one that was asked for cannot act; the message says why and what can be done."""


def _nothing(*_: Any) -> None:
    """Most actors only look at the observation that they are given."""


class Actor(NamedTuple):
    """A name for the record, and the next action for an observation. People have no function."""

    name: str
    # Raises NoActor when it cannot go on.
    act: Callable[[Any], Any] | None = None
    # Told when an episode begins, and what each of its own steps gave: observation, reward, two ends.
    began: Callable[[], None] = _nothing
    came: Callable[[Any, float, bool, bool], None] = _nothing


def chance(space: spaces.Space[Any], seed: int) -> Actor:
    """Any action, with a generator of its own: the env's must not notice."""
    own = copy.deepcopy(space)
    own.seed(seed)
    if isinstance(own, spaces.Discrete):
        # Python's numbers, as from everybody else: an episode has one kind of actions.
        return Actor(RANDOM, lambda _: int(own.sample()))
    return Actor(RANDOM, lambda _: own.sample())


def policy(name: str, path: Path, env: gym.Env[Any, Any], env_id: str, seed: int) -> Actor:
    """Raises NoActor."""
    try:
        found = load_policy(path, env, env_id, seed=seed)
    except Unfit as error:
        raise NoActor(
            f"{error}. Choose a policy made in {env_id}, or play in the env it was made in"
        ) from error
    except BadCheckpoint as error:
        raise NoActor(f"the checkpoint cannot be read: {error}") from error
    return Actor(name, found.act)


def agent(
    name: str, path: Path | None, plan_text: str, env: gym.Env[Any, Any], env_id: str, seed: int, run: Any
) -> Actor:
    """A BDI agent with the table and plans of its checkpoint, or with plans alone. Raises NoActor."""
    try:
        from services.worker.bdi.playing import Agent, Stuck
        from services.worker.bdi.program import BrokenPlans
        from services.worker.bdi.world import Unfit as NoTable
    except ModuleNotFoundError as error:
        raise NoActor(
            f"a BDI agent needs {error.name}, which the Python of this session ({sys.executable}) lacks: "
            f"pip install '{SPADE}' there"
        ) from error
    try:
        made = Agent(env, env_id, seed, run, path, plan_text)
    except NoTable as error:
        raise NoActor(f"{error}: play in a toy-text env such as FrozenLake-v1") from error
    except Unusable as error:
        way_out = f"choose an agent trained in {env_id}, or play in the env of this one"
        raise NoActor(f"{error}: {way_out}") from error
    except BrokenPlans as error:
        raise NoActor(str(error)) from error

    def act(observation: Any) -> int:
        try:
            return made.act(observation)
        except Stuck as error:
            raise NoActor(str(error)) from error

    return Actor(name, act, made.began, made.came)


class Loading:
    """A policy on its way, in a thread: whoever acts goes on meanwhile."""

    def __init__(self, name: str, load: Callable[[], Actor]) -> None:
        self.name = name
        self._load = load
        self._made: Actor | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"load-{name[:20]}")
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Actor:
        """Once it is done. Raises NoActor."""
        if self._made is None:
            raise NoActor(self._trouble)
        return self._made

    def _run(self) -> None:
        try:
            self._made = self._load()
        except NoActor as error:
            self._trouble = str(error)
        except Exception as error:  # noqa: BLE001 - the edge of the thread: a strange file is no end of a session
            self._trouble = f"{type(error).__name__}: {error}"
