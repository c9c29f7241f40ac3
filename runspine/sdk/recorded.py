"""A Gymnasium env that records every step."""

from __future__ import annotations

from typing import Any

import gymnasium

from runspine.sdk.drawing import drawing
from runspine.sdk.episode import Episode
from runspine.sdk.generator import generator_state, system_state
from runspine.sdk.identity import Identity, identity_of, name_of
from runspine.sdk.run import Run
from runspine.sdk.slot_recorder import SlotRecorder
from runspine.sdk.snapshot import blocks_of, replay, take_snapshot


class RecordedEnv(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Transparent wrapper with `snapshot` and `restore`. Its `step` is a plain function, for speed."""

    # False when another wrapper has taken over.
    recording = True

    def __init__(self, env: gymnasium.Env[Any, Any], recorder: SlotRecorder) -> None:
        super().__init__(env)
        self.recorder = recorder
        recorder.draw = drawing(env)
        self._bare = env.unwrapped
        # An attribute of the instance: found without the class, and free of `self`.
        self.step = recorder.recording(env.step)  # type: ignore[method-assign, assignment]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, Any]:
        # Read before the reset: reading also fixes the state of an env that was never seeded.
        rng, state = generator_state(self._bare), system_state(self._bare)
        observation, info = self.env.reset(seed=seed, options=options)
        self._introduce()
        self.recorder.begin(observation, seed=seed, options=options, rng=rng, state=state)
        return observation, info

    def snapshot(self) -> dict[str, Any]:
        """State of the env in its episode, as plain data. Raises RuntimeError when it is not known."""
        return take_snapshot(self.recorder, name_of(self.env))

    def restore(self, snapshot: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """Replay a fresh env to the snapshot; return its last observation and info. Raises DivergedError."""
        began = snapshot["episode"]
        self.recorder.counted = snapshot["steps"]
        run, slot = self.recorder.run, self.recorder.slot
        run.restored(snapshot.get("elsewhere", 0))
        if began is None:
            return None, {}
        replayed, resets = replay(self.env, snapshot)
        # Snapshots of earlier releases name no id; theirs is slot and number.
        run.ids.resume(slot, began["number"], began.get("id") or f"{slot}-{began['number']}")
        self._introduce()
        episode = Episode(
            number=began["number"],
            id=run.ids.of(slot, began["number"]),
            ordinal=self.recorder.resets + resets - 1,
            seed=began["seed"],
            options=began["options"],
            rng=began["rng"],
            state=began.get("state"),
            steps=began["steps"],
            value=replayed.value,
            packed=blocks_of(began["actions"]),
        )
        self.recorder.continue_episode(episode, replayed.first, replayed.observation, ended=replayed.ended)
        return replayed.observation, replayed.info

    def close(self) -> None:
        self.recorder.run.retire(self.recorder)
        super().close()

    @property
    def spec(self) -> Any:  # type: ignore[override]
        """Spec of the env itself: recording changes nothing about it."""
        return self.env.spec

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A copy is a copy of the env, without recording."""
        return _same, (self.env,)

    def _introduce(self) -> None:
        if self.recorder.resets == 0:
            self.recorder.introduce(self._identity)

    def _identity(self) -> Identity:
        return identity_of(self.env)


def wrapped(run: Run, env: gymnasium.Env[Any, Any], slot: int | None) -> RecordedEnv:
    if isinstance(env, RecordedEnv) and env.recording:
        return env
    return RecordedEnv(env, SlotRecorder(run, run.free_slots() if slot is None else slot))


def _same(env: Any) -> Any:
    return env
