"""Measures the path from a clone to the first finished run, with only Python, git and make.

`python -m runspine.bench.newcomer`: once with an empty package cache and once with a filled one.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from runspine.bench.kit.figures import Report

ROOT = Path(__file__).parents[2]
# Variables that would lead into an existing virtualenv or stack.
HIDDEN = re.compile(r"RUNSPINE_|VIRTUAL_ENV|PYTHON|PIP_CACHE_DIR|PIP_NO_CACHE_DIR|MAKE|MFLAGS")
STAGES = {
    "git clone": ["git", "clone", "--quiet", str(ROOT), "."],
    "install": ["make", ".venv/.stack"],
    "train": ["make", "run"],
}


def walked(folder: Path, cache: Path) -> dict[str, float]:
    """Seconds for each stage."""
    environment = {name: value for name, value in os.environ.items() if not HIDDEN.match(name)}
    environment["PIP_CACHE_DIR"] = str(cache)
    folder.mkdir()
    taken = {}
    for name, command in STAGES.items():
        began = time.perf_counter()
        done = subprocess.run(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, capture_output=True, text=True,
            check=False,
        )  # fmt: skip
        if done.returncode:
            raise RuntimeError(f"{' '.join(command)}: {(done.stderr or done.stdout).strip()[-2000:]}")
        taken[name] = time.perf_counter() - began
    if "completed after" not in done.stdout:
        raise RuntimeError(f"the run did not complete: {done.stdout[-2000:]}")
    return taken


def bench_newcomer() -> Report:
    report = Report("A newcomer's path")
    with tempfile.TemporaryDirectory(prefix="runspine-newcomer-", ignore_cleanup_errors=True) as scratch:
        cache = Path(scratch) / "cache"
        for name in ("cold", "warm"):
            taken = walked(Path(scratch) / name, cache)
            context = ", ".join(f"{stage} {seconds:.1f} s" for stage, seconds in taken.items())
            report.add(
                f"clone → first finished run, {name} package cache", sum(taken.values()), "s", context=context
            )
    return report


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    found = bench_newcomer()
    print(json.dumps(found.as_json()) if asked.json else found.as_markdown(), file=sys.stdout)
