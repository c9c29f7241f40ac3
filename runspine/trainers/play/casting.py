"""Finds the actor that an order names, in the env of a session."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import gymnasium as gym

from runspine.play.actor_names import BDI, FORMS, HUMAN, HYBRID, LLM, POLICY, RANDOM, SCRIPT, kind_of
from runspine.trainers.play.actors import Loading, NoActorError, PlayActor, agent, chance, policy, shared
from runspine.trainers.play.chat_actor import chat_actor
from runspine.trainers.play.keys import keys_for
from runspine.trainers.play.orders import ActorOrder
from runspine.trainers.play.scripts import script_actor

# Found without waiting; others are loaded in a thread.
AT_ONCE = (HUMAN, RANDOM, LLM)


class Casting:
    """The actors of one env. `run` records what BDI agents think."""

    def __init__(
        self, env: gym.Env[Any, Any], env_id: str, seed: int, run: Any, llm: dict[str, str] | None = None
    ) -> None:
        """`llm` are the variables of the language model."""
        self._env, self._env_id, self._seed, self._run = env, env_id, seed, run
        self._llm = llm or {}

    def find(self, order: ActorOrder) -> PlayActor | Loading:
        """The actor, or one that is being loaded. Raises NoActorError."""
        load = self._loader(order.actor, order.path)
        return load() if kind_of(order.actor) in AT_ONCE else Loading(order.actor, load)

    def first(self, order: ActorOrder, plans: str) -> PlayActor:
        """The actor that begins a session; `plans` are those of a BDI agent. Raises NoActorError."""
        return self._loader(order.actor, order.path, plans, first=True)()

    def _loader(
        self, name: str, path: Path | None, plans: str = "", *, first: bool = False
    ) -> Callable[[], PlayActor]:
        kind, _, rest = name.partition(":")
        env, env_id, seed = self._env, self._env_id, self._seed
        if kind == HYBRID and rest:
            self._check_keys()
            inner = self._loader(rest, path, plans, first=first)
            return lambda: shared(inner())
        if name == HUMAN:
            self._check_keys()
            return partial(PlayActor, HUMAN)
        if name == RANDOM:
            return partial(chance, env.action_space, seed)
        if kind == POLICY and path is not None:
            return partial(policy, name, path, env, env_id, seed)
        if kind == BDI and (path is not None or first):
            return partial(agent, name, path, plans, env, env_id, seed, self._run)
        if kind == SCRIPT:
            return partial(script_actor, name, env, seed)
        if kind == LLM:
            return partial(chat_actor, name, self._llm, env, env_id)
        raise NoActorError(f"no actor has this name; there are {FORMS}")

    def _check_keys(self) -> None:
        if keys_for(self._env_id, self._env.action_space) is None:
            raise NoActorError(f"keys cannot express {self._env.action_space}: choose random or a policy")
