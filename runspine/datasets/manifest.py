"""What a dataset is: its env, its size, how good it is, where it comes from, and a checksum of every file."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from runspine.datasets.bad import BadDataset

FORMAT = 1
NAME = "manifest.json"
LARGEST = 4 << 20
MOST_FILES = 10_000
_SHA = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file of it, below its folder."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Returns:
    """Of its episodes, and what they are measured against: a random policy is 0, an expert 100."""

    mean: float
    std: float
    minimum: float
    maximum: float
    random: float | None = None
    expert: float | None = None

    def normalised(self, value: float) -> float | None:
        """None when nobody said what random and expert reach, or they reach the same."""
        if self.random is None or self.expert is None or self.random == self.expert:
            return None
        return 100.0 * (value - self.random) / (self.expert - self.random)


@dataclass(frozen=True, slots=True)
class Manifest:
    env: str
    # Of gymnasium.make.
    env_kwargs: dict[str, Any]
    # In a few words, such as Box(3,) float32 and Discrete(2).
    observations: str
    actions: str
    episodes: int
    steps: int
    returns: Returns
    # Run, checkpoint, seed and whatever else is known of how it was made.
    provenance: dict[str, Any] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True, allow_nan=False)

    def meta(self) -> dict[str, Any]:
        """For the registry: all but the files."""
        told = asdict(self)
        told["files"] = len(self.files)
        told["returns"] = {key: value for key, value in told["returns"].items() if value is not None}
        return {key: value for key, value in told.items() if value not in ("", {}, None)}


def read_manifest(text: str | bytes, where: str = NAME) -> Manifest:
    """Raises BadDataset with the field that is wrong."""
    try:
        told = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise BadDataset(f"{where} is not JSON: {error}") from error
    if not isinstance(told, dict):
        raise BadDataset(f"{where} is not an object")
    if told.get("format") != FORMAT:
        raise BadDataset(f"{where} has format {told.get('format')!r}; this version reads {FORMAT}")
    files = _get(told, "files", list, where)
    if len(files) > MOST_FILES:
        raise BadDataset(f"{where} names {len(files):,} files, more than the {MOST_FILES:,} accepted")
    return Manifest(
        env=_get(told, "env", str, where),
        env_kwargs=_get(told, "env_kwargs", dict, where),
        observations=_get(told, "observations", str, where),
        actions=_get(told, "actions", str, where),
        episodes=_count(told, "episodes", where),
        steps=_count(told, "steps", where),
        returns=_returns(_get(told, "returns", dict, where), where),
        provenance=_get(told, "provenance", dict, where),
        files=tuple(_file(each, where) for each in files),
    )


def _file(told: Any, where: str) -> DataFile:
    if not isinstance(told, dict):
        raise BadDataset(f"{where}: files holds something that is no file")
    path, digest = _get(told, "path", str, where), _get(told, "sha256", str, where)
    if not is_inside(path):
        raise BadDataset(f"{where}: {path!r} is not a path below the dataset's folder")
    if not _SHA.match(digest):
        raise BadDataset(f"{where}: {path} has no SHA-256")
    return DataFile(path, _count(told, "size", where), digest)


def is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def _returns(told: dict[str, Any], where: str) -> Returns:
    mean, std, minimum, maximum = (
        _number(told, name, where) for name in ("mean", "std", "minimum", "maximum")
    )
    random, expert = (
        None if told.get(name) is None else _number(told, name, where) for name in ("random", "expert")
    )
    return Returns(mean, std, minimum, maximum, random, expert)


def _number(told: dict[str, Any], name: str, where: str) -> float:
    value = told.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise BadDataset(f"{where}: returns.{name} is {value!r}, not a finite number")
    return float(value)


def _count(told: dict[str, Any], name: str, where: str) -> int:
    value: int = _get(told, name, int, where)
    if isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise BadDataset(f"{where}: {name} is {value!r}, not a count")
    return value


def _get(told: dict[str, Any], name: str, kind: type[Any], where: str) -> Any:
    value = told.get(name)
    if not isinstance(value, kind):
        raise BadDataset(f"{where}: {name} is {value!r}, not {kind.__name__}")
    return value
