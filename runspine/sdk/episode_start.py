"""How an episode began, and how to begin it again. For snapshots and for replay."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.sdk.generator import set_generator_state, set_system_state


class EpisodeStart(NamedTuple):
    """Arguments of a reset, and the state of the env's generators before it."""

    # As given to reset.
    seed: Any = None
    options: Any = None
    # State of the env's generator before the reset, and of its emulator; None without one.
    rng: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    # Number of resets of the env instance before this one.
    ordinal: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the episode can begin again without those before it."""
        return self.rng is not None or self.state is not None or self.seed is not None


def set_start(env: Any, how: EpisodeStart) -> None:
    """Set the state of the env's generators."""
    if how.state is not None:
        set_system_state(env, how.state)
    if how.rng is not None:
        set_generator_state(env, how.rng)


def begin(env: Any, how: EpisodeStart, resets: int = 0) -> tuple[Any, dict[str, Any]]:
    """Repeat the reset after `resets` others; return its observation and info."""
    for _ in range(resets):
        env.reset()
    set_start(env, how)
    observation, info = env.reset(seed=how.seed, options=how.options)
    return observation, info
