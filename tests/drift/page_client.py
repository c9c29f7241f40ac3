"""The page's client in services/dashboard/static/app is what its sources give."""

from __future__ import annotations

import os
import runpy
import shutil
import subprocess
import sys

from tests.kit.paths import ROOT

CLIENT = ROOT / "services/dashboard/client"
BUILT = ROOT / "services/dashboard/static/app"


def client_drift() -> list[str]:
    """By the digest of the sources; and rebuilt, where Node and the packages of the lock file are there."""
    digest = runpy.run_path(str(CLIENT / "digest.py"))["sources_digest"]()
    if (BUILT / "built-from.txt").read_text() != digest:
        return [
            "services/dashboard/static/app is older than its sources: `npm ci && npm run build` in client/"
        ]
    if shutil.which("node") is None or not (CLIENT / "node_modules").is_dir():
        return []
    command = ["node", "build.mjs", "--check"]
    built = subprocess.run(
        command,
        cwd=CLIENT,
        check=False,
        capture_output=True,
        text=True,
        env={**os.environ, "PYTHON": sys.executable},
    )
    return built.stdout.splitlines() + built.stderr.splitlines() if built.returncode else []
