"""Parts measured now or at another time, from their files."""

from __future__ import annotations

import json
import math
import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.figures import Curve, Figure
from bench.report.parts import PARTS

Tell = Callable[[str], None]
# More than any part takes on a slow machine.
PATIENCE = 3600.0


@dataclass(frozen=True, slots=True)
class Taken:
    """A part as it was measured, or why it was not."""

    part: str
    size: str
    at: float
    seconds: float
    trouble: str = ""
    # What part of all cores others used before it, and the load at its end.
    others: float = 0.0
    load: float = 0.0
    machine: dict[str, str] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    figures: list[Figure] = field(default_factory=list)
    curves: list[Curve] = field(default_factory=list)


def measure(folder: Path, names: Sequence[str], size: str, peers: str, tell: Tell) -> None:
    """Each in a process of its own, so that one that falls over leaves the others. All: from scratch."""
    parts = folder / "parts"
    parts.mkdir(parents=True, exist_ok=True)
    # Before the first: a report that is made from scratch must not find old ones when it is interrupted.
    for name in names:
        (parts / f"{name}.json").unlink(missing_ok=True)
    for number, name in enumerate(names, 1):
        tell(f"[{number}/{len(names)}] {PARTS[name].title}")
        file = parts / f"{name}.json"
        began = time.time()
        trouble = _run(name, size, peers, file, tell)
        if trouble:
            tell(f"  {name} was not measured: {trouble}")
            taken = {
                "part": name,
                "size": size,
                "at": began,
                "seconds": time.time() - began,
                "trouble": trouble,
            }
            file.write_text(json.dumps(taken, indent=1) + "\n")


def _run(name: str, size: str, peers: str, file: Path, tell: Tell) -> str:
    """Nothing, or why it ended badly."""
    # One thread of torch is what the trainer's figures are about, and it disturbs the others least.
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "bench.report.parts", name, size, peers, str(file)]
    last = "it ended without a word"
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr
            for line in process.stderr:
                last = line.strip() or last
                tell(f"  {line.rstrip()}")
            code = process.wait(PATIENCE)
        except BaseException:
            process.terminate()
            raise
    return "" if code == 0 and file.is_file() else last


def gathered(folder: Path) -> dict[str, Taken]:
    """What there is, in the order of the parts."""
    found = {}
    for name in PARTS:
        file = folder / "parts" / f"{name}.json"
        if file.is_file():
            found[name] = _taken(json.loads(file.read_text()))
    return found


def _taken(said: dict[str, Any]) -> Taken:
    figures = [Figure(**{**f, "value": _number(f["value"])}) for f in said.pop("figures", [])]
    curves = [Curve(c["chart"], c["name"], [(x, y) for x, y in c["points"]]) for c in said.pop("curves", [])]
    return Taken(**said, figures=figures, curves=curves)


def _number(value: float | None) -> float:
    return math.nan if value is None else value
