"""Import of an uploaded checkpoint in a child process.

The child is `runspine import`, which reads untrusted files without executing their content.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from runspine.errors import RefusedError, RunspineError
from runspine.services.dashboard.edges.backend import Backend

IMPORT_TIMEOUT_SECONDS = 300.0
PASSED_VARIABLES = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


async def import_upload(backend: Backend, token: str, path: Path, options: dict[str, str]) -> dict[str, Any]:
    """The JSON output of `runspine import`. `options`: env, algo, runner as given. Raises RefusedError."""
    variables = {
        "RUNSPINE_ADDRESS": backend.addresses["trainer"],
        "RUNSPINE_TELEMETRY_ADDRESS": backend.addresses["telemetry"],
        "RUNSPINE_ARTIFACTS_ADDRESS": backend.addresses["artifacts"],
        "RUNSPINE_TOKEN": token,
    }
    given = [word for name, value in options.items() if value for word in (f"--{name}", value)]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "runspine", "import", "--json", *given, "--", str(path),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**{name: os.environ[name] for name in PASSED_VARIABLES if name in os.environ}, **variables},
    )  # fmt: skip
    try:
        async with asyncio.timeout(IMPORT_TIMEOUT_SECONDS):
            out, err = await child.communicate()
    except TimeoutError as error:
        raise RunspineError(f"the import did not finish within {IMPORT_TIMEOUT_SECONDS:.0f} s") from error
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode:
        raise RefusedError(_reason(out, err))
    found: dict[str, Any] = json.loads(out.splitlines()[-1])
    return found


def _reason(out: bytes, err: bytes) -> str:
    with contextlib.suppress(ValueError, KeyError, IndexError, TypeError):
        return str(json.loads(out)["refused"][0]["refused"])
    for line in reversed(err.decode(errors="replace").splitlines()):
        try:
            return str(json.loads(line)["error"]["message"])
        except (ValueError, KeyError, TypeError):
            continue
    return (err or out).decode(errors="replace").strip()[-500:] or "the file could not be imported"
