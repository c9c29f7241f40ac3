"""Run as `python -m hostile <what it is given as JSON>`; writes `escapes.json` to the run's directory."""

from __future__ import annotations

import json
import os
import sys

from . import kernel, machine, network, others, uploads
from .registry import ESCAPES, GIVEN, NotTriedError

TRIED = tuple(module.__name__ for module in (others, machine, kernel, network, uploads))


def main() -> None:
    GIVEN.update(json.loads(sys.argv[1]))
    os.chdir(os.environ["RUNSPINE_RUN_DIR"])
    GIVEN.update(run_dir=os.environ["RUNSPINE_RUN_DIR"], extra=[os.environ["RUNSPINE_TELEMETRY_FD"]])
    results: dict[str, str] = {}
    for name, attempt in ESCAPES.items():
        try:
            got = attempt()
            results[name] = f"GOT {got!r}"[:300] if got else "nothing"
        except NotTriedError as missing:
            results[name] = f"not tried: {missing}"
        # Any other error is a refusal; this program has no other way to go on.
        except Exception as error:  # noqa: BLE001
            results[name] = f"refused: {error}"[:200]
    with open("escapes.json", "w") as file:
        json.dump(results, file)


if __name__ == "__main__":
    main()
