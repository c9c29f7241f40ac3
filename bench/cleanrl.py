"""`python -m bench.cleanrl --checkout DIR [--python PY]`: what recording costs an unmodified CleanRL script.

The script runs alone and under the launcher in pairs, side by side, so that both have the same neighbours.
CPU time is compared, without what it takes to begin (imports): that is measured by a run of few steps.
With gymnasium 0.29 "alone" is `python script.py`; with a later one, which the script does not understand, it
is the launcher outside a run, which records nothing.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from bench.figures import Report
from services.worker.runners.cleanrl import HEADLESS, LAUNCHER

TARGET = 1.03
FEW_STEPS = {"ppo": 512, "pqn": 512, "dqn": 50}
MORE = {"dqn": ["--learning-starts", "1000"]}


@dataclass(frozen=True, slots=True)
class Bench:
    checkout: Path
    python: str
    old: bool
    scratch: Path

    def cpu_seconds(self, algo: str, steps: int, *, recorded: bool, into: list[float]) -> None:
        """Of one run from its start to its end, children included."""
        script = self.checkout / "cleanrl" / f"{algo}.py"
        launched = [str(LAUNCHER), "--path", str(self.checkout), str(script)]
        alone = [str(script)] if self.old else launched
        words = [self.python, *(launched if recorded else alone)]
        words += ["--total-timesteps", str(steps), *MORE.get(algo, [])]
        folder = Path(tempfile.mkdtemp(dir=self.scratch))
        reading, writing = os.pipe()
        kept = {name: os.environ[name] for name in ("PATH", "HOME") if name in os.environ}
        environment = {**kept, **HEADLESS, "OMP_NUM_THREADS": "1", "PYTHONPATH": str(self.checkout)}
        if recorded:
            told = {"RUN_ID": "01BENCH", "RUN_DIR": str(folder), "TELEMETRY_FD": str(writing)}
            environment |= {f"RUNSPINE_{name}": value for name, value in told.items()}
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
        if process.returncode:
            raise SystemExit(f"{' '.join(words)} failed:\n{(folder / 'output').read_text()[-2000:]}")
        into.append(usage.ru_utime + usage.ru_stime)

    def pair(self, algo: str, steps: int) -> tuple[float, float]:
        """CPU seconds alone and recorded, at the same time."""
        alone: list[float] = []
        recorded: list[float] = []
        threads = [
            threading.Thread(
                target=self.cpu_seconds, args=(algo, steps), kwargs={"recorded": on, "into": into}
            )
            for on, into in ((False, alone), (True, recorded))
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        return alone[0], recorded[0]


def measure(bench: Bench, algo: str, steps: int, pairs: int) -> tuple[float, list[float]]:
    """CPU µs a step alone, and of each pair recorded ÷ alone."""
    few = FEW_STEPS[algo]
    begin = [bench.pair(algo, few) for _ in range(2)]
    begin_alone, begin_recorded = (min(values) for values in zip(*begin, strict=True))
    ratios, costs = [], []
    for _ in range(pairs):
        alone, recorded = bench.pair(algo, steps)
        ratios.append((recorded - begin_recorded) / (alone - begin_alone))
        print(f"recorded ÷ alone: {ratios[-1]:.3f}", file=sys.stderr)
        costs.append((alone - begin_alone) / (steps - few) * 1e6)
    return median(costs), ratios


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--checkout", type=Path, required=True)
    parser.add_argument("--python", default="python")
    parser.add_argument("--algo", choices=FEW_STEPS, default="ppo")
    parser.add_argument("--steps", type=int, default=20_480)
    parser.add_argument("--pairs", type=int, default=7)
    asked = parser.parse_args()
    # Each run has a folder of its own: a relative path would lead nowhere from there.
    asked.python = os.path.abspath(shutil.which(asked.python) or asked.python)
    ask = "import gymnasium; print(gymnasium.__version__)"
    version = subprocess.check_output([asked.python, "-c", ask], text=True).strip()
    report = Report(f"CleanRL's {asked.algo}.py, gymnasium {version}")
    with tempfile.TemporaryDirectory(prefix="runspine-bench-") as scratch:
        bench = Bench(asked.checkout.resolve(), asked.python, version.startswith("0."), Path(scratch))
        cost, ratios = measure(bench, asked.algo, asked.steps, asked.pairs)
    middle = median(ratios)
    spread = f"{len(ratios)} pairs, {min(ratios):.3f} to {max(ratios):.3f}"
    report.add(
        "CPU, recorded ÷ alone", middle, "×", target=f"≤ {TARGET}", met=middle <= TARGET, beside=spread
    )
    report.add("CPU of a step alone", cost, "µs")
    print(report.as_markdown())


if __name__ == "__main__":
    main()
