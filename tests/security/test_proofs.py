"""Proofs: made from a running stack, checked without one, refused when anything is changed."""

from __future__ import annotations

import base64
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from runspine.ids import new_ulid
from tests.kit.background_stack import Shell, stack
from tests.kit.environment import clean_environment
from tests.kit.waiting import until


@pytest.fixture
def shell(tmp_path: Path) -> Iterator[Shell]:
    with stack(tmp_path / "home", "--workers", "1", "--slots", "1", RUNSPINE_ANCHOR_SECONDS="0.5") as shell:
        yield shell


def _check(proof: Path, *options: str) -> tuple[int, dict[str, Any]]:
    """Without a stack, and without the home of one."""
    command = [sys.executable, "-m", "runspine", "events", "check-proof", str(proof), "--json", *options]
    environment = clean_environment(RUNSPINE_HOME=str(proof.parent / "none"))
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)
    return done.returncode, json.loads(done.stdout) if done.stdout else {"error": done.stderr}


@pytest.mark.long
def test_the_end_of_a_run_is_proved_without_a_stack_and_nothing_else_is(shell: Shell, tmp_path: Path) -> None:
    [run] = shell.submit("print('trained')")
    proof = tmp_path / "proof.json"
    shell.until(run, "completed", seconds=120)
    until(lambda: _is_proved(shell, run, proof), 120)
    root = shell.json("signers", "root")["root"]
    verdict = shell.json("events", "verify")
    assert verdict["whole"]
    assert verdict["witnesses"]["RUNS"][0]["signed"]
    shell("down")

    code, found = _check(proof, "--root", root)
    assert (code, found["valid"], found["subject"], found["signed_by"]) == (
        0,
        True,
        f"runs.{run}",
        "orchestrator",
    )
    assert "run_completed" in json.dumps(found["commit"])
    assert len(proof.read_bytes()) < 8000

    code, found = _check(proof, "--root", "11" * 32)
    assert (code, found["valid"]) == (1, False)
    assert "unknown key" in found["problem"]
    code, found = _check(proof)
    assert code != 0
    assert "--root: no root key is known" in found["error"]
    for field, changed in _changes(json.loads(proof.read_text())):
        forged = tmp_path / f"forged-{field}.json"
        forged.write_text(json.dumps(changed))
        code, found = _check(forged, "--root", root)
        assert (code, found["valid"]) == (1, False), field


def _is_proved(shell: Shell, run: str, proof: Path) -> bool:
    """Whether a witness covers the run's end by now."""
    command = [sys.executable, "-m", "runspine", "events", "prove", run, "-o", str(proof)]
    done = subprocess.run(command, env=shell.environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0 or "is not witnessed yet" in done.stderr, done.stderr
    return done.returncode == 0


def _changes(proof: dict[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """The proof with one thing changed at a time."""
    commit = bytearray(base64.b64decode(proof["commit"]))
    commit[-70] ^= 1
    yield "commit", {**proof, "commit": base64.b64encode(commit).decode()}
    yield "subject", {**proof, "subject": f"runs.{new_ulid()}"}
    yield "position", {**proof, "position": str(int(proof["position"]) - 1)}
    yield "path", {**proof, "path": proof["path"][:-1]}
    yield "time", {**proof, "head": {**proof["head"], "at": str(int(proof["head"]["at"]) - 1)}}
    yield "keys", {**proof, "keys": []}
    yield "format", {**proof, "format": "runspine-proof-0"}
