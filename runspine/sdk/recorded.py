"""A Gymnasium env with a record of every step."""

from __future__ import annotations

from typing import Any

import gymnasium

from runspine.sdk.drawing import drawing
from runspine.sdk.episode import Episode
from runspine.sdk.generator import generator_state, system_state
from runspine.sdk.identity import identity_of, name_of
from runspine.sdk.run import Run
from runspine.sdk.snapshot import blocks_of, replay, take_snapshot
from runspine.sdk.tape import Tape


class RecordedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Transparent but for `snapshot` and `restore`. Its `step` is a function of its own, for speed."""

    def __init__(self, env: gymnasium.Env[Any, Any], tape: Tape) -> None:
        super().__init__(env)
        self.tape = tape
        tape.draw = drawing(env)
        self._bare = env.unwrapped
        # An attribute of the instance: found without the class, and free of `self`.
        self.step = tape.recording(env.step)  # type: ignore[method-assign, assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        # Read before the reset: an env that was never seeded is pinned by that, too.
        rng, state = generator_state(self._bare), system_state(self._bare)
        observation, info = self.env.reset(seed=seed, options=options)
        self._introduce()
        self.tape.begin(observation, seed=seed, options=options, rng=rng, state=state)
        return observation, info

    def snapshot(self) -> dict[str, Any]:
        """Where the env stands, as plain data. Raises RuntimeError when that is not known."""
        return take_snapshot(self.tape, name_of(self.env))

    def restore(self, snapshot: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Put a fresh env where the snapshot was taken; gives what its last call gave. Raises Diverged."""
        began = snapshot["episode"]
        self.tape.counted = snapshot["steps"]
        if began is None:
            return None, {}
        replayed, resets = replay(self.env, snapshot)
        self._introduce()
        episode = Episode(
            number=began["number"],
            id=self.tape.run.episode_id(self.tape.slot, began["number"]),
            ordinal=self.tape.resets + resets - 1,
            seed=began["seed"],
            options=began["options"],
            rng=began["rng"],
            state=began.get("state"),
            steps=began["steps"],
            value=replayed.value,
            packed=blocks_of(began["actions"]),
        )
        self.tape.go_on(episode, replayed.first, replayed.observation, ended=replayed.ended)
        return replayed.observation, replayed.info

    def close(self) -> None:
        self.tape.run.retire(self.tape)
        super().close()

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """That of the env itself: a record changes nothing about it."""
        return self.env.spec

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy is a copy of the env, without a record: it goes its own way."""
        return _same, (self.env,)

    def _introduce(self) -> None:
        if self.tape.resets == 0:
            self.tape.introduce(lambda: identity_of(self.env))


def wrapped(run: Run, env: gymnasium.Env[Any, Any], slot: int | None) -> RecordedEnv:
    if isinstance(env, RecordedEnv):
        return env
    return RecordedEnv(env, Tape(run, run.free_slot() if slot is None else slot))


def _same(env: Any) -> Any:
    return env
