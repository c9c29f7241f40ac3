"""What a language model is asked in an env, and how its answer becomes an action. Pure."""

from __future__ import annotations

import inspect
import json
import re
from collections import deque
from collections.abc import Sequence
from typing import Any, NamedTuple

import gymnasium as gym
import numpy as np
from gymnasium import spaces

MAX_RULES = 4_000
MAX_OBSERVATION = 4_000
# Steps before this one that a question repeats.
MAX_HISTORY = 8
_NUMBER = re.compile(r"(?<![\w.])-?\d+(?![\w.]*\w)")
_LIST = re.compile(r"\[[^\[\]]*\]")


class NotAnActionError(Exception):
    """The answer names no legal action; the message is for the model."""


class PlayedStep(NamedTuple):
    """One step of the episode so far."""

    observation: str
    action: str
    reward: float


def speaks(space: spaces.Space[Any]) -> bool:
    """Whether words can express the actions of the space."""
    return isinstance(space, spaces.Discrete) or (isinstance(space, spaces.Box) and space.dtype.kind == "f")


class ChatPrompt:
    """The questions of one session in one env."""

    def __init__(self, env: gym.Env[Any, Any], env_id: str, names: Sequence[str] = ()) -> None:
        """`names` are those of discrete actions, where they are known."""
        self._space = env.action_space
        self._names = self._named(names)
        self._rules = _rules(env, env_id)
        self._history: deque[PlayedStep] = deque(maxlen=MAX_HISTORY)

    def began(self) -> None:
        self._history.clear()

    def came(self, observation: Any, action: Any, reward: float) -> None:
        """Remember a step that was taken at an observation."""
        self._history.append(PlayedStep(observed(observation), self._action_text(action), reward))

    def messages(self, observation: Any) -> list[dict[str, str]]:
        lines = [
            f"At {step.observation} you chose {step.action} and got reward {step.reward:g}."
            for step in self._history
        ]
        lines.append(f"Now the observation is {observed(observation)}. Your action?")
        return [
            {"role": "system", "content": f"{self._rules}\n\n{self._how()}"},
            {"role": "user", "content": "\n".join(lines)},
        ]

    def action(self, answer: str) -> Any:
        """The action that an answer names. Raises NotAnActionError."""
        return (
            self._discrete(answer) if isinstance(self._space, spaces.Discrete) else self._continuous(answer)
        )

    def _named(self, names: Sequence[str]) -> dict[int, str]:
        if not isinstance(self._space, spaces.Discrete):
            return {}
        first = int(self._space.start)
        return {first + number: name for number, name in enumerate(names[: int(self._space.n)]) if name}

    def _how(self) -> str:
        space = self._space
        if isinstance(space, spaces.Discrete):
            first = int(space.start)
            numbers = range(first, first + int(space.n))
            known = [f"{number} ({self._names[number]})" for number in numbers if number in self._names]
            legal = ", ".join(known) if len(known) == len(numbers) else f"{numbers[0]} to {numbers[-1]}"
            return f"The actions are {legal}. Answer with one number or name, and nothing else."
        assert isinstance(space, spaces.Box)
        low, high = _plain(space.low), _plain(space.high)
        return (
            f"An action is a JSON list of {spaces.flatdim(space)} numbers, at least {low}, at most {high}. "
            "Answer with one such list, and nothing else."
        )

    def _discrete(self, answer: str) -> int:
        assert isinstance(self._space, spaces.Discrete)
        first, count = int(self._space.start), int(self._space.n)
        # Digits beyond those of any action are none; Python limits how many it converts.
        words = [word for word in _NUMBER.findall(answer) if len(word) <= len(str(first + count)) + 1]
        found = {number for number in map(int, words) if first <= number < first + count}
        lower = answer.lower()
        found |= {
            number for number, name in self._names.items() if re.search(rf"\b{re.escape(name)}\b", lower)
        }
        if len(found) == 1:
            return found.pop()
        what = "names several actions" if found else "names no action"
        raise NotAnActionError(f"Your answer {what}. {self._how()}")

    def _continuous(self, answer: str) -> Any:
        space = self._space
        assert isinstance(space, spaces.Box)
        for text in reversed(_LIST.findall(answer)):
            try:
                values = np.array(json.loads(text), dtype=space.dtype)
            except (ValueError, TypeError, OverflowError):
                continue
            if values.size == spaces.flatdim(space):
                action = values.reshape(space.shape)
                if space.contains(action):
                    return action
        raise NotAnActionError(f"Your answer holds no legal action. {self._how()}")

    def _action_text(self, action: Any) -> str:
        if isinstance(self._space, spaces.Discrete):
            return self._names.get(int(action), str(int(action)))
        return _plain(action)


def observed(observation: Any) -> str:
    """An observation as text; a picture only by its shape."""
    if isinstance(observation, np.ndarray) and observation.size > 500:
        return f"an array of shape {observation.shape}"
    return _plain(observation)[:MAX_OBSERVATION]


def _plain(value: Any) -> str:
    return json.dumps(_jsonable(value))


def _jsonable(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return _jsonable(value.tolist())
    if isinstance(value, np.generic):
        return _jsonable(value.item())
    if isinstance(value, float):
        return float(f"{value:.5g}")
    if isinstance(value, dict):
        return {str(key): _jsonable(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_jsonable(each) for each in value]
    return value if isinstance(value, int | str | bool | None) else str(value)


def _rules(env: gym.Env[Any, Any], env_id: str) -> str:
    """What the env's author wrote about it, and its map if it has one."""
    described = inspect.getdoc(type(env.unwrapped)) or ""
    drawn = getattr(env.unwrapped, "desc", None)
    parts = [f"You play {env_id}. Get as much reward as you can.", described[:MAX_RULES].strip()]
    if isinstance(drawn, np.ndarray) and drawn.dtype.kind == "S" and drawn.ndim == 2 and drawn.size <= 4_096:
        rows = [b"".join(row).decode(errors="replace") for row in drawn.tolist()]
        parts.append("The map:\n" + "\n".join(rows))
    return "\n\n".join(part for part in parts if part)
