"""A Minari dataset on disk: its manifest and its transitions. Needs h5py and numpy."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import h5py
import numpy as np
import numpy.typing as npt

from runspine.datasets.errors import DatasetError
from runspine.datasets.manifest import Manifest, Returns
from runspine.datasets.spaces import from_minari

Array = npt.NDArray[Any]
METADATA, DATA = "metadata.json", "main_data.hdf5"


class Transitions(NamedTuple):
    """Steps of all episodes in order. `timeouts` marks the steps at which a time limit ended an episode."""

    observations: Array
    actions: Array
    rewards: Array
    next_observations: Array
    terminals: Array
    timeouts: Array


def find_data(folder: Path) -> Path:
    """The folder with Minari's two files, here or one `data` below. Raises DatasetError."""
    for place in (folder, folder / "data"):
        if (place / METADATA).is_file() and (place / DATA).is_file():
            return place
    if (folder / METADATA).is_file() or (folder / "data" / METADATA).is_file():
        raise DatasetError(f"{folder.name} has no {DATA}: only Minari's HDF5 format is read")
    raise DatasetError(
        f"{folder.name} holds no Minari dataset: neither {METADATA} nor data/{METADATA} is there"
    )


def describe(folder: Path, *, env: str = "", **provenance: Any) -> Manifest:
    """The manifest of a Minari folder, without checksums. Raises DatasetError."""
    place = find_data(folder)
    found = _metadata(place)
    spec = _env_spec(found.get("env_spec"))
    returns, steps = [], 0
    for episode in episodes(place):
        returns.append(float(np.sum(episode["rewards"], dtype=np.float64)))
        steps += len(episode["rewards"])
    if not returns or not steps:
        raise DatasetError(f"{DATA} holds no steps")
    if not np.isfinite(returns).all():
        raise DatasetError(
            f"{DATA}: episode {int(np.flatnonzero(~np.isfinite(returns))[0])} has no finite return"
        )
    known = env or str(spec.get("id") or "")
    if not known:
        raise DatasetError(f"{METADATA} does not name its env: give one with --env")
    return Manifest(
        env=known,
        env_kwargs=spec.get("kwargs") or {} if not env or env == spec.get("id") else {},
        observations=from_minari(found.get("observation_space")),
        actions=from_minari(found.get("action_space")),
        episodes=len(returns),
        steps=steps,
        returns=Returns(
            mean=float(np.mean(returns)),
            std=float(np.std(returns)),
            minimum=float(np.min(returns)),
            maximum=float(np.max(returns)),
            random=_score(found.get("ref_min_score")),
            expert=_score(found.get("ref_max_score")),
        ),
        provenance={"minari_id": found["dataset_id"], **provenance}
        if found.get("dataset_id")
        else provenance,
    )


def episodes(place: Path) -> Iterator[dict[str, Array]]:
    """Arrays of each episode, in order. Raises DatasetError."""
    try:
        with h5py.File(place / DATA, "r") as file:
            for number in range(len(file)):
                yield _episode(file, number)
    except OSError as error:
        raise DatasetError(f"{DATA} cannot be read: {error}") from error


def read_transitions(folder: Path) -> Transitions:
    """All transitions as arrays. Raises DatasetError."""
    parts: dict[str, list[Array]] = {name: [] for name in Transitions._fields}
    for episode in episodes(find_data(folder)):
        rows = episode["observations"].reshape(len(episode["observations"]), -1).astype(np.float32)
        parts["observations"].append(rows[:-1])
        parts["next_observations"].append(rows[1:])
        parts["actions"].append(episode["actions"])
        parts["rewards"].append(episode["rewards"].astype(np.float32))
        parts["terminals"].append(episode["terminations"].astype(bool))
        ended = np.zeros(len(episode["rewards"]), bool)
        ended[-1:] = not episode["terminations"][-1:].any()
        parts["timeouts"].append(ended)
    if not parts["rewards"]:
        raise DatasetError(f"{DATA} holds no episodes")
    return Transitions(**{name: np.concatenate(arrays) for name, arrays in parts.items()})


def _episode(file: Any, number: int) -> dict[str, Array]:
    group = file.get(f"episode_{number}")
    if group is None:
        raise DatasetError(f"{DATA} has no episode_{number}, but later ones")
    found = {}
    for name in ("observations", "actions", "rewards", "terminations", "truncations"):
        data = group.get(name)
        if not isinstance(data, h5py.Dataset):
            raise DatasetError(
                f"{DATA}: {name} of episode_{number} are no array: composed spaces are not read"
            )
        found[name] = np.asarray(data[()])
        if found[name].dtype.kind not in "fiub":
            raise DatasetError(f"{DATA}: {name} of episode_{number} are no numbers")
    count = len(found["rewards"])
    lengths = {name: len(array) for name, array in found.items()}
    if lengths != {**dict.fromkeys(found, count), "observations": count + 1}:
        raise DatasetError(f"{DATA}: episode_{number} has parts of different lengths: {lengths}")
    return found


def _metadata(place: Path) -> dict[str, Any]:
    try:
        found = json.loads((place / METADATA).read_bytes())
    except (OSError, ValueError) as error:
        raise DatasetError(f"{METADATA} cannot be read: {error}") from error
    if not isinstance(found, dict):
        raise DatasetError(f"{METADATA} is not an object")
    return found


def _env_spec(found: Any) -> dict[str, Any]:
    try:
        spec = json.loads(found) if isinstance(found, str) else found
    except ValueError as error:
        raise DatasetError(f"{METADATA}: env_spec is not JSON: {error}") from error
    return spec if isinstance(spec, dict) else {}


def _score(found: Any) -> float | None:
    number = isinstance(found, int | float) and not isinstance(found, bool) and np.isfinite(found)
    return float(found) if number else None
