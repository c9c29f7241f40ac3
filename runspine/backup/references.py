"""Objects that the facts name. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from runspine.eventlog.admission import Admission, accepted_facts
from runspine.wire.v1.facts_pb2 import Fact
from runspine.wire.v1.trainer_pb2 import LogRecord


@dataclass(slots=True)
class References:
    """Digests by the run that keeps them: a run may prune what another keeps."""

    kept: dict[str, set[str]] = field(default_factory=dict)
    _admission: Admission = field(default_factory=Admission)

    def feed(self, records: Iterable[LogRecord]) -> None:
        """Take records of streams, in order from the first one on."""
        for record, fact in accepted_facts(records, self._admission):
            self._apply(record.subject.partition(".")[2], fact)

    def _apply(self, run_id: str, fact: Fact) -> None:
        match fact.WhichOneof("kind"):
            case "artifact_produced":
                self._keep(run_id, fact.artifact_produced.digest)
            case "checkpoint_imported":
                self._keep(run_id, fact.checkpoint_imported.digest)
            case "artifact_restored":
                self._keep(run_id, fact.artifact_restored.digest)
            case "artifact_pruned":
                self._drop(run_id, fact.artifact_pruned.digest)
            case "artifact_erased":
                self._drop(run_id, fact.artifact_erased.digest)
            case "artifact_corrupt":
                # Known to be lost before the backup was made.
                self._drop(run_id, fact.artifact_corrupt.digest)
            case "artifact_mended":
                self._keep(run_id, fact.artifact_mended.digest)

    def digests(self) -> set[str]:
        return set().union(*self.kept.values())

    def _keep(self, run_id: str, digest: str) -> None:
        self.kept.setdefault(run_id, set()).add(digest)

    def _drop(self, run_id: str, digest: str) -> None:
        self.kept.get(run_id, set()).discard(digest)
