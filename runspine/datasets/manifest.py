"""The manifest of a dataset: its env, size, returns, provenance, and a checksum of every file."""

from __future__ import annotations

import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import PurePosixPath
from typing import Any

from runspine.datasets.errors import DatasetError

FORMAT = 1
NAME = "manifest.json"
MAX_MANIFEST_BYTES = 4 << 20
MAX_FILES = 10_000
_SHA = re.compile(r"[0-9a-f]{64}\Z")


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file below the dataset's folder."""

    path: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Returns:
    """Returns of the episodes, and the references for normalising: a random policy is 0, an expert 100."""

    mean: float
    std: float
    minimum: float
    maximum: float
    random: float | None = None
    expert: float | None = None

    def normalised(self, value: float) -> float | None:
        """The normalised return; None without distinct random and expert returns."""
        if self.random is None or self.expert is None or self.random == self.expert:
            return None
        return 100.0 * (value - self.random) / (self.expert - self.random)


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of a dataset."""

    env: str
    # Arguments of gymnasium.make.
    env_kwargs: dict[str, Any]
    # Short form, such as Box(3,) float32 and Discrete(2).
    observations: str
    actions: str
    episodes: int
    steps: int
    returns: Returns
    # How it was made: run, checkpoint, seed and more.
    provenance: dict[str, Any] = field(default_factory=dict)
    files: tuple[DataFile, ...] = ()

    @property
    def size(self) -> int:
        return sum(each.size for each in self.files)

    def to_json(self) -> str:
        return json.dumps({"format": FORMAT, **asdict(self)}, indent=1, sort_keys=True, allow_nan=False)

    def meta(self) -> dict[str, Any]:
        """Metadata for the registry: everything except the files."""
        fields = asdict(self)
        fields["files"] = len(self.files)
        fields["returns"] = {key: value for key, value in fields["returns"].items() if value is not None}
        return {key: value for key, value in fields.items() if value not in ("", {}, None)}


def read_manifest(text: str | bytes, where: str = NAME) -> Manifest:
    """Parse a manifest. Raises DatasetError, which names the field."""
    try:
        fields = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise DatasetError(f"{where} is not JSON: {error}") from error
    if not isinstance(fields, dict):
        raise DatasetError(f"{where} is not an object")
    if fields.get("format") != FORMAT:
        raise DatasetError(f"{where} has format {fields.get('format')!r}; this version reads {FORMAT}")
    files = _get(fields, "files", list, where)
    if len(files) > MAX_FILES:
        raise DatasetError(f"{where} names {len(files):,} files, more than the {MAX_FILES:,} accepted")
    return Manifest(
        env=_get(fields, "env", str, where),
        env_kwargs=_get(fields, "env_kwargs", dict, where),
        observations=_get(fields, "observations", str, where),
        actions=_get(fields, "actions", str, where),
        episodes=_count(fields, "episodes", where),
        steps=_count(fields, "steps", where),
        returns=_returns(_get(fields, "returns", dict, where), where),
        provenance=_get(fields, "provenance", dict, where),
        files=tuple(_file(each, where) for each in files),
    )


def _file(fields: Any, where: str) -> DataFile:
    if not isinstance(fields, dict):
        raise DatasetError(f"{where}: files holds something that is no file")
    path, digest = _get(fields, "path", str, where), _get(fields, "sha256", str, where)
    if not is_inside(path):
        raise DatasetError(f"{where}: {path!r} is not a path below the dataset's folder")
    if not _SHA.match(digest):
        raise DatasetError(f"{where}: {path} has no SHA-256")
    return DataFile(path, _count(fields, "size", where), digest)


def is_inside(path: str) -> bool:
    parts = PurePosixPath(path).parts
    return bool(parts) and not path.startswith("/") and ".." not in parts and "\\" not in path


def _returns(fields: dict[str, Any], where: str) -> Returns:
    mean, std, minimum, maximum = (
        _number(fields, name, where) for name in ("mean", "std", "minimum", "maximum")
    )
    random, expert = (
        None if fields.get(name) is None else _number(fields, name, where) for name in ("random", "expert")
    )
    return Returns(mean, std, minimum, maximum, random, expert)


def _number(fields: dict[str, Any], name: str, where: str) -> float:
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        raise DatasetError(f"{where}: returns.{name} is {value!r}, not a finite number")
    return float(value)


def _count(fields: dict[str, Any], name: str, where: str) -> int:
    value: int = _get(fields, name, int, where)
    if isinstance(value, bool) or not 0 <= value < 1 << 62:
        raise DatasetError(f"{where}: {name} is {value!r}, not a count")
    return value


def _get(fields: dict[str, Any], name: str, kind: type[Any], where: str) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        raise DatasetError(f"{where}: {name} is {value!r}, not {kind.__name__}")
    return value
