"""A stack with its web page, and what people do with both."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import urlopen

import pytest

from runspine.bench.kit.browser import missing
from runspine.wire.v1.facts_pb2 import Progress
from runspine.wire.v1.run_pb2 import Phase, Run
from runspine.wire.v1.spec_pb2 import RunSpec
from tests.kit.paths import ROOT
from tests.kit.stack import Shell
from tests.kit.waiting import until

# For every test with a browser.
IN_CHROMIUM = [
    pytest.mark.skipif(bool(missing()), reason=missing() or "there is a browser"),
    pytest.mark.slow,
    pytest.mark.timeout(300),
    # Selenium's own.
    pytest.mark.filterwarnings("ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
]
LOOKER = "a-token-that-may-only-look"
# Metrics at a pace that a person can follow.
SLOW = """
import json, sys, time
for step in range(int(sys.argv[1])):
    record = {"type": "metric", "value": step % 50, "step": step * 10}
    print(json.dumps({**record, "name": "charts/episodic_return"}))
    print(json.dumps({**record, "name": sys.argv[2]}), flush=True)
    time.sleep(0.1)
"""

# A file when it is asked for, and an end when it is asked for.
WRITES_A_FILE = """
import json, pathlib, sys, time
def wait(path):
    while not pathlib.Path(path).exists(): time.sleep(0.05)
wait(sys.argv[1])
pathlib.Path("weights.bin").write_bytes(b"weights")
print(json.dumps({"type": "artifact", "kind": "model", "path": "weights.bin"}), flush=True)
wait(sys.argv[2])
"""


class PageRig:
    def __init__(self, home: Path) -> None:
        home.mkdir(mode=0o700, parents=True)
        looker = {"name": "looker", "sha256": hashlib.sha256(LOOKER.encode()).hexdigest(), "scope": "read"}
        (home / "tokens.json").write_text(json.dumps([looker]))
        self.home = home
        self.shell = Shell(home)

    def up(self) -> None:
        self.shell("up", "--detach", "--slots", "3")
        until(lambda: self.shell.json("web")["url"], 120)
        until(lambda: self.stack["parts"]["dashboard"]["state"] == "ready", 180)

    @property
    def stack(self) -> Any:
        return json.loads((self.home / "stack.json").read_text())

    @property
    def address(self) -> str:
        return f"http://{self.stack['addresses']['dashboard']}"

    @property
    def token(self) -> str:
        return urlsplit(self.shell.json("web")["url"]).fragment

    def submit(self, **fields: Any) -> str:
        with self.shell.client() as client:
            return client.submit(RunSpec(**fields)).run.id

    def script(self, seconds: float, name: str = "", metric: str = "m", **fields: Any) -> str:
        command = ["python3", "-c", SLOW, str(int(seconds * 10)), metric]
        return self.submit(runner="script", name=name, command=command, **fields)

    def run(self, run_id: str) -> Run:
        with self.shell.client() as client:
            return client.get(run_id).run

    def cancel(self, *runs: str) -> None:
        with self.shell.client() as client:
            for run_id in runs:
                client.cancel(run_id)

    def until_phase(self, run_id: str, phase: str, seconds: float = 180) -> None:
        until(lambda: Phase.Name(self.run(run_id).phase).lower() == phase, seconds)

    def progress(self, run_id: str) -> Progress:
        with self.shell.client() as client:
            return client.get(run_id).progress

    def calls(self, part: str, method: str) -> int:
        """How often a gRPC method of a service was called, by its Prometheus metrics."""
        with urlopen(f"http://{self.stack['metrics'][part]}/metrics", timeout=30) as answer:
            text = answer.read().decode()
        found = re.search(rf'^runspine_call_seconds_count{{method="{method}"}} (\S+)$', text, re.MULTILINE)
        return int(float(found[1])) if found else 0

    def settled(self, part: str, method: str, seconds: float) -> int:
        """The same, when it was not called for so long; else 0."""
        before, deadline = self.calls(part, method), time.monotonic() + seconds
        while time.monotonic() < deadline:
            if self.calls(part, method) != before:
                return 0
            time.sleep(0.1)
        return before

    @contextmanager
    def viewers(self, path: str) -> Iterator[Callable[[], dict[str, int]]]:
        """Ten open pages that draw nothing; the function it gives counts their messages and requests."""
        command = [
            sys.executable, "-m", "runspine.bench.pages.viewers", "--address", self.address,
            "--path", path,
        ]  # fmt: skip
        emitted = self.home / "viewers.jsonl"
        with emitted.open("w") as file:
            process = subprocess.Popen(
                command, cwd=ROOT, stdout=file, env={**os.environ, "RUNSPINE_TOKEN": self.token}
            )

        def received() -> dict[str, int]:
            assert process.poll() is None, "the pages were closed"
            lines = emitted.read_text().splitlines()
            return json.loads(lines[-1]) if lines else dict.fromkeys(("received", "requests", "bytes"), 0)

        try:
            yield received
        finally:
            process.terminate()
            process.wait()

    def signal(self, part: str, number: signal.Signals) -> int:
        pid: int = self.stack["pids"][part]
        os.kill(pid, number)
        return pid

    def until_replaced(self, part: str, pid: int, seconds: float = 180) -> None:
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            now = self.stack["parts"][part]
            if now["pid"] not in (0, pid) and now["state"] == "ready":
                return
            time.sleep(0.1)
        raise AssertionError(f"{part} did not come back")
