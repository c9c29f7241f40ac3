"""Whether this machine can run CORL's scripts beside our own algorithms, for `runspine doctor`."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Literal, NamedTuple

from runspine.datasets.corl.checkout import HOW_TO_GET, PACKAGES, VARIABLE, Checkout, NoCheckout

PYTHON = "RUNSPINE_RUNNER_PYTHON_CORL"


class Readiness(NamedTuple):
    level: Literal["ok", "note", "warn"]
    says: str
    do: str = ""


def readiness(environment: Mapping[str, str]) -> Readiness:
    try:
        checkout = Checkout.find(environment)
    except NoCheckout as error:
        if not environment.get(VARIABLE):
            return Readiness("note", f"{VARIABLE} is not set", f"if you want it: {HOW_TO_GET}")
        return Readiness("warn", str(error).partition(": ")[0], HOW_TO_GET)
    count = len(checkout.scripts())
    if not count:
        return Readiness("warn", f"{checkout.folder} has no scripts", HOW_TO_GET)
    says = f"{count} scripts in {checkout.folder}"
    if environment.get(PYTHON):
        return Readiness("ok", f"{says}; run by {environment[PYTHON]}")
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return Readiness(
            "warn", f"{says}, but not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}"
        )
    return Readiness("ok", says)
