"""A home and a log of an older commit, read by this one: runs, charts, checkpoints, replay, evaluation."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.kit.paths import ROOT
from tests.kit.releases.older import missing, older_python

# What both must answer alike, with the run's id at the end.
QUESTIONS = (("metrics",), ("episodes",), ("show",), ("checkpoints", "list", "--run"), ("artifacts", "list"))

CHANGING = ("checked_at",)


pytestmark = [
    pytest.mark.long,
    pytest.mark.timeout(600),
    pytest.mark.skipif(bool(missing()), reason=missing()),
]


@dataclass(frozen=True)
class Release:
    """The `runspine` command of one virtualenv, on one home."""

    python: Path
    home: Path

    def __call__(self, *words: str) -> str:
        environment = {
            **{name: os.environ[name] for name in ("HOME", "LANG", "PATH") if name in os.environ},
            "RUNSPINE_HOME": str(self.home),
            "RUNSPINE_PORTS": os.environ.get("RUNSPINE_PORTS", "23000-23999"),
        }
        command = [str(self.python), "-P", "-m", "runspine", *words]
        done = subprocess.run(command, cwd=self.home.parent, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, f"{words}: {done.stdout}{done.stderr}"
        return done.stdout

    def json(self, *words: str) -> Any:
        return json.loads(self(*words, "--json"))


@pytest.fixture(scope="module")
def older(tmp_path_factory: pytest.TempPathFactory) -> Release:
    folder = tmp_path_factory.mktemp("older")
    return Release(older_python(folder), folder / "home")


def _wait_until_verified(release: Release, run_id: str) -> None:
    deadline = time.monotonic() + 60
    while states := {each["integrity"] for each in release.json("artifacts", "list", run_id)["artifacts"]}:
        if states == {"good"}:
            return
        assert time.monotonic() < deadline, f"artifacts are {states}"
        time.sleep(0.5)


@pytest.fixture(scope="module")
def answers(older: Release) -> dict[str, Any]:
    """What the older commit answers about a run that it has trained."""
    older("up", "--detach")
    try:
        run = older.json("submit", str(ROOT / "examples/ppo_cartpole.yaml"), "--set", "total_steps=20_000")
        run_id = run["runs"][0]["run"]["id"]
        older("watch", run_id)
        _wait_until_verified(older, run_id)
        older("events", "export", str(older.home.parent / "log.gz"))
        return {"id": run_id, "ls": older.json("ls")} | {q[0]: older.json(*q, run_id) for q in QUESTIONS}
    finally:
        older("down")


@pytest.fixture(scope="module")
def newer(older: Release, answers: dict[str, Any]) -> Iterator[Release]:
    release = Release(Path(sys.executable), older.home)
    release("up", "--detach")
    yield release
    release("down")


def _differences(old: Any, new: Any, place: str = "") -> Iterator[str]:
    """Where the newer answer is not what the older one was. New keys may come, none may go or change."""
    if isinstance(old, dict) and isinstance(new, dict):
        for key in old.keys() - set(CHANGING):
            if key in new:
                yield from _differences(old[key], new[key], f"{place}.{key}")
            else:
                yield f"{place}.{key} is gone"
    elif isinstance(old, list) and isinstance(new, list) and len(old) == len(new):
        for number, (one, other) in enumerate(zip(old, new, strict=True)):
            yield from _differences(one, other, f"{place}[{number}]")
    elif old != new:
        yield f"{place} was {old!r:.200} and is {new!r:.200}"


def test_runs_charts_episodes_and_checkpoints_are_the_same(newer: Release, answers: dict[str, Any]) -> None:
    assert list(_differences(answers["ls"], newer.json("ls"))) == []
    for question in QUESTIONS:
        found = newer.json(*question, answers["id"])
        assert list(_differences(answers[question[0]], found)) == [], question


def test_the_log_and_its_export_are_whole(newer: Release, answers: dict[str, Any]) -> None:
    newer("events", "verify")
    newer("events", "verify", "--file", str(newer.home.parent / "log.gz"))


def test_an_episode_is_replayed_and_a_checkpoint_evaluated(newer: Release, answers: dict[str, Any]) -> None:
    assert "exact" in newer("replay", answers["id"], "best")
    newer("eval", f"{answers['id']}:best", "--episodes", "3")
