"""Variables by which Python processes are instrumented. Pure; imported by the worker as well."""

from __future__ import annotations

import os
from pathlib import Path

# How to instrument: the Gymnasium that the program was written for, or not at all.
MODE, OFF = "RUNSPINE_INSTRUMENT", "off"
FOLDER = Path(__file__).with_name("startup")


def startup_variables(api: str, python_path: str) -> dict[str, str]:
    """Variables that instrument every Python process that gets them."""
    folders = [folder for folder in python_path.split(os.pathsep) if folder and folder != str(FOLDER)]
    return {MODE: api, "PYTHONPATH": os.pathsep.join((str(FOLDER), *folders))}
