"""The Python of each runner: the virtualenv that the worker's settings name, else the worker's own."""

from __future__ import annotations

import os
import re
import sys
from collections.abc import Mapping

from runspine.runners import NotReadyError

PREFIX = "RUNSPINE_RUNNER_PYTHON_"


def python_for(runner: str, chosen: Mapping[str, str], environment: Mapping[str, str]) -> str:
    """The interpreter for a runner, the worker's own by default.

    Raises NotReadyError when it is not there.
    """
    variable = PREFIX + re.sub(r"[^A-Za-z0-9]", "_", runner).upper()
    if environment.get(variable):
        path, source = environment[variable], variable
    elif chosen.get(runner):
        path, source = chosen[runner], f"RUNSPINE_RUNNER_PYTHON ({runner})"
    else:
        return sys.executable
    if not os.path.isfile(path):
        raise NotReadyError(
            f"the Python of runner {runner} does not exist: {source} names {path}. "
            "Make that virtualenv, or correct the worker's setting"
        )
    if not os.access(path, os.X_OK):
        raise NotReadyError(f"the Python of runner {runner} is not executable: {source} names {path}")
    return path
