"""A verdict as the tables of docs/faults.md: `python -m tests.chaos.mixed.matrix VERDICT.json`."""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

TO_PROCESSES = {"kill": "killed", "freeze": "frozen", "jump": "clock jumped"}
TO_CONNECTIONS = {"cut": "cut", "silence": "silent", "slow": "slow", "errors": "S3 errors"}
TO_ALL = {
    "kill both": "Two processes killed at once",
    "fill": "Disk filled",
    "power": "Power lost",
    "flip": "Bits flipped",
}
WRONGS = {
    "lost_facts": "acknowledged facts lost",
    "lost_runs": "runs lost",
    "misstated": "runs misstated",
    "executed_at_once": "attempts executed at once",
    "lost_steps": "steps lost",
    "doubled_steps": "steps doubled",
    "never_stored": "runs with files that were never stored",
    "unreadable": "artifacts unreadable",
    "unseen_damage": "damage unseen",
}


def tables(found: Mapping[str, Any]) -> str:
    """In Markdown. Pure."""
    struck = [
        (kind, target, count)
        for name, count in found["each"].items()
        for kind, target in [kind_of(name)]
        if count
    ]
    totals = Counter[str]()
    for kind, _, count in struck:
        totals[kind] += count
    whole = ". ".join(f"{words}: {totals[kind]}" for kind, words in TO_ALL.items())
    wrongs = "\n".join(f"| {words} | {found.get(name, 'not asked')} |" for name, words in WRONGS.items())
    return "\n\n".join(
        (
            f"**{found['faults']:,} faults** under {found['runs']:,} runs, {found['attempts']:,} attempts "
            f"({found['runs with more than one']:,} runs needed more than one), "
            f"{found['cancelled']:,} cancels and {found['steps']:,} steps of runs that were not cancelled.",
            table("process", TO_PROCESSES, struck),
            table("connection", TO_CONNECTIONS, struck),
            f"{whole}.",
            f"| verdict | count |\n|---|---|\n{wrongs}",
        )
    )


def kind_of(name: str) -> tuple[str, str]:
    kinds = (*TO_ALL, *TO_PROCESSES, *TO_CONNECTIONS)
    kind = next(kind for kind in sorted(kinds, key=len, reverse=True) if name.startswith(f"{kind} "))
    return kind, name[len(kind) + 1 :]


def table(head: str, kinds: Mapping[str, str], struck: Iterable[tuple[str, str, int]]) -> str:
    counts = {(kind, target): count for kind, target, count in struck if kind in kinds}
    targets = sorted({target for _, target in counts})
    rows = (
        f"| {target} | {' | '.join(str(counts.get((kind, target), '')) for kind in kinds)} |"
        for target in targets
    )
    return "\n".join((f"| {head} | {' | '.join(kinds.values())} |", "|---" * (1 + len(kinds)) + "|", *rows))


if __name__ == "__main__":
    print(tables(json.loads(Path(sys.argv[1]).read_text())))
