"""Measures parts, and reads them from their files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runspine.bench.kit.figures import CostCurve, Figure, figure_from_json
from runspine.bench.kit.screen import Announce
from runspine.bench.report.parts import PARTS

# More than any part takes on a slow machine.
TIMEOUT_SECONDS = 3600.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A measured part, or the reason why it was not measured."""

    part: str
    size: str
    at: float
    seconds: float
    trouble: str = ""
    # Share of all cores that other processes used before it, and the load at its end.
    others: float = 0.0
    load: float = 0.0
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    curves: list[CostCurve] = field(default_factory=list)


def measure(folder: Path, names: Sequence[str], size: str, peers: str, announce: Announce) -> None:
    """Measure each part in a separate process, so that one failure does not affect the others."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    # Before the first: an interrupted report must not find old results.
    for name in names:
        (parts / f"{name}.json").unlink(missing_ok=True)
    for number, name in enumerate(names, 1):
        announce(f"[{number}/{len(names)}] {PARTS[name].title}")
        file = parts / f"{name}.json"
        began = time.time()
        trouble = _run(name, size, peers, file, announce)
        if trouble:
            announce(f"  {name} was not measured: {trouble}")
            taken = {
                "part": name,
                "size": size,
                "at": began,
                "seconds": time.time() - began,
                "trouble": trouble,
            }
            file.write_text(json.dumps(taken, indent=1) + "\n")


def _run(name: str, size: str, peers: str, file: Path, announce: Announce) -> str:
    """Run one part; return the reason of a failure, or nothing."""
    # The trainer's figures are for one thread of torch, which disturbs the others least.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "runspine.bench.report.parts", name, size, peers, str(file)]
    last = "it ended without output"
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            for line in process.stderr:
                last = line.strip() or last
                announce(f"  {line.rstrip()}")
            code = process.wait(TIMEOUT_SECONDS)
        except BaseException:
            process.terminate()
            raise
    return "" if code == 0 and file.is_file() else last


def gathered(folder: Path) -> dict[str, Taken]:
    """Measured parts, in the order of PARTS."""
    found = {}
    for name in PARTS:
        file = folder / "parts" / f"{name}.json"
        if file.is_file():
            found[name] = _taken(json.loads(file.read_text()))
    return found


def _taken(fields: dict[str, Any]) -> Taken:
    figures = [figure_from_json(f) for f in fields.pop("figures", [])]
    curves = [
        CostCurve(c["chart"], c["name"], [(x, y) for x, y in c["points"]]) for c in fields.pop("curves", [])
    ]
    return Taken(**fields, figures=figures, curves=curves)
