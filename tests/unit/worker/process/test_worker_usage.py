"""What a trainer uses is sampled at a cost that has a limit."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from runspine.services.worker.process import usage
from runspine.services.worker.process.reaper import descendants
from runspine.services.worker.process.usage import MAX_SHARE, UsageSampler

BUSY = """
import subprocess, sys, time
child = subprocess.Popen([sys.executable, "-c", "while True: pass"])
held = bytearray(64 << 20)
time.sleep(600)
"""


@pytest.fixture
def trainer() -> Iterator[subprocess.Popen[bytes]]:
    started = subprocess.Popen(
        [
            sys.executable,
            "-c",
            f"import os, subprocess, sys\nsubprocess.run([sys.executable, '-c', {BUSY!r}])",
        ]
    )
    try:
        yield started
    finally:
        for pid in descendants(started.pid):
            subprocess.run(["kill", "-9", str(pid)], check=False)
        started.wait(60)


def test_a_trainer_and_its_children_are_sampled(trainer: subprocess.Popen[bytes], tmp_path: Path) -> None:
    sampler = UsageSampler(trainer.pid, None, tmp_path, [])
    deadline = time.monotonic() + 60
    values: dict[str, float] = {}
    while time.monotonic() < deadline:
        values |= sampler.sample()
        if values.get("system/processes") == 2 and values.get("system/cpu_percent", 0) > 0:
            break
        time.sleep(0.05)
    assert values["system/memory_mib"] > 64
    assert values["system/cpu_percent"] > 0
    assert values["system/threads"] >= 2
    assert values["system/disk_used_mib"] >= 0


async def test_a_sample_that_costs_much_is_taken_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[float] = []

    class Costly:
        cost = 0.003

        def sample(self) -> dict[str, float]:
            return {"system/processes": 1.0}

    async def sleep(seconds: float) -> None:
        waited.append(seconds)
        if len(waited) == 4:
            raise InterruptedError

    monkeypatch.setattr(asyncio, "sleep", sleep)
    reported: list[dict[str, float]] = []
    with pytest.raises(InterruptedError):
        await usage.report_usage(Costly, 1.0, reported.append)  # type: ignore[arg-type]
    assert waited == [1.0, Costly.cost / MAX_SHARE - 1.0] * 2
    assert len(reported) == 2
