"""`make nightly`: every proof that `make test` leaves out, and a table of what ran and what could not.

Each part runs on its own and the others go on when one fails. RUNSPINE_TEST_CLEANRL, RUNSPINE_TEST_CORL,
RUNSPINE_TEST_RAY_PYTHON and RUNSPINE_TEST_RAY_RUNS name what this machine has for the parts that need it.
RUNSPINE_SIMULATION_SECONDS is how long the simulator searches; as long as faults at random unless given.
`python -m tests.tools.nightly chaos fuzz` runs the parts named.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import xml.etree.ElementTree as ElementTree
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tests.kit.paths import ROOT
from tests.kit.servers.network import missing as missing_network
from tests.kit.servers.slurm import missing as missing_slurm
from tests.model.verify import missing as missing_spin

PYTEST = ("-m", "pytest", "-q", "--timeout=900")
RUNNERS = "tests/integration/runners"
# A part of its own, which states why it could not run.
SLURM = "tests/integration/deploy/test_launcher_slurm.py"


def new_seed() -> str:
    """Of a search: other schedules each night."""
    return str(int(time.time()) * 1000)


def no_reason() -> str:
    return ""


def needs(variable: str, what: str) -> Callable[[], str]:
    return lambda: "" if os.environ.get(variable) else f"{variable} does not name {what}"


def needs_docker() -> str:
    return "" if shutil.which("docker") or shutil.which("dockerd") else "no Docker engine is installed"


@dataclass(frozen=True)
class Part:
    """One command of Python, and why it cannot run here."""

    name: str
    arguments: tuple[str, ...]
    missing: Callable[[], str] = no_reason
    environment: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Result:
    """One line of the table."""

    name: str
    outcome: str
    seconds: float
    detail: str


def using_hypothesis() -> list[str]:
    """Test files with properties: `make test` tries the same examples each time."""
    files = sorted((ROOT / "tests").rglob("test_*.py"))
    return [str(file.relative_to(ROOT)) for file in files if "from hypothesis import" in file.read_text()]


def parts(seconds: int) -> list[Part]:
    fuzzed = str(max(10, seconds // 20))
    searched = os.environ.get("RUNSPINE_SIMULATION_SECONDS", str(seconds))
    return [
        Part("long tests", (*PYTEST, "-m", "long and not chaos", f"--ignore={SLURM}")),
        Part("properties", (*PYTEST, "-m", "not long", "--hypothesis-profile=search", *using_hypothesis())),
        Part("chaos", (*PYTEST, "-m", "chaos and long", "--ignore=tests/chaos/mixed", "tests/chaos")),
        Part(
            "faults at random",
            (*PYTEST, "-s", "-m", "chaos", f"--timeout={seconds + 900}", "tests/chaos/mixed"),
            environment={"RUNSPINE_CHAOS_SECONDS": str(seconds)},
        ),
        Part(
            "faults in a cluster",
            ("-m", "tests.chaos.cluster", "--seconds", str(seconds)),
            missing_network,
        ),
        Part("model of claims", ("-m", "tests.model", "--faults", "3"), missing_spin),
        Part(
            "simulation", ("-m", "tests.simulation", "--night", "--seconds", searched, "--first", new_seed())
        ),
        Part("faults found again", ("-m", "tests.simulation", "--table", "--seconds", "600")),
        Part("fuzz", ("-m", "tests.fuzz", "--seconds", fuzzed)),
        Part("learning", ("-m", "runspine.bench.trainers.learn", "--short", "--folder", "build/learn")),
        Part(
            "CleanRL",
            (*PYTEST, f"{RUNNERS}/test_cleanrl_checkout.py"),
            needs("RUNSPINE_TEST_CLEANRL", "a checkout of CleanRL"),
        ),
        Part(
            "CORL",
            (*PYTEST, f"{RUNNERS}/test_corl_checkout.py"),
            needs("RUNSPINE_TEST_CORL", "a checkout of CORL"),
        ),
        Part(
            "Ray",
            (*PYTEST, "tests/integration/deploy/test_launcher_ray.py"),
            needs("RUNSPINE_TEST_RAY_PYTHON", "a Python with Ray"),
        ),
        Part(
            "Slurm",
            (*PYTEST, "-s", "-m", "long", "--timeout=3000", SLURM),
            missing_slurm,
        ),
        Part(
            "compose",
            (*PYTEST, "-s", "--timeout=3600", "tests/integration/deploy/test_deploy_compose.py"),
            needs_docker,
            {"RUNSPINE_COMPOSE_TEST": "1", "RUNSPINE_COMPOSE_CACHE": "build/compose"},
        ),
    ]


def run(part: Part, folder: Path) -> Result:
    if reason := part.missing():
        return Result(part.name, "not run", 0.0, reason)
    report = folder / f"{part.name.replace(' ', '-').lower()}.xml"
    report.unlink(missing_ok=True)
    is_pytest = part.arguments[1] == "pytest"
    more = (f"--junitxml={report}",) if is_pytest else ()
    print(f"\n== {part.name} ==", flush=True)
    began = time.monotonic()
    code = subprocess.run(
        [sys.executable, *part.arguments, *more], cwd=ROOT, env={**os.environ, **part.environment}
    ).returncode
    counts, reasons = counted(report)
    outcome = "failed" if code else "passed" if not is_pytest or counts["passed"] else "not run"
    received = [f"{count} {kind}" for kind, count in counts.items()] + [f"skipped: {why}" for why in reasons]
    return Result(part.name, outcome, time.monotonic() - began, "; ".join(received) or f"exit code {code}")


def counted(report: Path) -> tuple[Counter[str], list[str]]:
    """Tests by outcome, and the reasons of those that were skipped."""
    counts: Counter[str] = Counter()
    reasons: Counter[str] = Counter()
    if not report.exists():
        return counts, []
    for test in ElementTree.parse(report).getroot().iter("testcase"):
        kinds = {child.tag: child for child in test}
        if "failure" in kinds or "error" in kinds:
            counts["failed"] += 1
        elif "skipped" in kinds:
            counts["skipped"] += 1
            reasons[kinds["skipped"].get("message", "")] += 1
        else:
            counts["passed"] += 1
    return counts, [f"{why} ({count})" if count > 1 else why for why, count in reasons.items()]


def table(results: list[Result]) -> str:
    """What ran, what passed, and what could not run and why."""
    lines = [f"{'part':18} {'outcome':8} {'minutes':>7}  detail"]
    lines += [f"{one.name:18} {one.outcome:8} {one.seconds / 60:7.1f}  {one.detail}" for one in results]
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=int, default=600, help="of faults at random")
    parser.add_argument("parts", nargs="*", help="names of parts; all of them by default")
    options = parser.parse_args()
    known = parts(options.seconds)
    if unknown := set(options.parts) - {part.name for part in known}:
        parser.error(f"no such part: {', '.join(sorted(unknown))}; {', '.join(part.name for part in known)}")
    folder = ROOT / "build" / "nightly"
    folder.mkdir(parents=True, exist_ok=True)
    chosen = [part for part in known if not options.parts or part.name in options.parts]
    results = [run(part, folder) for part in chosen]
    text = table(results)
    (folder / "table.txt").write_text(f"{text}\n")
    print(f"\n{text}")
    return int(any(one.outcome == "failed" for one in results))


if __name__ == "__main__":
    sys.exit(main())
