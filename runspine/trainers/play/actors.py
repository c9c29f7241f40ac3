"""Actors of a session: chance, the policy of a checkpoint, a BDI agent. People act by the session's keys.

Scripts (`scripts`) and language models (`chat_actor`) have modules of their own.
"""

from __future__ import annotations

import copy
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import gymnasium as gym
from gymnasium import spaces

from runspine.checkpoints import CheckpointError
from runspine.play.actor_names import HYBRID, RANDOM, agent_of
from runspine.trainers.builtin.checkpoints import CheckpointUnusableError
from runspine.trainers.builtin.envs import EnvUnfitError
from runspine.trainers.evaluation.policy import load_policy

SPADE = "runspine[spade]"


class NoActorError(Exception):
    """The requested actor cannot act; the message gives the reason and the remedy."""


def _nothing(*_: Any) -> None:
    """Default for actors that need only the observation."""


def _no_turns() -> list[dict[str, Any]]:
    """Default for actors that do not answer in words."""
    return []


class PlayActor(NamedTuple):
    """Name of an actor on record, and its function from observation to action; people have none."""

    name: str
    # Raises NoActorError when it cannot act.
    act: Callable[[Any], Any] | None = None
    # Called when an episode begins or others have acted since, and with observation, reward, terminated and
    # truncated of its own steps. Both raise NoActorError.
    began: Callable[[], None] = _nothing
    came: Callable[[Any, float, bool, bool], None] = _nothing
    # Whether `act` may take seconds: it is called in a thread.
    slow: bool = False
    # Whether people share control: their keys count, and otherwise it acts.
    shared: bool = False
    # Prompts and answers since the last call, as `Run.log_turn` takes them.
    turns: Callable[[], list[dict[str, Any]]] = _no_turns

    @property
    def agent(self) -> str:
        """Its name on record for the steps that it chooses itself."""
        return agent_of(self.name)


def shared(actor: PlayActor) -> PlayActor:
    """The actor with people who can step in. Raises NoActorError."""
    if actor.act is None:
        raise NoActorError("people share control with an agent, not with themselves: choose another actor")
    return actor._replace(name=f"{HYBRID}:{actor.name}", shared=True)


def chance(space: spaces.Space[Any], seed: int) -> PlayActor:
    """An actor that samples actions, with its own generator so that the env's is not affected."""
    own = copy.deepcopy(space)
    own.seed(seed)
    if isinstance(own, spaces.Discrete):
        # Python numbers, as from other actors: an episode has one type of action.
        return PlayActor(RANDOM, lambda _: int(own.sample()))
    return PlayActor(RANDOM, lambda _: own.sample())


def policy(name: str, path: Path, env: gym.Env[Any, Any], env_id: str, seed: int) -> PlayActor:
    """The policy of a checkpoint. Raises NoActorError."""
    try:
        found = load_policy(path, env, env_id, seed=seed)
    except EnvUnfitError as error:
        raise NoActorError(
            f"{error}. Choose a policy made in {env_id}, or play in the env it was made in"
        ) from error
    except CheckpointError as error:
        raise NoActorError(f"the checkpoint cannot be read: {error}") from error
    return PlayActor(name, found.act)


def agent(
    name: str, path: Path | None, plan_text: str, env: gym.Env[Any, Any], env_id: str, seed: int, run: Any
) -> PlayActor:
    """A BDI agent with the table and plans of its checkpoint, or with plans only. Raises NoActorError."""
    try:
        from runspine.trainers.bdi.actor import AgentStuckError, BdiActor
        from runspine.trainers.bdi.program import PlansError
        from runspine.trainers.bdi.world import AgentEnvError as NoTable
    except ModuleNotFoundError as error:
        raise NoActorError(
            f"a BDI agent needs {error.name}, which the Python of this session ({sys.executable}) lacks: "
            f"pip install '{SPADE}' there"
        ) from error
    try:
        made = BdiActor(env, env_id, seed, run, path, plan_text)
    except NoTable as error:
        raise NoActorError(f"{error}: play in a toy-text env such as FrozenLake-v1") from error
    except CheckpointUnusableError as error:
        remedy = f"choose an agent trained in {env_id}, or play in the env of this one"
        raise NoActorError(f"{error}: {remedy}") from error
    except PlansError as error:
        raise NoActorError(str(error)) from error

    def act(observation: Any) -> int:
        try:
            return made.act(observation)
        except AgentStuckError as error:
            raise NoActorError(str(error)) from error

    return PlayActor(name, act, made.began, made.came)


class Thought:
    """The next action of a slow actor, found in a thread while the session goes on."""

    def __init__(self, act: Callable[[Any], Any], observation: Any) -> None:
        self._act, self._observation = act, observation
        self._action: Any = None
        self._trouble: NoActorError | None = None
        self._thread = threading.Thread(target=self._run, daemon=True, name="thought")
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> Any:
        """The action, once `done`. Raises NoActorError."""
        self._thread.join()
        if self._trouble is not None:
            raise self._trouble
        return self._action

    def _run(self) -> None:
        try:
            self._action = self._act(self._observation)
        except NoActorError as error:
            self._trouble = error
        except Exception as error:  # noqa: BLE001 - the edge of the thread
            self._trouble = NoActorError(f"{type(error).__name__}: {error}")


class Loading:
    """Loads a policy in a thread while another actor goes on."""

    def __init__(self, name: str, load: Callable[[], PlayActor]) -> None:
        self.name = name
        self._load = load
        self._made: PlayActor | None = None
        self._trouble = ""
        self._thread = threading.Thread(target=self._run, daemon=True, name=f"load-{name[:20]}")
        self._thread.start()

    @property
    def done(self) -> bool:
        return not self._thread.is_alive()

    def result(self) -> PlayActor:
        """The actor, once `done`. Raises NoActorError."""
        if self._made is None:
            raise NoActorError(self._trouble)
        return self._made

    def _run(self) -> None:
        try:
            self._made = self._load()
        except NoActorError as error:
            self._trouble = str(error)
        except Exception as error:  # noqa: BLE001 - the edge of the thread: a bad file does not end a session
            self._trouble = f"{type(error).__name__}: {error}"
