"""Logs recorded by earlier releases must still read, verify, and fold to the same runs.

A release adds one: `runspine events export tests/replay/<version>.log`, then
`python -m tests.replay.test_recorded_logs <version>` writes what it folds to next to it.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from runspine.backup.log_export import read_export
from runspine.eventlog.chain import ChainVerifier
from runspine.eventlog.port import Recorded
from runspine.services.orchestrator.core.board import Board
from runspine.spec.plain import to_plain
from tests.kit.paths import RECORDED_LOGS


def fold_file(path: Path) -> tuple[dict[str, object], list[str]]:
    """The board that a recorded log adds up to, and what is wrong with the log."""
    board = Board()
    _, records = read_export(path)
    verifiers: dict[str, ChainVerifier] = {}
    for record in records:
        verifier = verifiers.setdefault(record.stream, ChainVerifier(record.stream))
        verifier.feed(record.sequence, record.subject, record.commit, record.digest)
        place = (record.stream, record.sequence, record.subject)
        board.apply(Recorded(*place, record.commit, record.digest, record.stored_at))
    found_problems = [str(f) for v in verifiers.values() for f in v.finish(v.sequence)]
    folded = {
        "runs": {run_id: to_plain(run, full=False) for run_id, run in sorted(board.runs.items())},
        "attempts": {k: to_plain(v, full=False) for k, v in sorted(board.attempts.items())},
        "workers": {k: to_plain(v, full=False) for k, v in sorted(board.workers.items())},
    }
    return folded, found_problems  # type: ignore[return-value]


@pytest.mark.parametrize("path", sorted(RECORDED_LOGS.glob("*.log")), ids=lambda p: p.stem)
def test_a_recorded_log_still_folds_to_the_same_runs(path: Path) -> None:
    folded, found_problems = fold_file(path)
    assert found_problems == []
    assert folded == json.loads(path.with_suffix(".json").read_text())


def test_there_is_a_recorded_log() -> None:
    assert list(RECORDED_LOGS.glob("*.log"))


if __name__ == "__main__":
    log = RECORDED_LOGS / f"{sys.argv[1]}.log"
    log.with_suffix(".json").write_text(json.dumps(fold_file(log)[0], indent=1, sort_keys=True) + "\n")
