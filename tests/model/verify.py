"""Runs Spin on claim.pml: properties that must hold, and rules without which they must not."""

from __future__ import annotations

import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MODEL = Path(__file__).with_name("claim.pml")
ASSERTED = "asserted"
MAX_SECONDS = 600
# A search that goes beyond this has met a model that is no longer small.
MAX_MEGABYTES = 3000
SEARCH = ("-m200000", "-w22")


@dataclass(frozen=True)
class Case:
    """One property with what is defined for it. `holds` is False where a rule was taken away."""

    name: str
    claim: str
    defined: tuple[str, ...] = ()
    holds: bool = True


# Two orchestrators where they can get in each other's way; what happens in the end is asked of one.
ONE = ("ORCHESTRATORS=1",)
CASES = (
    Case("attempts execute one at a time, a run ends once", ASSERTED),
    Case("a queued run is claimed while a worker lives", "claims", ONE),
    Case("a run ends while a worker lives", "ends", ONE),
    Case("an attempt that was given up stops", "stops_late", (*ONE, "ENDLESS")),
    Case("without the lock of the log", ASSERTED, ("NO_LOCK",), holds=False),
    Case("without expected sequences", ASSERTED, ("NO_EXPECTED",), holds=False),
    Case("with the word of a late attempt counted", ASSERTED, ("NO_FENCE",), holds=False),
    Case("with LOST recorded before the trainer has ended", ASSERTED, ("LEFTOVER",), holds=False),
    Case("without heartbeats while a restarted worker recovers", ASSERTED, ("SILENT_RECOVERY",), holds=False),
    Case("with workers that do not follow their run", "stops_late", (*ONE, "ENDLESS", "DEAF"), holds=False),
    Case("with each offer posted only once", "claims", (*ONE, "POSTED_ONCE"), holds=False),
)


@dataclass(frozen=True)
class Verdict:
    """What Spin found. `error` is its own message about the first violation."""

    case: Case
    states: int
    seconds: float
    error: str = ""

    @property
    def as_expected(self) -> bool:
        return self.case.holds == (not self.error)


def missing() -> str:
    """Why nothing can be verified here, or nothing."""
    for program, package in (("spin", "spin"), ("cc", "a C compiler")):
        if shutil.which(program) is None:
            return f"{program} is not installed ({package})"
    return ""


def verify(cases: tuple[Case, ...] = CASES, faults: int = 2) -> Iterator[Verdict]:
    for case in cases:
        with tempfile.TemporaryDirectory() as folder:
            yield _verify(case, faults, Path(folder))


def _verify(case: Case, faults: int, folder: Path) -> Verdict:
    began = time.monotonic()
    asserted = case.claim == ASSERTED
    defined = [f"-D{name}" for name in (f"FAULTS={faults}", *case.defined)]
    _run(folder, "spin", "-a", *defined, str(MODEL))
    kind = ["-DNOCLAIM", "-DSAFETY"] if asserted else ["-DNFAIR=3"]
    # What is found early is compiled quickly.
    level = "-O2" if case.holds else "-O0"
    _run(folder, "cc", level, "-w", *kind, f"-DMEMLIM={MAX_MEGABYTES}", "-o", "pan", "pan.c")
    # -a -f: cycles, with weak fairness; every process that can go on does so in the end.
    search = SEARCH if asserted else ("-a", "-f", "-N", case.claim, *SEARCH)
    found = _run(folder, "./pan", *search)
    if "max search depth too small" in found or "errors:" not in found:
        raise AssertionError(f"the search of {case.name!r} was not finished\n{found[-2000:]}")
    errors = [line for line in found.splitlines() if line.startswith("pan:1:")]
    states = next(line.split()[0] for line in found.splitlines() if "states, stored" in line)
    return Verdict(
        case, int(float(states)), time.monotonic() - began, errors[0][6:].strip() if errors else ""
    )


def _run(folder: Path, *command: str) -> str:
    done = subprocess.run(
        command, cwd=folder, check=False, capture_output=True, text=True, timeout=MAX_SECONDS
    )
    if done.returncode and command[0] != "./pan":
        raise AssertionError(f"{' '.join(command)}\n{done.stdout}{done.stderr}")
    return done.stdout
