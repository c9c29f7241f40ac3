"""How an episode began, and an env made to begin it again. For snapshots and for replay."""

from __future__ import annotations

from typing import Any, NamedTuple

from runspine.sdk.generator import set_generator_state, set_system_state


class Beginning(NamedTuple):
    # As given to reset.
    seed: Any = None
    options: Any = None
    # State of the env's generator before the reset, and of its emulator; None when there was none.
    rng: dict[str, Any] | None = None
    state: dict[str, Any] | None = None
    # How many resets the env instance had had before.
    ordinal: int = 0

    @property
    def is_known(self) -> bool:
        """Whether the episode can be begun again without those before it."""
        return self.rng is not None or self.state is not None or self.seed is not None


def begin(env: Any, how: Beginning, resets: int = 0) -> tuple[Any, dict[str, Any]]:
    """The reset again, after so many others; what it gives."""
    for _ in range(resets):
        env.reset()
    if how.state is not None:
        set_system_state(env, how.state)
    if how.rng is not None:
        set_generator_state(env, how.rng)
    observation, info = env.reset(seed=how.seed, options=how.options)
    return observation, info
