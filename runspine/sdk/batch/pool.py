"""Recording of vector envs that are none of Gymnasium's but have its calls, as those of PufferLib."""

from __future__ import annotations

from typing import Any

from runspine.sdk.batch.wrappers import BatchObserver
from runspine.sdk.run import Run

# How such envs name how many rows their arrays have: PufferLib counts agents.
COUNTS = ("num_agents", "num_envs")


class RecordedPool:
    """Passes everything on, and records `reset` and `step`, or `async_reset`, `send` and `recv`."""

    def __init__(self, env: Any, run: Run, first: int, count: int) -> None:
        self.env = env
        self._count = count
        self._observer = BatchObserver(run, env, count, first)
        # Whether the next results are those of a reset, and its seed.
        self._resetting: tuple[Any] | None = None

    def reset(self, *args: Any, **kwargs: Any) -> Any:
        result = self.env.reset(*args, **kwargs)
        self._observer.after_reset(result[0], kwargs.get("seed", args[0] if args else None), {})
        return result

    def step(self, actions: Any) -> Any:
        self._observer.before_step(actions)
        result = self.env.step(actions)
        self._observer.after_step(result[:5])
        return result

    def async_reset(self, *args: Any, **kwargs: Any) -> Any:
        self._resetting = (kwargs.get("seed", args[0] if args else None),)
        return self.env.async_reset(*args, **kwargs)

    def send(self, actions: Any) -> Any:
        self._observer.before_step(actions)
        return self.env.send(actions)

    def recv(self) -> Any:
        result = self.env.recv()
        if self._resetting is not None:
            (seed,), self._resetting = self._resetting, None
            self._observer.after_reset(result[0], seed, {})
        else:
            self._observer.after_step(result[:5])
        return result

    def close(self) -> Any:
        self._observer.close()
        return self.env.close()

    def __len__(self) -> int:
        return self._count

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "env":
            raise AttributeError(name)
        return getattr(self.env, name)


def pool_count(env: Any) -> int:
    """How many rows the results of such an env have; 0 when it is none."""
    if not callable(getattr(env, "step", None)) or not callable(getattr(env, "reset", None)):
        return 0
    counts = (getattr(env, name, None) for name in COUNTS)
    return next((count for count in counts if type(count) is int and count > 0), 0)
