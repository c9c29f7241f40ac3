"""Mapping of keys to actions by env, with the browser's key names. Pure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces

LEFT, RIGHT, UP, DOWN, SPACE = "ArrowLeft", "ArrowRight", "ArrowUp", "ArrowDown", " "
DIGITS = "0123456789abcdefghijklmnopqrstuvwxyz"
# Pairs of keys for the axes of continuous actions: decrease, increase.
PAIRS = ((LEFT, RIGHT), (DOWN, UP), ("a", "d"), ("s", "w"), ("j", "l"), ("k", "i"))
# Family of an id: without module, namespace and version.
_FAMILY = re.compile(r"(?:[\w.]+:)?(?:[\w-]+/)?(?P<name>.+?)(?:-v\d+)?\Z")


class Hint(NamedTuple):
    """A key and the name of its action."""

    key: str
    action: str


class KeyChoice(NamedTuple):
    """An action, and the keys held together for it."""

    keys: tuple[str, ...]
    action: int
    name: str


@dataclass(frozen=True, slots=True)
class Chords:
    """Discrete actions. The choice with most keys held wins; among equals the one pressed last."""

    choices: tuple[KeyChoice, ...]
    # Action while no key is held; None repeats the last one.
    idle: int | None = None
    first: int = 0

    @property
    def hints(self) -> list[Hint]:
        return [Hint(c.keys[0], c.name) for c in self.choices if len(c.keys) == 1]

    def chosen(self, held: Sequence[str]) -> Any:
        """Action for the keys in `held`, in the order of pressing; None when there is none."""
        at = {key: place for place, key in enumerate(held)}
        meant = [c for c in self.choices if all(key in at for key in c.keys)]
        if not meant:
            return None
        best = max(meant, key=lambda c: (len(c.keys), max(at[key] for key in c.keys)))
        return best.action + self.first

    @property
    def at_rest(self) -> Any:
        return None if self.idle is None else self.idle + self.first


@dataclass(frozen=True, slots=True)
class Axes:
    """Continuous actions: a held key moves an axis to its bound."""

    space: spaces.Box
    pushes: tuple[tuple[str, int, bool, str], ...]

    @property
    def hints(self) -> list[Hint]:
        return [Hint(key, name) for key, _, _, name in self.pushes]

    def chosen(self, held: Sequence[str]) -> Any:
        """Action for the held keys; None when none of them is mapped."""
        meant = [push for push in self.pushes if push[0] in held]
        if not meant:
            return None
        action = self.at_rest
        flat, low, high = action.reshape(-1), _ends(self.space.low, -1.0), _ends(self.space.high, 1.0)
        for _, axis, more, _ in meant:
            flat[axis] = (high if more else low)[axis]
        return action

    @property
    def at_rest(self) -> Any:
        zero = np.zeros(self.space.shape, self.space.dtype)
        return np.clip(zero, self.space.low, self.space.high).astype(self.space.dtype)


Keys = Chords | Axes


def _ends(bound: np.ndarray[Any, Any], otherwise: float) -> np.ndarray[Any, Any]:
    """Bound of each axis; `otherwise` where there is none."""
    flat = bound.reshape(-1)
    return np.where(np.isfinite(flat), flat, otherwise)


def _chords(
    names: Sequence[tuple[str, str]], idle: int | None = None
) -> tuple[tuple[KeyChoice, ...], int | None]:
    """Choices for the actions from 0 on, by key and name; an empty key for an action without one."""
    found = [KeyChoice((key,), number, name) for number, (key, name) in enumerate(names) if key]
    return tuple(found), idle


_GRID = [(LEFT, "left"), (DOWN, "down"), (RIGHT, "right"), (UP, "up")]
KNOWN: dict[str, tuple[tuple[KeyChoice, ...], int | None]] = {
    "CartPole": _chords([(LEFT, "push left"), (RIGHT, "push right")]),
    "MountainCar": _chords([(LEFT, "push left"), ("", ""), (RIGHT, "push right")], 1),
    "Acrobot": _chords([(LEFT, "turn left"), ("", ""), (RIGHT, "turn right")], 1),
    "LunarLander": _chords(
        [("", ""), (LEFT, "left engine"), (UP, "main engine"), (RIGHT, "right engine")], 0
    ),
    "CarRacing": _chords(
        [("", ""), (RIGHT, "steer right"), (LEFT, "steer left"), (UP, "gas"), (DOWN, "brake")], 0
    ),
    "FrozenLake": _chords(_GRID),
    "FrozenLake8x8": _chords(_GRID),
    "CliffWalking": _chords([(UP, "up"), (RIGHT, "right"), (DOWN, "down"), (LEFT, "left")]),
    "CliffWalkingSlippery": _chords([(UP, "up"), (RIGHT, "right"), (DOWN, "down"), (LEFT, "left")]),
    "Taxi": _chords(
        [(DOWN, "south"), (UP, "north"), (RIGHT, "east"), (LEFT, "west"), ("p", "pick up"), ("d", "drop off")]
    ),
    "Blackjack": _chords([("s", "stick"), ("h", "hit")]),
    "MiniGrid": _chords(
        [
            (LEFT, "turn left"),
            (RIGHT, "turn right"),
            (UP, "forward"),
            ("p", "pick up"),
            ("d", "drop"),
            (SPACE, "toggle"),
            ("Enter", "done"),
        ]
    ),
}
KNOWN["BabyAI"] = KNOWN["MiniGrid"]
AXES: dict[str, tuple[tuple[str, int, bool, str], ...]] = {
    "CarRacing": (
        (LEFT, 0, False, "steer left"),
        (RIGHT, 0, True, "steer right"),
        (UP, 1, True, "gas"),
        (DOWN, 2, True, "brake"),
    ),
    "LunarLander": (
        (UP, 0, True, "main engine"),
        (LEFT, 1, False, "left engine"),
        (RIGHT, 1, True, "right engine"),
    ),
    "Pendulum": ((LEFT, 0, False, "turn left"), (RIGHT, 0, True, "turn right")),
    "MountainCarContinuous": ((LEFT, 0, False, "push left"), (RIGHT, 0, True, "push right")),
}
# An emulator's names for the parts of an action.
_PARTS = {"FIRE": SPACE, "UP": UP, "DOWN": DOWN, "LEFT": LEFT, "RIGHT": RIGHT}
TURNS = ("FrozenLake", "CliffWalking", "Taxi", "Blackjack", "MiniGrid", "BabyAI")


def family(env_id: str) -> str:
    """Family of an env id: CartPole for CartPole-v1; MiniGrid for every id that begins with it."""
    found = _FAMILY.match(env_id)
    name = found["name"] if found else env_id
    head = name.partition("-")[0]
    return head if head in ("MiniGrid", "BabyAI") else name.removesuffix("Continuous")


def keys_for(env_id: str, actions: spaces.Space[Any], meanings: Sequence[str] = ()) -> Keys | None:
    """Mapping of an env; None when keys cannot express its actions."""
    if isinstance(actions, spaces.Box):
        return Axes(actions, _axes(env_id, actions)) if actions.dtype.kind == "f" else None
    if not isinstance(actions, spaces.Discrete):
        return None
    count, first = int(actions.n), int(actions.start)
    choices, idle = KNOWN.get(family(env_id), ((), None))
    if choices and max(choice.action for choice in choices) < count:
        return Chords(choices, idle, first)
    if len(meanings) == count:
        return _emulator(meanings, first)
    digits = zip(DIGITS, range(count), strict=False)
    return Chords(tuple(KeyChoice((key,), n, f"action {n + first}") for key, n in digits), None, first)


def _axes(env_id: str, actions: spaces.Box) -> tuple[tuple[str, int, bool, str], ...]:
    size = int(np.prod(actions.shape))
    known = AXES.get(family(env_id), ())
    if known and max(axis for _, axis, _, _ in known) < size:
        return known
    found = []
    for axis, (less, more) in zip(range(size), PAIRS, strict=False):
        found += [(less, axis, False, f"axis {axis} −"), (more, axis, True, f"axis {axis} +")]
    return tuple(found)


def _emulator(meanings: Sequence[str], first: int) -> Chords:
    """Mapping for an emulator: UPRIGHTFIRE is three keys at once."""
    choices, idle = [], None
    for number, word in enumerate(meanings):
        held = [key for part, key in _PARTS.items() if part in word]
        if held:
            choices.append(KeyChoice(tuple(held), number, word.lower()))
        else:
            idle = number
    return Chords(tuple(choices), idle, first)


def is_turn_based(env_id: str, observations: spaces.Space[Any]) -> bool:
    """Whether the env does not change between two moves."""
    return family(env_id).startswith(TURNS) or isinstance(observations, spaces.Discrete)
