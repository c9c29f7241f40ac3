"""The tutorial as a program: its commands, and what it promises that they print."""

from __future__ import annotations

import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tests.kit.paths import ROOT

PAGE = ROOT / "docs" / "tutorial.md"
# A block at the margin; blocks of tabs are indented and left to the reader.
BLOCK = re.compile(r"^```(?P<kind>sh|text)\n(?P<body>.*?)^```$", re.MULTILINE | re.DOTALL)
# Whatever differs each time, with the blanks around it.
GAP = re.compile(" ?… ?")
PATIENCE = 840.0


class Broken(AssertionError):
    """The tutorial does not do what it states."""


@dataclass(frozen=True)
class Block:
    """Commands, and the lines that their output must hold, in this order."""

    commands: str
    promises: tuple[str, ...]


def blocks(markdown: str) -> list[Block]:
    found: list[Block] = []
    for match in BLOCK.finditer(markdown):
        if match["kind"] == "sh":
            found.append(Block(match["body"], ()))
        else:
            found[-1] = Block(found[-1].commands, tuple(match["body"].splitlines()))
    return found


def missing(promises: tuple[str, ...], output: str) -> str:
    """The first promised line that the output lacks after those before it; empty when none is."""
    lines = iter(output.splitlines())
    for promise in promises:
        expected = re.compile(".*".join(re.escape(part) for part in GAP.split(" ".join(promise.split()))))
        if not any(expected.fullmatch(" ".join(line.split())) for line in lines):
            return promise
    return ""


def run(folder: Path, programs: Path) -> None:
    """Run it in an empty folder, with `runspine` and `python` of these programs. Raises Broken."""
    steps = blocks(PAGE.read_text())
    script = ["set -eu"]
    for number, step in enumerate(steps):
        # One shell for all, so that a variable of one block is there in the next.
        script += ["{", step.commands, f"}} >{_out(number)} 2>&1"]
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    environment = {**kept, "PATH": f"{programs}:/usr/bin:/bin", "LC_ALL": "C.UTF-8"}
    shell = ["bash", "-c", "\n".join(script)]
    try:
        code = subprocess.run(shell, cwd=folder, env=environment, timeout=PATIENCE).returncode
    finally:
        subprocess.run([programs / "runspine", "down"], cwd=folder, env=environment, capture_output=True)
    ran = [step for number, step in enumerate(steps) if (folder / _out(number)).exists()]
    for number, step in enumerate(ran):
        output = (folder / _out(number)).read_text()
        if promise := missing(step.promises, output):
            raise Broken(f"does not print {promise!r}:\n{step.commands}\n--- it printed\n{output}")
    if code:
        output = (folder / _out(len(ran) - 1)).read_text()
        raise Broken(f"ends with exit code {code}:\n{ran[-1].commands}\n--- it printed\n{output}")


def _out(number: int) -> str:
    return f"out-{number}"
