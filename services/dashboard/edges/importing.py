"""A checkpoint that somebody uploads, read and handed on by a process of its own.

A hostile file is the business of `runspine import`, which reads it without running a byte; the page
waits for its word.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
from pathlib import Path
from typing import Any

from runspine.errors import Refused, RunspineError
from services.dashboard.edges.backend import Backend

PATIENCE = 300.0
PASSED_ON = ("PATH", "HOME", "LANG", "PYTHONPATH", "VIRTUAL_ENV", "TMPDIR")


async def import_upload(backend: Backend, token: str, path: Path, said: dict[str, str]) -> dict[str, Any]:
    """What the command line says of it. `said` are env, algo, runner as given. Raises Refused."""
    own = {
        "RUNSPINE_ADDRESS": backend.addresses["trainer"],
        "RUNSPINE_TELEMETRY_ADDRESS": backend.addresses["telemetry"],
        "RUNSPINE_ARTIFACTS_ADDRESS": backend.addresses["artifacts"],
        "RUNSPINE_TOKEN": token,
    }
    given = [word for name, value in said.items() if value for word in (f"--{name}", value)]
    child = await asyncio.create_subprocess_exec(
        sys.executable, "-P", "-m", "runspine", "import", "--json", *given, "--", str(path),
        stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
        env={**{name: os.environ[name] for name in PASSED_ON if name in os.environ}, **own},
    )  # fmt: skip
    try:
        async with asyncio.timeout(PATIENCE):
            out, err = await child.communicate()
    except TimeoutError as error:
        raise RunspineError(f"the file was not read within {PATIENCE:.0f} s") from error
    finally:
        if child.returncode is None:
            child.kill()
    if child.returncode:
        raise Refused(_reason(out, err))
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
    return (err or out).decode(errors="replace").strip()[-500:] or "it could not be imported"
