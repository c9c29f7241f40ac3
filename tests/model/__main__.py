"""`python -m tests.model [--faults N]`: verify claim.pml, and that each of its rules is needed."""

from __future__ import annotations

import argparse
import sys

from tests.model.verify import missing, verify


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "--faults", type=int, default=2, help="how many there are in a behaviour; 3 takes minutes"
    )
    options = parser.parse_args()
    if reason := missing():
        print(f"not verified: {reason}")
        return 0
    wrong = 0
    for verdict in verify(faults=options.faults):
        outcome = f"violated: {verdict.error}" if verdict.error else "holds"
        sign = "ok " if verdict.as_expected else "BAD"
        print(
            f"{sign} {verdict.case.name}: {outcome} ({verdict.states:,} states, {verdict.seconds:.1f} s)",
            flush=True,
        )
        wrong += not verdict.as_expected
    return int(bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
