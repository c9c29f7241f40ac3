"""Who can act: chance, and the policy of a checkpoint. A person acts through the session's keys."""

from __future__ import annotations

import copy
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium import spaces

from runspine.checkpoints import BadCheckpoint
from services.worker.algorithms.envs import Unfit
from services.worker.evaluation.policy import load_policy

HUMAN, RANDOM, BDI, POLICY = "human", "random", "bdi", "policy:"


class NoActor(Exception):
    """The one that was asked for cannot act; the message says why and what can be done."""


class Actor(NamedTuple):
    """A name for the record, and the next action for an observation. People have no function."""

    name: str
    act: Callable[[Any], Any] | None = None


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
