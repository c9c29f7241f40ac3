"""Row of the target that is counted, not timed: the result of the last `make chaos`."""

from __future__ import annotations

import json
import time
from pathlib import Path

WHAT = "any process killed with -9 at random under load: facts lost, runs misstated or run twice"
# Counters of a verdict, where present.
WRONGS = (
    "lost_facts", "lost_runs", "misstated", "executed_at_once", "lost_steps", "doubled_steps", "never_stored",
    "unreadable",
)  # fmt: skip


def row(folder: Path) -> str:
    """Row of the table, from the longest verdict in `folder`."""
    verdicts = [
        (json.loads(file.read_text()), file.stat().st_mtime) for file in folder.glob("verdict-*.json")
    ]
    if not verdicts:
        return f"| {WHAT} | 0 | – | – | counted by `make chaos`, which has not been run here |"
    verdict, at = max(verdicts, key=lambda each: each[0].get("seconds", 0.0))
    wrong = sum(int(verdict.get(name, 0)) for name in WRONGS)
    mark = "✓ met" if not wrong and not verdict.get("examples") else "✗ **not met**"
    day = time.strftime("%Y-%m-%d", time.gmtime(at))
    seen = (
        f"`make chaos SECONDS={verdict.get('seconds', 0):.0f} SEED={verdict.get('seed')}` on {day}: "
        f"{verdict.get('faults', 0)} faults, {verdict.get('runs', 0)} runs, "
        f"{verdict.get('attempts', 0)} attempts"
    )
    return f"| {WHAT} | 0 | **{wrong}** | {mark} | {'; '.join([seen, *verdict.get('examples', [])[:1]])} |"
