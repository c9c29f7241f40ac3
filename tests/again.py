"""`python -m tests.again ARGUMENTS`: pytest, and a second try alone for the few that failed.

Four tests at a time on two cores are a load that no user has, and a promise in seconds is only as good as
the machine is quiet. A test that passes then is named, so that its cause is mended; one that fails again
has failed.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

TESTS_FAILED = 1  # pytest's exit code; the others are interruptions, its own errors and wrong usage
A_HANDFUL = 5
LAST_FAILED = Path(".pytest_cache/v/cache/lastfailed")
ALONE = ("-n", "0", "--dist", "no", "--last-failed", "--last-failed-no-failures", "none")


def run(arguments: list[str], root: Path) -> int:
    """The exit code of pytest, or of its second run where that counts."""
    record = root / LAST_FAILED
    # What failed in another run is not this one's.
    record.unlink(missing_ok=True)
    code = pytest(arguments, root)
    failed = named(record)
    if code != TESTS_FAILED or not failed:
        return code
    if len(failed) > A_HANDFUL:
        print(f"\n{len(failed)} tests failed: too many for chance, none is tried again.")
        return code
    print("\nOnce more, alone:", *failed, sep="\n  ", flush=True)
    code = pytest([*arguments, *ALONE], root)
    if code == 0:
        print("\nFailed at first and passed alone; mend the cause:", *failed, sep="\n  ")
    return code


def named(record: Path) -> list[str]:
    return sorted(json.loads(record.read_text())) if record.exists() else []


def pytest(arguments: list[str], root: Path) -> int:
    child = subprocess.Popen([sys.executable, "-m", "pytest", *arguments], cwd=root)
    while True:
        try:
            code = child.wait()
        except KeyboardInterrupt:
            # pytest has heard it as well, and tidies up.
            continue
        return code if code >= 0 else 128 - code


if __name__ == "__main__":
    raise SystemExit(run(sys.argv[1:], Path()))
