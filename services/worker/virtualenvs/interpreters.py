"""The Python that a virtualenv is made from: the worker's, or another one of its host. Blocks."""

from __future__ import annotations

import functools
import shutil
import subprocess
from collections.abc import Mapping

from runspine.services.worker.virtualenvs.build import NotBuiltError
from runspine.services.worker.virtualenvs.recipe import PythonFound

PROBE_SECONDS = 20.0
_PROBE = "import platform; print(platform.python_implementation(), platform.python_version())"


def find_python(wanted: str, own: str, environment: Mapping[str, str]) -> PythonFound:
    """The worker's Python, or one of the PATH when its version is not the one wanted.

    Raises NotBuiltError.
    """
    found = _asked(own)
    if not wanted or _fits(found, wanted):
        return found
    named = f"python{'.'.join(wanted.split('.')[:2])}"
    other = shutil.which(named, path=environment.get("PATH", ""))
    if other is not None and _fits(_asked(other), wanted):
        return _asked(other)
    raise NotBuiltError(
        f"Python {wanted} is not on this worker: it has {found.version}, and no {named} on its PATH that "
        "fits. Install it there, or change packages.python"
    )


def _fits(found: PythonFound, wanted: str) -> bool:
    parts = wanted.split(".")
    return found.version.partition(" ")[2].split(".")[: len(parts)] == parts


@functools.lru_cache(maxsize=32)
def _asked(path: str) -> PythonFound:
    """An interpreter of the host with its version; it is the operator's, not the run's."""
    try:
        done = subprocess.run(
            [path, "-I", "-S", "-c", _PROBE],
            check=True,
            capture_output=True,
            text=True,
            timeout=PROBE_SECONDS,
            env={},
        )
    except (OSError, subprocess.SubprocessError) as error:
        raise NotBuiltError(f"{path} cannot be asked for its version: {error}") from error
    return PythonFound(path, done.stdout.strip()[:100])
