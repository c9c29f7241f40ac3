"""Minari sink: a dataset of the complete episodes of a run, for `minari.load_dataset`.

Only episodes with all observations, including the first, are included.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import shutil
import threading
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any

import minari
import numpy as np
from gymnasium import spaces
from minari.data_collector import EpisodeBuffer
from minari.dataset.minari_dataset import parse_dataset_id

from runspine.errors import InvalidError, RefusedError
from runspine.sinks.columns import rows_of
from runspine.sinks.draft import Draft
from runspine.sinks.minari_spaces import make_env, space_of, stacked
from runspine.sinks.port import STEPS, ExportedRun, Mark
from runspine.sinks.whole_episodes import EpisodeGatherer, EpisodeKey, PartialEpisode
from runspine.wire.v1.telemetry_pb2 import EnvMade, Reset

# Episodes held in memory before they are written.
MAX_HELD_BYTES = 32 << 20
NAMESPACE_FILE = "namespace_metadata.json"
_ONE_PLACE = threading.Lock()

# Resets after a position, as (position, attempt, reset); the env of an episode of an attempt.
Space = spaces.Space[Any]
Resets = Callable[[int], Iterable[tuple[int, int, Reset]]]
EnvOf = Callable[[str, int], EnvMade]
# All observations of an episode of an attempt, by replay; None when the replay diverges.
Resimulate = Callable[[str, int], list[Any] | None]


class MinariDataset:
    """Writes a Minari dataset."""

    kinds = (STEPS,)

    def __init__(
        self,
        out: Path,
        exported: ExportedRun,
        resets: Resets,
        env_of: EnvOf,
        *,
        dataset_id: str = "",
        resimulate: Resimulate | None = None,
    ) -> None:
        self.dataset_id = dataset_id or default_id(exported)
        _check_id(self.dataset_id)
        self._exported = exported
        self._parameters: dict[str, Any] = {}
        self._resets = resets
        self._env_of = env_of
        self._resimulate = resimulate
        options = {"dataset_id": self.dataset_id, "resimulate": resimulate is not None}
        self._draft = Draft(out, exported, "minari", options)

    def open(self) -> Mark:
        mark = self._draft.open()
        self._begin()
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = dict(parameters)

    def feed(self, kind: str, batch: Any) -> None:
        for block in batch.blocks:
            if block.agent_id:
                raise RefusedError(
                    f"run {self._exported.name} has several agents ({block.agent_id!r}); "
                    "a Minari dataset holds one. Use --to parquet --steps"
                )
            for episode in self._gathering.add(batch.attempt, block):
                self._take(episode)
        if sum(episode.bytes for episode in self._held) > MAX_HELD_BYTES:
            self._write()

    def commit(self, mark: Mark) -> None:
        self._draft.mark = mark

    def supersede(self, step: int, mark: Mark) -> Mark:
        self._draft.restart()
        self._begin()
        return Mark()

    def close(self) -> str:
        place = self._draft.out / self.dataset_id
        try:
            if self._draft.is_open:
                self._write()
                self._finish(place)
        finally:
            self._draft.close()
        return str(place)

    def abandon(self) -> None:
        self._draft.close()

    def _begin(self) -> None:
        self._gathering = EpisodeGatherer()
        self._held: list[PartialEpisode] = []
        self._dataset: Any = None
        self._began: dict[EpisodeKey, Reset] = {}
        self._reset_position = 0
        self._spaces: tuple[Space, Space] | None = None
        self._unobserved = self._unstarted = 0

    def _take(self, episode: PartialEpisode) -> None:
        if episode.observed or self._resimulate is not None:
            self._held.append(episode)
        else:
            self._unobserved += 1

    def _write(self) -> None:
        if not self._held:
            return
        for position, attempt, reset in self._resets(self._reset_position):
            self._reset_position = max(self._reset_position, position)
            self._began[EpisodeKey(attempt, reset.slot, reset.agent_id, reset.episode_id)] = reset
        buffers = [buffer for episode in self._held if (buffer := self._buffer(episode)) is not None]
        self._held = []
        if not buffers:
            return
        with _datasets_in(self._draft.draft_folder):
            if self._dataset is None:
                self._dataset = self._create(buffers)
            else:
                self._dataset.storage.update_episodes(buffers)

    def _buffer(self, episode: PartialEpisode) -> EpisodeBuffer | None:
        reset = self._began.pop(episode.key, None)
        observations = self._observations(episode, reset)
        if reset is None or observations is None:
            return None
        if self._spaces is None:
            self._spaces = self._find_spaces(episode.key, observations, episode.actions)
        flags = np.frombuffer(bytes(episode.flags), np.uint8)
        seed = json.loads(reset.seed_json) if reset.seed_json else None
        return EpisodeBuffer(
            seed=seed if isinstance(seed, int) else None,
            observations=stacked(observations, self._spaces[0]),
            actions=stacked(episode.actions, self._spaces[1]),
            rewards=np.asarray(episode.rewards),
            terminations=(flags & 1).astype(bool),
            truncations=(flags & 2).astype(bool),
        )

    def _observations(self, episode: PartialEpisode, reset: Reset | None) -> list[Any] | None:
        """Observations, one more than steps; None, and counted, when they are not available."""
        first = _first_observation(reset) if reset is not None else None
        if reset is None or (first is None and episode.observed):
            self._unstarted += 1
            return None
        if episode.observed:
            return [first, *episode.observations]
        assert self._resimulate is not None
        again = self._resimulate(episode.key.episode_id, episode.key.attempt)
        self._unobserved += again is None
        return again

    def _find_spaces(
        self, key: EpisodeKey, observations: list[Any], actions: list[Any]
    ) -> tuple[Space, Space]:
        """Spaces of the env when it can be created here, else inferred from the data."""
        made = self._env_of(key.episode_id, key.attempt)
        self._env = make_env(made.env_id, made.kwargs_json) if made.env_id else None
        if self._env is not None:
            return self._env.observation_space, self._env.action_space
        return space_of(observations), space_of(actions)

    def _create(self, buffers: list[EpisodeBuffer]) -> Any:
        assert self._spaces is not None
        with warnings.catch_warnings():
            # It warns about a missing author and code link.
            warnings.simplefilter("ignore")
            return minari.create_dataset_from_buffers(
                dataset_id=self.dataset_id,
                buffer=buffers,
                env=self._env,
                observation_space=self._spaces[0],
                action_space=self._spaces[1],
                algorithm_name=self._exported.algo or None,
                description=f"Run {self._exported.name} ({self._exported.run_id})",
                jpeg_encoding=False,
            )

    def _finish(self, place: Path) -> None:
        if self._dataset is None:
            raise RefusedError(self._why_empty())
        self._dataset.storage.update_metadata(
            {"runspine_parameters": json.dumps(self._parameters, default=str)}
        )
        made = self._draft.draft_folder / self.dataset_id
        for parent in made.relative_to(self._draft.draft_folder).parents:
            source, target = (
                self._draft.draft_folder / parent / NAMESPACE_FILE,
                self._draft.out / parent / NAMESPACE_FILE,
            )
            if source.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        self._draft.publish(made, place)
        self._draft.record_done([place])

    def _why_empty(self) -> str:
        name = f"run {self._exported.name}"
        if self._unobserved:
            if self._resimulate is not None:
                return f"{name}: the replays of all its {self._unobserved} episodes diverge"
            return (
                f"{name} kept no observations (or only hashes), which a Minari dataset needs. "
                "--resimulate simulates every episode again to get them; new runs keep them with "
                "`--set capture.observations=full`"
            )
        if self._unstarted:
            return f"{name} has no first observations of its episodes (`reset` lines), which Minari needs"
        if self._gathering.torn or self._gathering.unfinished:
            begun = self._gathering.unfinished
            return f"{name} has no complete episode: {begun} have begun, none has ended"
        return f"{name} has no steps: wrap its env with runspine.wrap, or use a runner that does"


def _check_id(dataset_id: str) -> None:
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise InvalidError(
            f"--dataset-id {dataset_id}: expected NAME-vN or NAMESPACE/NAME-vN, such as cartpole/ppo-v0"
        ) from error


def default_id(exported: ExportedRun) -> str:
    words = [
        _word(part) for part in (exported.algo, str(exported.seed), exported.run_id[-8:].lower()) if part
    ]
    return f"runspine/{_word(exported.env) or 'env'}/{'-'.join(words)}-v0"


def _word(text: str) -> str:
    return re.sub(r"[^\w-]+", "_", text).strip("_")


def _first_observation(reset: Reset) -> Any:
    rows = rows_of(reset.observation, 1)
    if rows is not None:
        return np.asarray(rows[0])
    return json.loads(reset.observation_json) if reset.observation_json else None


@contextlib.contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Set Minari's dataset folder, a process-wide variable, for one export at a time."""
    with _ONE_PLACE:
        yield from _with_place(folder)


def _with_place(folder: Path) -> Iterator[None]:
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before
