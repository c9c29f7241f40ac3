"""The registry as specs refer to it: datasets, imported checkpoints and aliases. Pure; the board feeds it.

One fact costs a few lookups. Entries that no alias names are bounded in number; those beyond it can still
be given by their whole SHA-256.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections import Counter
from collections.abc import Iterator
from itertools import islice

from runspine.domain.artifact.evolve import IMPORTS
from runspine.domain.artifact_kinds import CHECKPOINT, DATASET
from runspine.spec.nearest import not_accepted
from runspine.wire.v1.facts_pb2 import ArtifactProduced, CheckpointImported, Fact
from runspine.wire.v1.run_pb2 import RegistryAlias, RegistryEntry, RegistryState

MAX_UNNAMED = 10_000
# Names among which the nearest one is searched for.
MAX_SUGGESTED = 200
MAX_FOUND = 5
MIN_DIGEST_PREFIX = 6
MIN_IMPORT_PREFIX = len(IMPORTS) + 4
UNVERIFIED_TEXT = "has not been verified yet: try again in a moment"
# By run or import, and digest.
Place = tuple[str, str]


class Registry:
    """Datasets and imported checkpoints by name, digest and id."""

    def __init__(self) -> None:
        self._clear()

    def _clear(self) -> None:
        self._entries: dict[Place, RegistryEntry] = {}
        # Whether entries were dropped, so that an unknown digest proves nothing.
        self.partial = False
        self._unnamed: dict[Place, None] = {}
        self._aliases: dict[str, Place] = {}
        self._alias_counts: Counter[Place] = Counter()
        # Both sorted: datasets by digest and run, imported checkpoints by id and digest.
        self._datasets: list[tuple[str, str]] = []
        self._imports: list[Place] = []

    def apply(self, run_id: str, fact: Fact) -> None:
        """Fold one fact of artifacts.<run_id>."""
        match fact.WhichOneof("kind"):
            case "checkpoint_imported":
                self._put(_imported(run_id, fact.checkpoint_imported))
            case "artifact_indexed":
                self._indexed(run_id, fact.artifact_indexed.artifact)
            case "artifact_corrupt":
                self._set(
                    run_id, fact.artifact_corrupt.digest, problem=f"is corrupt: {fact.artifact_corrupt.flaw}"
                )
            case "artifact_mended":
                self._set(run_id, fact.artifact_mended.digest, problem="")
            case "artifact_pruned":
                undo = f"was removed: `runspine prune --undo {fact.artifact_pruned.batch}` restores it"
                self._set(run_id, fact.artifact_pruned.digest, pruned=undo)
            case "artifact_restored":
                self._set(run_id, fact.artifact_restored.digest, pruned="")
            case "artifact_erased":
                self._drop((run_id, fact.artifact_erased.digest))
            case "alias_set":
                self._name(fact.alias_set.alias, (run_id, fact.alias_set.digest))
            case "alias_removed":
                if self._aliases.get(fact.alias_removed.alias, ("", ""))[0] == run_id:
                    self._forget_alias(fact.alias_removed.alias)

    def alias(self, name: str) -> Place | None:
        """The run or import, and the digest, that an alias refers to."""
        return self._aliases.get(name)

    def entry(self, place: Place) -> RegistryEntry | None:
        return self._entries.get(place)

    def datasets(self, text: str) -> list[RegistryEntry]:
        """Datasets with this alias or this beginning of a digest, each digest once; at most five."""
        place = self._aliases.get(text)
        named = self._entries.get(place) if place is not None else None
        if named is not None and named.kind == DATASET:
            return [named]
        if len(text) < MIN_DIGEST_PREFIX:
            return []
        found: dict[str, RegistryEntry] = {}
        for index in range(bisect_left(self._datasets, (text, "")), len(self._datasets)):
            digest, run_id = self._datasets[index]
            if not digest.startswith(text) or (len(found) == MAX_FOUND and digest not in found):
                break
            entry = self._entries[run_id, digest]
            # Several runs may keep the same bytes: one that can be used counts.
            if digest not in found or obstacle(found[digest]):
                found[digest] = entry
        return list(found.values())

    def imports(self, text: str) -> list[RegistryEntry]:
        """Imported checkpoints with this id or the beginning of one; at most five."""
        if len(text) < MIN_IMPORT_PREFIX or not text.startswith(IMPORTS):
            return []
        start = bisect_left(self._imports, (text, ""))
        places = list(islice(self._imports, start, start + MAX_FOUND))
        return [self._entries[place] for place in places if place[0].startswith(text)]

    def dataset_not_found(self, text: str) -> str:
        """That no dataset has this name, with the nearest one."""
        names = [name for name, place in self._recent_aliases() if place in self._entries]
        datasets = [name for name in names if self._entries[self._aliases[name]].kind == DATASET]
        return not_accepted(text, datasets) if datasets else f"{text!r}: no dataset is registered yet"

    def checkpoint_names(self) -> list[str]:
        """Aliases and imports that a warm start can name; the newest ones when there are many."""
        aliases = [
            name
            for name, place in self._recent_aliases()
            if place not in self._entries or self._entries[place].kind == CHECKPOINT
        ]
        return [*aliases, *(import_id for import_id, _ in islice(self._imports, MAX_SUGGESTED))]

    def dump(self) -> RegistryState:
        return RegistryState(
            entries=self._entries.values(),
            aliases={
                name: RegistryAlias(run_id=run_id, digest=digest)
                for name, (run_id, digest) in self._aliases.items()
            },
            partial=self.partial,
        )

    def load(self, state: RegistryState) -> None:
        self._clear()
        self.partial = state.partial
        for entry in state.entries:
            self._put(entry)
        for name in state.aliases:
            self._name(name, (state.aliases[name].run_id, state.aliases[name].digest))

    def _recent_aliases(self) -> Iterator[tuple[str, Place]]:
        return islice(((name, self._aliases[name]) for name in reversed(self._aliases)), MAX_SUGGESTED)

    def _put(self, entry: RegistryEntry) -> None:
        place = (entry.run_id, entry.digest)
        if place in self._entries:
            return
        self._entries[place] = entry
        if entry.kind == DATASET:
            insort(self._datasets, (entry.digest, entry.run_id))
        else:
            insort(self._imports, place)
        if place not in self._alias_counts:
            self._hold_unnamed(place)

    def _indexed(self, run_id: str, artifact: ArtifactProduced) -> None:
        if (run_id, artifact.digest) in self._entries:
            self._set(run_id, artifact.digest, problem="", pruned="")
        elif artifact.kind == DATASET:
            entry = RegistryEntry(run_id=run_id, digest=artifact.digest, kind=DATASET, name=artifact.name)
            _describe(entry, artifact)
            self._put(entry)

    def _set(self, run_id: str, digest: str, **changes: str) -> None:
        entry = self._entries.get((run_id, digest))
        if entry is not None:
            for name, value in changes.items():
                setattr(entry, name, value)

    def _drop(self, place: Place) -> None:
        entry = self._entries.pop(place, None)
        if entry is None:
            return
        self._unnamed.pop(place, None)
        ordered, key = (
            (self._datasets, (place[1], place[0])) if entry.kind == DATASET else (self._imports, place)
        )
        del ordered[bisect_left(ordered, key)]

    def _name(self, alias: str, place: Place) -> None:
        self._forget_alias(alias)
        self._aliases[alias] = place
        self._alias_counts[place] += 1
        self._unnamed.pop(place, None)

    def _forget_alias(self, alias: str) -> None:
        place = self._aliases.pop(alias, None)
        if place is None:
            return
        self._alias_counts[place] -= 1
        if not self._alias_counts[place]:
            del self._alias_counts[place]
            if place in self._entries:
                self._hold_unnamed(place)

    def _hold_unnamed(self, place: Place) -> None:
        self._unnamed[place] = None
        if len(self._unnamed) > MAX_UNNAMED:
            self._drop(next(iter(self._unnamed)))
            self.partial = True


def obstacle(entry: RegistryEntry) -> str:
    """Why an entry cannot be used; empty when it can."""
    return entry.pruned or entry.problem


def _imported(import_id: str, imported: CheckpointImported) -> RegistryEntry:
    entry = RegistryEntry(
        run_id=import_id,
        digest=imported.digest,
        kind=imported.kind or CHECKPOINT,
        name=imported.name,
        algo=imported.algo,
        runner=imported.runner,
        problem=UNVERIFIED_TEXT,
    )
    _describe(entry, imported)
    entry.env = entry.env or imported.env
    return entry


def _describe(entry: RegistryEntry, source: ArtifactProduced | CheckpointImported) -> None:
    """Copy the size, and env and env_kwargs from the metadata."""
    entry.size = source.size
    if "env" in source.meta:
        entry.env = source.meta["env"].text
    if "env_kwargs" in source.meta:
        for name, value in source.meta["env_kwargs"].map.entries.items():
            entry.env_kwargs[name].CopyFrom(value)
