"""A mind, from a trainer's word to the command line, on a real stack; and the table of runners."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from runspine.embedded import running_stack
from tests.kit.forks.command import run_command

TRAINER = """
import json, runspine
run = runspine.init()
print("hello")
for step in (10, 20, 30):
    beliefs = [f"state({step})", 'spoken("\\u2603 \\x1b[2J")']
    run.log_mind(goals=["learn"], beliefs=beliefs, intentions=["live > try"], confidence=step / 40, step=step)
run.finish()
"""


def command(home: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "RUNSPINE_HOME": str(home), "COLUMNS": "200"}
    return run_command(*words, environment=environment)


@pytest.mark.long
async def test_a_mind_is_shown_where_one_was_recorded_and_nowhere_else(tmp_path: Path) -> None:
    home = tmp_path / "home"
    async with running_stack(home, slots=1):
        received = command(home, "submit", "--name", "bdi", "--watch", "--", sys.executable, "-c", TRAINER)
        assert received.returncode == 0, received.stderr
        plain = command(
            home, "submit", "--name", "plain", "--watch", "--", sys.executable, "-c", "print('hello')"
        )
        assert plain.returncode == 0, plain.stderr

        newest = command(home, "mind", "bdi").stdout
        assert "The mind at step 30" in newest
        assert "75%" in newest
        assert "live > try" in newest
        assert "state(30)" in newest
        assert "\x1b[2J" not in newest
        assert "state(20)" in command(home, "mind", "bdi", "--at", "25").stdout
        looks = [
            json.loads(line) for line in command(home, "mind", "bdi", "--all", "--json").stdout.splitlines()
        ]
        assert [look["step"] for look in looks] == [10, 20, 30]
        assert looks[0]["beliefs"][1] == 'spoken("☃ \x1b[2J")'
        early = command(home, "mind", "bdi", "--at", "5")
        assert (early.returncode, early.stdout) == (1, "")
        assert "has reported its mind by then" in early.stderr

        assert command(home, "mind", "plain").returncode == 1
        assert command(home, "logs", "bdi").stdout == command(home, "logs", "plain").stdout == "hello\n"

        listed = command(home, "runners").stdout.splitlines()
        assert listed[0].split()[:4] == ["RUNNER", "READY", "TRAIN", "EVALUATE"]
        [row] = [line for line in listed if line.startswith("spade_bdi ") and "Discrete" in line]
        assert "xmpp (embedded, or your own)" in row
        shown = command(home, "runners", "spade_bdi").stdout
        assert "exploration_fraction" in shown
        assert "  runner: spade_bdi\n" in shown
        assert json.loads(command(home, "runners", "--json", "script").stdout)["takes_command"] is True
