"""Whether this machine can run CORL's scripts, for `runspine doctor`."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from typing import Literal, NamedTuple

from runspine.instrument.corl.checkout import HOW_TO_GET, PACKAGES, VARIABLE, CorlCheckout, CorlCheckoutError

PYTHON = "RUNSPINE_RUNNER_PYTHON_CORL"


class CorlReadiness(NamedTuple):
    """Result and remedy. `note`: it is not configured."""

    level: Literal["ok", "note", "warn"]
    text: str
    do: str = ""


def readiness(environment: Mapping[str, str]) -> CorlReadiness:
    try:
        checkout = CorlCheckout.find(environment)
    except CorlCheckoutError as error:
        if not environment.get(VARIABLE):
            return CorlReadiness("note", f"{VARIABLE} is not set", f"if you want it: {HOW_TO_GET}")
        return CorlReadiness("warn", str(error).partition(": ")[0], HOW_TO_GET)
    count = len(checkout.scripts())
    if not count:
        return CorlReadiness("warn", f"{checkout.folder} has no scripts", HOW_TO_GET)
    text = f"{count} scripts in {checkout.folder}"
    if environment.get(PYTHON):
        return CorlReadiness("ok", f"{text}; run by {environment[PYTHON]}")
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        return CorlReadiness(
            "warn", f"{text}, but not installed: {', '.join(missing)}", f"pip install {' '.join(missing)}"
        )
    return CorlReadiness("ok", text)
