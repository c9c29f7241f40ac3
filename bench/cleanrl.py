"""`python -m bench.cleanrl --checkout DIR [--python PY]`: what recording costs an unmodified CleanRL script.

The script runs alone and under the launcher in pairs, side by side, so that both have the same neighbours.
CPU time is compared, without what it takes to begin (imports): before each pair a pair of few steps measures
that, and the middle of all those is taken off. Beside it stands the speed that the script itself prints,
which also knows of waiting, and hears every neighbour.
With gymnasium 0.29 "alone" is `python script.py`; with a later one, which the script does not understand, it
is the launcher outside a run: the shims, and no tap on any env.
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

from bench.figures import Report
from services.worker.runners.cleanrl import HEADLESS, LAUNCHER

TARGET = 1.03
FEW_STEPS = {"ppo": 512, "pqn": 512, "dqn": 50}
MORE = {"dqn": ["--learning-starts", "1000"]}
# Steps a second since its loop began, as the scripts print it.
SPS = re.compile(r"^SPS: (\d+)$", re.MULTILINE)


class Cost(NamedTuple):
    """Of one run: CPU seconds from start to end, children included, and its own last word on speed."""

    cpu: float
    speed: float


class Pair(NamedTuple):
    alone: Cost
    recorded: Cost


@dataclass(frozen=True, slots=True)
class Bench:
    checkout: Path
    python: str
    old: bool
    scratch: Path

    def pair(self, algo: str, steps: int) -> Pair:
        """Both at the same time."""
        with ThreadPoolExecutor(2) as pool:
            both = [pool.submit(self.run, algo, steps, recorded=on) for on in (False, True)]
            return Pair(*(each.result() for each in both))

    def run(self, algo: str, steps: int, *, recorded: bool) -> Cost:
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        reading, writing = os.pipe()
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**kept, **HEADLESS, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.checkout)}
        if recorded:
            told = {"RUN_ID": "01BENCH", "RUN_DIR": str(folder), "TELEMETRY_FD": str(writing)}
            environment |= {f"RUNSPINE_{name}": value for name, value in told.items()}
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
        said = (folder / "output").read_text()
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{said[-2000:]}")
        speeds = SPS.findall(said)
        return Cost(usage.ru_utime + usage.ru_stime, float(speeds[-1]) if speeds else 0.0)

    def words(self, algo: str, steps: int, *, recorded: bool) -> list[str]:
        script = self.checkout / "cleanrl" / f"{algo}.py"
        launched = [str(LAUNCHER), "--path", str(self.checkout), str(script)]
        command = launched if recorded or not self.old else [str(script)]
        return [self.python, *command, "--total-timesteps", str(steps), *MORE.get(algo, [])]


class Figures(NamedTuple):
    # CPU µs of a step alone.
    cost: float
    # Of each pair, recorded ÷ alone.
    cpu: list[float]
    speed: list[float]


def measure(bench: Bench, algo: str, steps: int, pairs: int) -> Figures:
    few, short, long = FEW_STEPS[algo], list[Pair](), list[Pair]()
    for number in range(pairs):
        short.append(bench.pair(algo, few))
        long.append(bench.pair(algo, steps))
        rough = long[-1].recorded.cpu / long[-1].alone.cpu
        print(f"pair {number + 1} of {pairs}, recorded ÷ alone with imports: {rough:.3f}", file=sys.stderr)
    return figures(short, long, steps - few)


def figures(short: Sequence[Pair], long: Sequence[Pair], steps: int) -> Figures:
    """Pure."""
    begin_alone = median(pair.alone.cpu for pair in short)
    begin_recorded = median(pair.recorded.cpu for pair in short)
    alone = [pair.alone.cpu - begin_alone for pair in long]
    recorded = [pair.recorded.cpu - begin_recorded for pair in long]
    ratios = [ours / bare for ours, bare in zip(recorded, alone, strict=True)]
    speeds = [pair.recorded.speed / pair.alone.speed for pair in long if pair.alone.speed]
    return Figures(median(alone) / steps * 1e6, ratios, speeds)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--python", default="python")
    parser.add_argument("--algo", choices=FEW_STEPS, default="ppo")
    parser.add_argument("--steps", type=int, default=40_960)
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    # Each run has a folder of its own: a relative path would lead nowhere from there.
    asked.python = os.path.abspath(shutil.which(asked.python) or asked.python)
    ask = "import gymnasium; print(gymnasium.__version__)"
    version = subprocess.check_output([asked.python, "-c", ask], text=True).strip()
    report = Report(f"CleanRL's {asked.algo}.py, gymnasium {version}")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        bench = Bench(asked.checkout.resolve(), asked.python, version.startswith("0."), Path(scratch))
        found = measure(bench, asked.algo, asked.steps, asked.pairs)
    middle = median(found.cpu)
    report.add(
        *("CPU, recorded ÷ alone", middle, "×"),
        target=f"≤ {TARGET}",
        met=middle <= TARGET,
        beside=spread(found.cpu),
    )
    if found.speed:
        report.add(
            "the script's own SPS, recorded ÷ alone", median(found.speed), "×", beside=spread(found.speed)
        )
    report.add("CPU of a step alone", found.cost, "µs")
    print(report.as_markdown())


def spread(ratios: Sequence[float]) -> str:
    return f"{len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}"


if __name__ == "__main__":
    main()
