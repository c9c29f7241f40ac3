"""Ray Jobs beside us: a head of its own on this machine, and jobs that do nothing."""

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

from bench.seed_log import free_port

START_SECONDS = 120.0
JOBS_SECONDS = 600.0
# Away from the ports that stacks choose theirs from.
WORKER_PORTS = ("--min-worker-port=23000", "--max-worker-port=25999")
QUIET = {"RAY_USAGE_STATS_ENABLED": "0", "RAY_DISABLE_IMPORT_WARNING": "1"}
NOBODY = "no Python with ray[default] is named (--peers or RUNSPINE_BENCH_PEERS)"


class Jobs(NamedTuple):
    """Seconds: each until it was seen to run and until it was done; a burst admitted and done."""

    running: list[float]
    done: list[float]
    admitted: float
    together: float
    burst: int


def measure(python: str, jobs: int, burst: int) -> Jobs | str:
    """Or why it could not be measured."""
    if not python:
        return NOBODY
    # Ray puts sockets into its folder, and their names must be short.
    with tempfile.TemporaryDirectory(prefix="ray-", dir="/tmp", ignore_cleanup_errors=True) as scratch:
        try:
            with _head(python, Path(scratch)) as address:
                return Jobs(**_told(python, address, jobs, burst))
        except (OSError, TimeoutError, subprocess.SubprocessError, ValueError) as error:
            return f"{type(error).__name__}: {error}".splitlines()[0]


@contextmanager
def _head(python: str, folder: Path) -> Iterator[str]:
    page = free_port()
    command = [
        str(Path(python).with_name("ray")), "start", "--head", "--block", f"--port={free_port()}",
        "--node-ip-address=127.0.0.1", f"--num-cpus={max(2, os.cpu_count() or 2)}",
        "--dashboard-host=127.0.0.1", f"--dashboard-port={page}", "--include-dashboard=true",
        # Nobody calls that server, but it cannot be left out. It listens on the address of the node.
        f"--ray-client-server-port={free_port()}",
        f"--temp-dir={folder}", "--disable-usage-stats", *WORKER_PORTS,
    ]  # fmt: skip
    with (folder / "said").open("w+") as said:
        process = subprocess.Popen(command, env={**os.environ, **QUIET}, stdout=said, stderr=said)
        try:
            _until_it_answers(process, f"http://127.0.0.1:{page}/api/version", folder / "said")
            yield f"http://127.0.0.1:{page}"
        finally:
            # Whoever blocks ends all that it has started.
            process.send_signal(signal.SIGTERM)
            process.wait(60)


def _until_it_answers(process: subprocess.Popen[bytes], url: str, said: Path) -> None:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise OSError(f"ray did not start: {(said.read_text().strip().splitlines() or ['no word'])[-1]}")
        try:
            with urllib.request.urlopen(url, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise TimeoutError(f"Ray's dashboard did not answer within {START_SECONDS:.0f} s")


def _told(python: str, address: str, jobs: int, burst: int) -> dict[str, Any]:
    client = Path(__file__).with_name("ray_client.py")
    done = subprocess.run(
        [python, "-P", str(client), address, str(jobs), str(burst)],
        env={**os.environ, **QUIET}, capture_output=True, text=True, timeout=JOBS_SECONDS, check=False,
    )  # fmt: skip
    if done.returncode:
        raise ValueError((done.stderr.strip().splitlines() or ["it ended without a word"])[-1])
    told: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return told
