"""A Minari dataset of a run's whole episodes, as `minari.load_dataset` loads it.

Only episodes with every observation, the first of them included, can be in it.
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

from runspine.errors import Invalid, Refused
from runspine.sinks.columns import rows_of
from runspine.sinks.draft import Draft
from runspine.sinks.minari_spaces import make_env, space_of, stacked
from runspine.sinks.port import STEPS, Mark, Subject
from runspine.sinks.whole_episodes import Gathered, Gathering, Key
from runspine.wire.v1.telemetry_pb2 import EnvMade, Reset

# Episodes are written when they come to so much, so that memory stays bounded.
HELD_BYTES = 32 << 20
NAMESPACE_FILE = "namespace_metadata.json"
_ONE_PLACE = threading.Lock()

# Resets after a position, as (position, attempt, reset); and the env of an episode of an attempt.
Space = spaces.Space[Any]
Resets = Callable[[int], Iterable[tuple[int, int, Reset]]]
EnvOf = Callable[[str, int], EnvMade]
# All observations of an episode of an attempt, had again by replay; None when it came out otherwise.
Resimulate = Callable[[str, int], list[Any] | None]


class MinariDataset:
    kinds = (STEPS,)

    def __init__(
        self,
        out: Path,
        subject: Subject,
        resets: Resets,
        env_of: EnvOf,
        *,
        dataset_id: str = "",
        resimulate: Resimulate | None = None,
    ) -> None:
        self.dataset_id = dataset_id or default_id(subject)
        _check_id(self.dataset_id)
        self._subject = subject
        self._parameters: dict[str, Any] = {}
        self._resets = resets
        self._env_of = env_of
        self._resimulate = resimulate
        options = {"dataset_id": self.dataset_id, "resimulate": resimulate is not None}
        self._draft = Draft(out, subject, "minari", options)

    def open(self) -> Mark:
        mark = self._draft.open()
        self._begin()
        return mark

    def describe(self, parameters: Mapping[str, Any]) -> None:
        self._parameters = dict(parameters)

    def feed(self, kind: str, batch: Any) -> None:
        for block in batch.blocks:
            if block.agent_id:
                raise Refused(
                    f"run {self._subject.name} has several agents ({block.agent_id!r}); "
                    "a Minari dataset holds one. Use --to parquet --steps"
                )
            for episode in self._gathering.add(batch.attempt, block):
                self._take(episode)
        if sum(episode.bytes for episode in self._held) > HELD_BYTES:
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
            if self._draft.is_making:
                self._write()
                self._finish(place)
        finally:
            self._draft.close()
        return str(place)

    def abandon(self) -> None:
        self._draft.close()

    def _begin(self) -> None:
        self._gathering = Gathering()
        self._held: list[Gathered] = []
        self._dataset: Any = None
        self._began: dict[Key, Reset] = {}
        self._reset_position = 0
        self._spaces: tuple[Space, Space] | None = None
        self._unobserved = self._unstarted = 0

    def _take(self, episode: Gathered) -> None:
        if episode.observed or self._resimulate is not None:
            self._held.append(episode)
        else:
            self._unobserved += 1

    def _write(self) -> None:
        if not self._held:
            return
        for position, attempt, reset in self._resets(self._reset_position):
            self._reset_position = max(self._reset_position, position)
            self._began[Key(attempt, reset.slot, reset.agent_id, reset.episode_id)] = reset
        buffers = [buffer for episode in self._held if (buffer := self._buffer(episode)) is not None]
        self._held = []
        if not buffers:
            return
        with _datasets_in(self._draft.making):
            if self._dataset is None:
                self._dataset = self._create(buffers)
            else:
                self._dataset.storage.update_episodes(buffers)

    def _buffer(self, episode: Gathered) -> EpisodeBuffer | None:
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

    def _observations(self, episode: Gathered, reset: Reset | None) -> list[Any] | None:
        """One more than there are steps; None, and counted, when they are not to be had."""
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

    def _find_spaces(self, key: Key, observations: list[Any], actions: list[Any]) -> tuple[Space, Space]:
        """The env's own where it can be made here, else what the data tells."""
        made = self._env_of(key.episode_id, key.attempt)
        self._env = make_env(made.env_id, made.kwargs_json) if made.env_id else None
        if self._env is not None:
            return self._env.observation_space, self._env.action_space
        return space_of(observations), space_of(actions)

    def _create(self, buffers: list[EpisodeBuffer]) -> Any:
        assert self._spaces is not None
        with warnings.catch_warnings():
            # It asks for an author and a code link; a run has none.
            warnings.simplefilter("ignore")
            return minari.create_dataset_from_buffers(
                dataset_id=self.dataset_id,
                buffer=buffers,
                env=self._env,
                observation_space=self._spaces[0],
                action_space=self._spaces[1],
                algorithm_name=self._subject.algo or None,
                description=f"Run {self._subject.name} ({self._subject.run_id})",
                jpeg_encoding=False,
            )

    def _finish(self, place: Path) -> None:
        if self._dataset is None:
            raise Refused(self._why_empty())
        self._dataset.storage.update_metadata(
            {"runspine_parameters": json.dumps(self._parameters, default=str)}
        )
        made = self._draft.making / self.dataset_id
        for parent in made.relative_to(self._draft.making).parents:
            source, target = (
                self._draft.making / parent / NAMESPACE_FILE,
                self._draft.out / parent / NAMESPACE_FILE,
            )
            if source.exists() and not target.exists():
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy(source, target)
        self._draft.place(made, place)
        self._draft.settle([place])

    def _why_empty(self) -> str:
        name = f"run {self._subject.name}"
        if self._unobserved:
            if self._resimulate is not None:
                return f"{name}: none of its {self._unobserved} episodes comes out again as it was recorded"
            return (
                f"{name} kept no observations (or only hashes of them), and a Minari dataset needs them. "
                "--resimulate plays every episode again to have them; new runs keep them with "
                "`--set capture.observations=full`"
            )
        if self._unstarted:
            return (
                f"{name} does not tell the first observation of its episodes (`reset` lines); Minari needs it"
            )
        if self._gathering.torn or self._gathering.unfinished:
            begun = self._gathering.unfinished
            return f"{name} has no episode that is whole: {begun} have begun, none has ended"
        return f"{name} has recorded no steps: wrap its env with runspine.wrap, or use a runner that does"


def _check_id(dataset_id: str) -> None:
    try:
        parse_dataset_id(dataset_id)
    except (ValueError, TypeError) as error:
        raise Invalid(
            f"--dataset-id {dataset_id}: expected NAME-vN or NAMESPACE/NAME-vN, such as cartpole/ppo-v0"
        ) from error


def default_id(subject: Subject) -> str:
    words = [_word(part) for part in (subject.algo, str(subject.seed), subject.run_id[-8:].lower()) if part]
    return f"runspine/{_word(subject.env) or 'env'}/{'-'.join(words)}-v0"


def _word(text: str) -> str:
    return re.sub(r"[^\w-]+", "_", text).strip("_")


def _first_observation(reset: Reset) -> Any:
    rows = rows_of(reset.observation, 1)
    if rows is not None:
        return np.asarray(rows[0])
    return json.loads(reset.observation_json) if reset.observation_json else None


@contextlib.contextmanager
def _datasets_in(folder: Path) -> Iterator[None]:
    """Minari knows one place for datasets, from a variable; one export at a time may say which."""
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
