"""Measures Ray Jobs: a fresh head on this machine, and jobs that do nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from runspine.bench.kit.ports import free_port

START_SECONDS = 120.0
JOBS_SECONDS = 600.0
# Outside the range that stacks choose their ports from.
WORKER_PORTS = ("--min-worker-port=23000", "--max-worker-port=25999")
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
NOT_CONFIGURED = "no Python with ray[default] is named (--peers or RUNSPINE_BENCH_PEERS)"


class Jobs(NamedTuple):
    """Seconds until each job was seen running and done; and until a burst was admitted and done."""

    running: list[float]
    done: list[float]
    admitted: float
    together: float
    burst: int


def measure(python: str, jobs: int, burst: int) -> Jobs | str:
    """Measure jobs; or the reason why that is not possible."""
    if not python:
        return NOT_CONFIGURED
    # Ray creates sockets in its folder, and their paths must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        try:
            with _head(python, Path(scratch)) as address:
                return Jobs(**_run_client(python, address, jobs, burst))
        except (OSError, TimeoutError, subprocess.SubprocessError, ValueError) as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def _head(python: str, folder: Path) -> Iterator[str]:
    page = free_port()
    command = [
        str(Path(python).with_name("ray")), "start", "--head", "--block", f"--port={free_port()}",
        "--node-ip-address=127.0.0.1", f"--num-cpus={max(2, os.cpu_count() or 2)}",
        "--dashboard-host=127.0.0.1", f"--dashboard-port={page}", "--include-dashboard=true",
        # That server is unused but cannot be left out. It listens on the address of the node.
        f"--ray-client-server-port={free_port()}",
        f"--temp-dir={folder}", "--disable-usage-stats", *WORKER_PORTS,
    ]  # fmt: skip
    with (folder / "output").open("w+") as output:
        process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=output, stderr=output)
        try:
            _wait_until_ready(process, f"http://127.0.0.1:{page}/api/version", folder / "output")
            yield f"http://127.0.0.1:{page}"
        finally:
            # With --block it ends all processes that it has started.
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _wait_until_ready(process: subprocess.Popen[bytes], url: str, output: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise OSError(
                f"ray did not start: {(output.read_text().strip().splitlines() or ['no output'])[-1]}"
            )
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise TimeoutError(f"Ray's dashboard did not answer within {START_SECONDS:.0f} s")


def _run_client(python: str, address: str, jobs: int, burst: int) -> dict[str, Any]:
    client = Path(__file__).with_name("ray_client.py")
    done = subprocess.run(
        [python, "-P", str(client), address, str(jobs), str(burst)],
        env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=JOBS_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["it ended without output"])[-1])
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result
