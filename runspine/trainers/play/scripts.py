"""Actors of third parties, by the entry point group `runspine.actors`.

An entry point names a callable `make(env, seed)` that returns the actor: a callable from an observation to an
action. If it has them, its methods `began()` (an episode begins, or others have acted since) and
`came(observation, reward, terminated, truncated)` (the result of its action) are called as well.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import EntryPoint, entry_points
from typing import Any

import gymnasium as gym

from runspine.spec.nearest import not_accepted
from runspine.trainers.play.actors import NoActorError, PlayActor

GROUP = "runspine.actors"
MAX_SHOWN = 120


def script_names() -> list[str]:
    """Names of the actors that this Python has installed."""
    return sorted({point.name for point in entry_points(group=GROUP)})


def script_actor(name: str, env: gym.Env[Any, Any], seed: int) -> PlayActor:
    """The actor `script:NAME`. Raises NoActorError."""
    script = name.partition(":")[2]
    found = entry_points(group=GROUP, name=script)
    if not found:
        raise NoActorError(
            f"script {not_accepted(script, script_names())}: install its package on the worker"
        )
    made = _checked(script, _made, next(iter(found)), env, seed)
    if not callable(made):
        raise NoActorError(f"script {script!r} makes a {type(made).__name__}, not a callable")

    def act(observation: Any) -> Any:
        action = _checked(script, made, observation)
        if not env.action_space.contains(action):
            raise NoActorError(
                f"script {script!r} chose {str(action)[:MAX_SHOWN]}, which is none of {env.action_space}"
            )
        return action

    def began() -> None:
        _checked(script, getattr(made, "began", _nothing))

    def came(observation: Any, reward: float, terminated: bool, truncated: bool) -> None:
        _checked(script, getattr(made, "came", _nothing), observation, reward, terminated, truncated)

    return PlayActor(name, act, began, came)


def _made(point: EntryPoint, env: gym.Env[Any, Any], seed: int) -> Any:
    return point.load()(env, seed)


def _nothing(*_: Any) -> None:
    """For scripts that need neither method."""


def _checked(script: str, call: Callable[..., Any], *args: Any) -> Any:
    """Call third-party code. Raises NoActorError for whatever it raises."""
    try:
        return call(*args)
    except Exception as error:
        raise NoActorError(f"script {script!r} failed: {type(error).__name__}: {error}") from error
