"""A `runspine` command as a process."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryFile

from tests.kit.forks.module_process import start_module
from tests.kit.paths import ROOT


def run_command(
    *words: str, environment: Mapping[str, str], directory: Path = ROOT, timeout: float = 280.0
) -> subprocess.CompletedProcess[str]:
    """Its exit code and what it has printed. Raises TimeoutExpired."""
    with TemporaryFile() as output, TemporaryFile() as errors:
        process = start_module(
            "runspine", environment, *words, stdout=output, stderr=errors, directory=directory
        )
        try:
            code = process.wait(timeout)
        except BaseException:
            process.kill()
            process.wait()
            raise
        texts = []
        for file in (output, errors):
            file.seek(0)
            texts.append(file.read().decode())
    return subprocess.CompletedProcess(["runspine", *words], code, *texts)
