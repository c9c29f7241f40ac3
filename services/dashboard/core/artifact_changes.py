"""Which runs' artifacts have changed, folded from the ARTIFACTS facts of Watch."""

from __future__ import annotations

from runspine.wire.v1.trainer_pb2 import WatchResponse


class ArtifactChanges:
    """A number for each run that grows with its artifacts' facts; pages compare it with what they drew."""

    def __init__(self) -> None:
        # Last position of the ARTIFACTS stream that is folded in; it grows with every fact of any run.
        self.position = 0
        self._runs: dict[str, int] = {}

    def apply(self, message: WatchResponse) -> None:
        self.position = max(self.position, message.position)
        self._runs[message.subject.partition(".")[2]] = message.position

    def of(self, run_id: str) -> int:
        """The position of the newest fact of a run; 0 when there is none since this process started."""
        return self._runs.get(run_id, 0)
