"""Cost of recording a CleanRL script: `python -m runspine.bench.trainers.cleanrl --checkout DIR`.

The script runs alone and under the launcher at the same time, so that both see the same load.
CPU time is compared, without the start (imports): before each pair a pair of few steps measures the start,
and the median of those is subtracted. The speed that the script itself prints is reported as well; it
includes waiting, and depends on other load.
With gymnasium 0.29 "alone" is `python script.py`; with a later one, which the script does not support, it
is the launcher outside a run: the compatibility layer without recording.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import NamedTuple

from runspine.bench.kit.figures import Report
from runspine.services.worker.runners.cleanrl import HEADLESS, LAUNCHER

TARGET = 1.03
FEW_STEPS = {"ppo": 512, "pqn": 512, "dqn": 50}
MORE = {"dqn": ["--learning-starts", "1000"]}
# Steps per second since its loop began, as the scripts print it.
SPS = re.compile(r"^SPS: (\d+)$", re.MULTILINE)


class Cost(NamedTuple):
    """CPU seconds of one run, with its children, and the last speed that it printed."""

    cpu: float
    speed: float


class Pair(NamedTuple):
    """Costs of a script alone and recorded."""

    alone: Cost
    recorded: Cost


@dataclass(frozen=True, slots=True)
class CleanrlBench:
    checkout: Path
    python: str
    old: bool
    scratch: Path

    def pair(self, algo: str, steps: int) -> Pair:
        """Run both at the same time."""
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(self.run, algo, steps, recorded=on) for on in (False, True)]
            return Pair(*(each.result() for each in both))

    def run(self, algo: str, steps: int, *, recorded: bool) -> Cost:
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        reading, writing = os.pipe()
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**kept, **HEADLESS, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.checkout)}
        if recorded:
            variables = {"RUN_ID": "01BENCH", "RUN_DIR": str(folder), "TELEMETRY_FD": str(writing)}
            environment |= {f"RUNSPINE_{name}": value for name, value in variables.items()}
        words = self.words(algo, steps, recorded=recorded)
        with (folder / "output").open("wb") as output:
            process = subprocess.Popen(
                words, cwd=folder, env=environment, stdout=output, stderr=output, pass_fds=(writing,)
            )
        os.close(writing)
        while os.read(reading, 1 << 20):
            pass
        os.close(reading)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        output_text = (folder / "output").read_text()
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{output_text[-2000:]}")
        speeds = SPS.findall(output_text)
        return Cost(usage.ru_utime + usage.ru_stime, float(speeds[-1]) if speeds else 0.0)

    def words(self, algo: str, steps: int, *, recorded: bool) -> list[str]:
        script = self.checkout / "cleanrl" / f"{algo}.py"
        launched = [str(LAUNCHER), "--path", str(self.checkout), str(script)]
        command = launched if recorded or not self.old else [str(script)]
        return [self.python, *command, "--total-timesteps", str(steps), *MORE.get(algo, [])]


class CleanrlFigures(NamedTuple):
    # µs of CPU per step alone.
    cost: float
    # Recorded ÷ alone, of each pair.
    cpu: list[float]
    speed: list[float]


def measure(bench: CleanrlBench, algo: str, steps: int, pairs: int) -> CleanrlFigures:
    few, short, long = FEW_STEPS[algo], list[Pair](), list[Pair]()
    for number in range(pairs):
        short.append(bench.pair(algo, few))
        long.append(bench.pair(algo, steps))
        rough = long[-1].recorded.cpu / long[-1].alone.cpu
        print(f"pair {number + 1} of {pairs}, recorded ÷ alone with imports: {rough:.3f}", file=sys.stderr)
    return figures(short, long, steps - few)


def figures(short: Sequence[Pair], long: Sequence[Pair], steps: int) -> CleanrlFigures:
    """Figures from the pairs. Pure."""
    begin_alone = median(pair.alone.cpu for pair in short)
    begin_recorded = median(pair.recorded.cpu for pair in short)
    alone = [pair.alone.cpu - begin_alone for pair in long]
    recorded = [pair.recorded.cpu - begin_recorded for pair in long]
    ratios = [ours / bare for ours, bare in zip(recorded, alone, strict=True)]
    speeds = [pair.recorded.speed / pair.alone.speed for pair in long if pair.alone.speed]
    return CleanrlFigures(median(alone) / steps * 1e6, ratios, speeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--python", default="python")
    parser.add_argument("--algo", choices=FEW_STEPS, default="ppo")
    parser.add_argument("--steps", type=int, default=40_960)
    parser.add_argument("--pairs", type=int, default=7)
    args = parser.parse_args()
    # Each run has its own working directory: a relative path would not resolve there.
    args.python = os.path.abspath(shutil.which(args.python) or args.python)
    print_version = "import gymnasium; print(gymnasium.__version__)"
    version = subprocess.check_output([args.python, "-c", print_version], text=True).strip()
    report = Report(f"CleanRL's {args.algo}.py, gymnasium {version}")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        bench = CleanrlBench(args.checkout.resolve(), args.python, version.startswith("0."), Path(scratch))
        found = measure(bench, args.algo, args.steps, args.pairs)
    middle = median(found.cpu)
    report.add(
        *("CPU, recorded ÷ alone", middle, "×"),
        target=f"≤ {TARGET}",
        met=middle <= TARGET,
        context=spread(found.cpu),
    )
    if found.speed:
        report.add(
            "the script's own SPS, recorded ÷ alone", median(found.speed), "×", context=spread(found.speed)
        )
    report.add("CPU of a step alone", found.cost, "µs")
    print(report.as_markdown())


def spread(ratios: Sequence[float]) -> str:
    return f"{len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}"


if __name__ == "__main__":
    main()
