"""`python -m tests.histories FILE...`: check recorded calls; exit code 1 when no order explains them."""

from __future__ import annotations

import argparse
import sys
import time
from pathlib import Path

from tests.histories.calls import read_files
from tests.histories.check import check


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--linearizable", action="store_true", help="reads must show other sessions' writes at once"
    )
    parser.add_argument("files", nargs="+", type=Path, help="recordings of the same clock")
    options = parser.parse_args()
    began = time.monotonic()
    report = check(read_files(options.files), linearizable=options.linearizable)
    seconds = time.monotonic() - began
    print(f"{report.calls:,} calls, {report.runs:,} runs, {report.keys:,} keys checked in {seconds:.1f} s")
    for contradiction in report.contradictions:
        print(f"\n{contradiction}")
    return int(bool(report.contradictions))


if __name__ == "__main__":
    sys.exit(main())
