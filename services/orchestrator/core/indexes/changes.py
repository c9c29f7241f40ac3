"""Which runs have changed, for each reader since it last asked. Pure."""

from __future__ import annotations

from collections.abc import Iterable


class ChangeReader:
    """The ids that changed and were not taken yet."""

    def __init__(self) -> None:
        self._ids: set[str] = set()

    def __bool__(self) -> bool:
        return bool(self._ids)

    def add(self, run_id: str) -> None:
        self._ids.add(run_id)

    def take(self) -> set[str]:
        """Every id since the last call."""
        taken, self._ids = self._ids, set()
        return taken


class Changes:
    """Passes ids on to every reader."""

    def __init__(self) -> None:
        self._readers: list[ChangeReader] = []

    def reader(self, first: Iterable[str] = ()) -> ChangeReader:
        """A new reader, to which these ids count as changed."""
        reader = ChangeReader()
        for run_id in first:
            reader.add(run_id)
        self._readers.append(reader)
        return reader

    def close(self, reader: ChangeReader) -> None:
        self._readers.remove(reader)

    def add(self, run_id: str) -> None:
        for reader in self._readers:
            reader.add(run_id)
