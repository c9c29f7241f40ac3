"""What a service imports is what it uses: each import is paid for at every start."""

from __future__ import annotations

import subprocess
import sys

from tests.kit.environment import clean_environment
from tests.kit.paths import ROOT

# For WebSockets of nats-py, the administration API of minio, and coloured tracebacks of structlog.
UNUSED = ("aiohttp", "argon2", "colorama", "Crypto", "rich")
SCRIPT = """
import sys
import runspine.services.orchestrator.__main__, runspine.services.artifacts.__main__
import runspine.services.telemetry.__main__, runspine.services.worker.__main__
print(*(name for name in sys.argv[1:] if name in sys.modules))
"""


def python(script: str, *arguments: str) -> str:
    """What a script prints in an interpreter of its own."""
    command = [sys.executable, "-c", script, *arguments]
    return subprocess.check_output(command, cwd=ROOT, env=clean_environment(), text=True).strip()


def test_services_import_no_library_for_what_they_do_not_use() -> None:
    command = [sys.executable, "-c", SCRIPT, *UNUSED]
    done = subprocess.run(
        command, cwd=ROOT, env=clean_environment(), capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == []


def test_the_administration_of_s3_can_be_imported_later() -> None:
    script = (
        "from runspine.storage.minio_py import Minio; from minio.minioadmin import MinioAdmin as M; M.info"
    )
    subprocess.run([sys.executable, "-c", script], cwd=ROOT, env=clean_environment(), check=True)
