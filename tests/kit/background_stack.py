"""A stack in the background for the tests of one file, and a hand on its processes."""

from __future__ import annotations

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.kit.environment import clean_environment
from tests.kit.forks.command import run_command

UNREACHABLE, NOT_FOUND = 3, 4


class Away(AssertionError):
    """Nothing answers."""


class NotThere(AssertionError):
    """There is no such thing, or not yet."""


class Shell:
    """`runspine` commands against the stack of one home."""

    def __init__(self, home: Path) -> None:
        self.environment = clean_environment(RUNSPINE_HOME=str(home))

    def __call__(self, *words: str, code: int = 0) -> str:
        done = run_command(*words, environment=self.environment, timeout=120)
        if done.returncode == UNREACHABLE != code:
            raise Away(done.stderr)
        if done.returncode == NOT_FOUND != code:
            raise NotThere(done.stderr)
        assert done.returncode == code, f"{words}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        dashes = words.index("--") if "--" in words else len(words)
        return json.loads(self(*words[:dashes], "--json", *words[dashes:]))

    def submit(self, script: str, *options: str) -> list[str]:
        """The ids of the runs that were made."""
        received = self.json("submit", *options, "--", sys.executable, "-c", script)
        return [one["run"]["id"] for one in received["runs"]]

    def quarantined(self) -> list[dict[str, Any]]:
        """The subjects that are quarantined."""
        done = run_command("events", "quarantined", "--json", environment=self.environment)
        found: list[dict[str, Any]] = json.loads(done.stdout)["quarantines"]
        assert done.returncode == bool(found), done.stderr
        return found

    def ready(self) -> None:
        """Wait until every part answers again."""
        deadline = time.monotonic() + 60
        while not self._healthy():
            assert time.monotonic() < deadline

    def _healthy(self) -> bool:
        try:
            return bool(self.json("status")["healthy"])
        except AssertionError:
            return False

    def run(self, run_id: str) -> dict[str, Any]:
        """The run as the control plane reports it; while that is away it is waited for."""
        deadline = time.monotonic() + 60
        while True:
            try:
                received: dict[str, Any] = self.json("show", run_id)["run"]
                return received
            except Away:
                assert time.monotonic() < deadline

    def until(self, run_id: str, *phases: str, seconds: float = 60.0) -> dict[str, Any]:
        """The run as soon as it is in one of these phases."""
        deadline = time.monotonic() + seconds
        while (run := self.run(run_id))["phase"] not in phases:
            assert time.monotonic() < deadline, f"{run_id} is {run['phase']} after {seconds} s"
            time.sleep(0.1)
        return run

    def pid(self, part: str) -> int:
        [found] = [one for one in self.json("status")["parts"] if one["name"] == part]
        return int(found["pid"])

    def kill(self, *parts: str) -> None:
        """Kill parts of the stack at once; its supervisor starts them again."""
        for pid in [self.pid(part) for part in parts]:
            os.kill(pid, signal.SIGKILL)


@contextmanager
def stack(home: Path, *options: str, **environment: str) -> Iterator[Shell]:
    shell = Shell(home)
    shell.environment |= environment
    shell("up", "--detach", *options)
    try:
        yield shell
    finally:
        shell("down")
