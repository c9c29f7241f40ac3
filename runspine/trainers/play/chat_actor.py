"""An actor that asks a language model for each action; prompts and answers are on record."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import gymnasium as gym

from runspine.play.actor_names import LLM
from runspine.play.llm_settings import VARIABLES, LlmSettings, LlmSettingsError, read_llm_settings
from runspine.trainers.play.actors import NoActorError, PlayActor
from runspine.trainers.play.chat_endpoint import ChatEndpoint, EndpointError
from runspine.trainers.play.chat_prompt import ChatPrompt, NotAnActionError, speaks
from runspine.trainers.play.keys import Chords, keys_for

# Answers that name no legal action, until the actor gives up.
MAX_ANSWERS = 3
MAX_SHOWN = 120


def take_variables() -> dict[str, str]:
    """Take the variables of the model out of this process: neither an env nor a child sees the key."""
    return {name: os.environ.pop(name) for name in VARIABLES if name in os.environ}


def chat_actor(name: str, variables: dict[str, str], env: gym.Env[Any, Any], env_id: str) -> PlayActor:
    """The actor `llm` or `llm:MODEL`. Raises NoActorError."""
    try:
        settings = read_llm_settings(variables, name.removeprefix(LLM).removeprefix(":"))
    except LlmSettingsError as error:
        raise NoActorError(str(error)) from error
    if not speaks(env.action_space):
        raise NoActorError(f"words cannot express the actions {env.action_space}: choose random or a policy")
    made = ChatActor(name, settings, env, env_id)
    return PlayActor(name, made.act, made.began, made.came, slow=True, turns=made.turns)


class ChatActor:
    """Asks for each action, again when an answer names none. `act` runs in a thread, `turns` after it."""

    def __init__(
        self,
        name: str,
        settings: LlmSettings,
        env: gym.Env[Any, Any],
        env_id: str,
        pause: Callable[[float], None] = time.sleep,
    ) -> None:
        self._name = name
        self._model = settings.model
        self._endpoint = ChatEndpoint(settings, pause)
        self._prompt = ChatPrompt(env, env_id, _names(env_id, env))
        self._asked: Any = None
        self._chosen: Any = None
        self._turns: list[dict[str, Any]] = []

    def began(self) -> None:
        self._prompt.began()

    def came(self, observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        self._prompt.came(self._asked, self._chosen, reward)

    def turns(self) -> list[dict[str, Any]]:
        """Prompts and answers since the last call."""
        taken, self._turns = self._turns, []
        return taken

    def act(self, observation: Any) -> Any:
        """The model's action. Raises NoActorError."""
        messages, answer = self._prompt.messages(observation), ""
        for _ in range(MAX_ANSWERS):
            asked, began = list(messages), time.monotonic()
            try:
                answer = self._endpoint.ask(asked)
            except EndpointError as error:
                self._record(asked, "", began, problem=str(error))
                raise NoActorError(str(error)) from error
            try:
                action = self._prompt.action(answer)
            except NotAnActionError as error:
                self._record(asked, answer, began, problem=str(error))
                messages += [
                    {"role": "assistant", "content": answer},
                    {"role": "user", "content": str(error)},
                ]
                continue
            self._record(asked, answer, began, action=action)
            self._asked, self._chosen = observation, action
            return action
        raise NoActorError(
            f"{self._model} has named no legal action in {MAX_ANSWERS} answers, "
            f"the last: {answer[:MAX_SHOWN]!r}"
        )

    def _record(
        self, asked: list[dict[str, str]], answer: str, began: float, action: Any = None, problem: str = ""
    ) -> None:
        plain = action.tolist() if hasattr(action, "tolist") else action
        turn = {"actor": self._name, "prompt": asked, "answer": answer, "action": plain}
        self._turns.append({**turn, "problem": problem, "seconds": round(time.monotonic() - began, 6)})


def _names(env_id: str, env: gym.Env[Any, Any]) -> list[str]:
    """Names of the discrete actions, as next to the keys of a person."""
    meanings: list[str] = getattr(env.unwrapped, "get_action_meanings", list)()
    keys = keys_for(env_id, env.action_space, meanings)
    if meanings or not isinstance(keys, Chords):
        return [meaning.lower() for meaning in meanings]
    known = {choice.action: choice.name.lower() for choice in keys.choices if len(choice.keys) == 1}
    named = any(not name.startswith("action ") for name in known.values())
    return [known.get(number, "") for number in range(max(known, default=-1) + 1)] if named else []
