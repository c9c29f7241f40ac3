"""Records the envs of a batch one by one, as lines: for a worker that reads no frames."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from runspine.sdk.batch.autoreset import FINAL, NEXT_STEP, SAME_STEP, UNKNOWN
from runspine.sdk.batch.observed import env_rows
from runspine.sdk.batch.rows import Array, on_host
from runspine.sdk.slot_recorder import SlotRecorder

if TYPE_CHECKING:
    from runspine.sdk.run import Run


class SlotRecorders:
    """A recorder for each slot, with the methods of a GridRecorder."""

    def __init__(self, run: Run, first: int, count: int, mode: str) -> None:
        self.run, self.slot, self.count, self.mode = run, first, count, mode
        self.recorders = [SlotRecorder(run, first + index) for index in range(count)]
        self.whole = count
        self._row: Any = None
        self._feeds = [recorder.recording(lambda _: self._row) for recorder in self.recorders]
        self._done = [False] * count
        self._actions: list[Any] = []
        # First observations of episodes that may have begun: it is not known yet when envs are reset.
        self._maybe_begun: dict[int, Any] = {}

    @property
    def failure(self) -> str:
        return self.recorders[0].failure

    def before_step(self, actions: Any) -> None:
        """Keep the actions; an env may change them."""
        shaped = hasattr(actions, "shape")
        self._actions = list(np.array(on_host(actions))) if shaped else env_rows(actions, self.count)

    def after_step(
        self, observations: Any, rewards: Any, terminated: Any, truncated: Any, infos: Any
    ) -> None:
        """Record one step of each env. Raises when the results are not of `count` envs."""
        rows = zip(
            self._actions,
            env_rows(observations, self.count),
            on_host(rewards).astype(np.float64).tolist(),
            on_host(terminated).tolist(),
            on_host(truncated).tolist(),
            strict=True,
        )
        for index, (action, observation, reward, ended, cut) in enumerate(rows):
            self._record(index, action, (observation, reward, ended, cut, None), infos)

    def _record(self, index: int, action: Any, row: tuple[Any, ...], infos: Any) -> None:
        observation, reward, terminated, truncated, _ = row
        done, recorder = terminated or truncated, self.recorders[index]
        if self._done[index] and self.mode == NEXT_STEP:
            self._maybe_begun.pop(index, None)
            recorder.begin(observation)
        else:
            if index in self._maybe_begun:
                recorder.begin(self._maybe_begun.pop(index))
            final = _final(infos, index) if done and self.mode in (SAME_STEP, UNKNOWN) else None
            self._row = (observation if final is None else final, reward, terminated, truncated, None)
            self._feeds[index](action)
            if done and self.mode == SAME_STEP:
                recorder.begin(observation)
            elif done and self.mode == UNKNOWN:
                self._maybe_begun[index] = np.array(observation)
        self._done[index] = done

    def begin(self, mask: Array | None = None) -> None:
        """Envs were reset by a call."""
        for index in range(self.count):
            if mask is None or mask[index]:
                self._done[index] = False
                self._maybe_begun.pop(index, None)

    def fail(self, error: BaseException) -> None:
        for recorder in self.recorders:
            recorder.fail(error)

    def close(self) -> None:
        for recorder in self.recorders:
            self.run.retire(recorder)


def _final(infos: Any, index: int) -> Any:
    found = next((infos[name] for name in FINAL if name in infos), None) if infos else None
    if found is None:
        return None
    if isinstance(found, dict):
        return {key: value[index] for key, value in found.items()}
    return found[index]
