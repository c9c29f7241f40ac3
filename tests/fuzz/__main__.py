"""`python -m tests.fuzz [--seconds N] [TARGET...]`: each target for that long; what breaks one is kept.

A failing input, made as small as it gets, is written to tests/corpus/<target>, where the tests find it.
"""

from __future__ import annotations

import argparse
import hashlib
import random
import sys
import time
from collections.abc import Callable

from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.fuzz.inputs import inputs, mutants
from tests.fuzz.service import service_target
from tests.fuzz.targets import TARGETS
from tests.kit.paths import CORPUS

ROUND, MUTANTS = 200, 40


def fuzz(name: str, check: Callable[[bytes], None], seconds: float) -> tuple[int, BaseException | None]:
    """How many inputs were tried, and what went wrong with the smallest that fails."""
    kind = name.partition("-")[0]  # the service is sent what its rules are tried with
    until, tried, last = time.monotonic() + seconds, 0, b""
    quiet = settings(
        max_examples=ROUND,
        deadline=None,
        database=None,
        phases=(Phase.generate, Phase.shrink),
        suppress_health_check=list(HealthCheck),
    )

    def once(data: bytes) -> None:
        nonlocal tried, last
        for given_ in (data, *mutants(data, MUTANTS if name in TARGETS else 2)):
            tried, last = tried + 1, given_
            check(given_)

    while time.monotonic() < until:
        attempt = seed(random.getrandbits(64))(quiet(given(inputs(kind))(once)))
        try:
            attempt()
        except Exception as error:  # noqa: BLE001 - whatever it is, it is what we look for
            folder = CORPUS / kind
            folder.mkdir(parents=True, exist_ok=True)
            (folder / hashlib.sha256(last).hexdigest()[:12]).write_bytes(last)
            return tried, error
    return tried, None


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    asked = parser.parse_args()
    broken = 0
    with service_target() as service:
        checks = {**TARGETS, "request-service": service}
        for name in asked.targets or checks:
            if checks[name] is service:
                service.start()  # one that does not start is no finding
            tried, error = fuzz(name, checks[name], asked.seconds)  # type: ignore[arg-type]
            broken += error is not None
            verdict = f"{type(error).__name__}: {error}" if error else "nothing found"
            print(f"{name:16} {tried:9,} inputs in {asked.seconds:.0f} s  {verdict}", flush=True)
    return 1 if broken else 0


if __name__ == "__main__":
    sys.exit(main())
