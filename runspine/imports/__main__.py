"""`python -m runspine.imports`, started by a worker in the files of a run: reports what is in them."""

from __future__ import annotations

import gzip
import json
import os
import sys
from pathlib import Path
from typing import TextIO

from runspine.imports.packing import HEAD, PARTS


def report(folder: Path, out: TextIO) -> int:
    """Write the lines of the protocol; return how many points they hold."""
    head = json.loads((folder / HEAD).read_text(encoding="utf-8"))
    imported = {"tool": head["tool"], "name": head["name"]}
    out.write(json.dumps({"type": "config", "args": head["config"], "imported": imported}) + "\n")
    points = 0
    for part in sorted((folder / PARTS).glob("*.jsonl.gz")):
        with gzip.open(part, "rt", encoding="utf-8") as rows:
            for text in rows:
                row = json.loads(text)
                line = {"type": "metrics", "values": row["v"], "step": row["s"]}
                out.write(json.dumps({**line, "t": row["t"]} if row["t"] else line) + "\n")
                points += len(row["v"])
    out.flush()
    return points


def main() -> int:
    descriptor = os.environ.get("RUNSPINE_TELEMETRY_FD", "")
    if descriptor.isdecimal():
        with os.fdopen(int(descriptor), "w", encoding="utf-8", closefd=False) as out:
            points = report(Path.cwd(), out)
    else:
        points = report(Path.cwd(), sys.stdout)
    sys.stdout.write(f"imported {points:,} points\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
