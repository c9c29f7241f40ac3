"""The report shows what was measured, when, compared with what, and which target is missed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runspine.bench.kit.figures import Report, spread
from runspine.bench.peers.event_file import masked_crc, write_events
from runspine.bench.report import kills
from runspine.bench.report.comparisons import compared
from runspine.bench.report.gather import gathered
from runspine.bench.report.page import write
from runspine.bench.report.parts import PARTS
from runspine.bench.report.targets import TARGETS, answers


def part(name: str, report: Report, **more: Any) -> dict[str, Any]:
    emitted = report.as_json()
    return {
        "part": name, "size": "full", "at": 1_794_800_000.0, "seconds": 12.0, "others": 0.01, "load": 1.9,
        "machine": {"cores": "2", "CPU": "a fast one", "memory": "24 GiB"}, "versions": {"wandb": "0.1"},
        "figures": emitted["figures"], "curves": emitted["curves"], **more,
    }  # fmt: skip


def put(folder: Path, emitted: dict[str, Any]) -> None:
    (folder / "parts").mkdir(exist_ok=True)
    (folder / "parts" / f"{emitted['part']}.json").write_text(json.dumps(emitted))


def telemetry() -> Report:
    report = Report("Telemetry")
    rates = {
        "runspine, the whole step": [200_000.0, 220_000.0],
        "runspine, one scalar": [100_000.0, 90_000.0],
    }
    for who, found in rates.items():
        report.add(who, unit="steps/s", group="kept", who=who, key="durable", **spread(found))
    report.add("the reward alone, wandb", 5_000.0, "steps/s", group="kept", who="wandb")
    report.add(
        "the reward alone, Aim", float("nan"), "", group="kept", who="Aim", context="not measured: no Python"
    )
    return report


def test_each_target_is_met_or_its_gap_and_reason_are_written_and_the_worst_figure_counts() -> None:
    report = telemetry()
    report.add("PPO", 0.97, "", key="capture")
    found = {each.target.key: each for each in answers(report.figures)}
    assert set(found) == {target.key for target in TARGETS}
    assert found["durable"].met is False
    assert found["durable"].figure is not None
    assert found["durable"].figure.value == 95_000
    assert "5,000 steps/s (5.0%) short: " in found["durable"].gap
    assert found["capture"].gap.startswith("0.01 (1.0%) short: a step costs more")
    assert found["chart"].met is None
    assert "--size full" in found["chart"].gap


def test_every_target_that_can_be_missed_has_a_reason_ready() -> None:
    assert [target.key for target in TARGETS if target.why == "not known yet"] == []


def test_peers_are_listed_best_first_with_their_ratio_and_a_missing_one_with_its_reason(
    tmp_path: Path,
) -> None:
    (found,) = compared(telemetry().figures)
    order = ["runspine, the whole step", "runspine, one scalar", "wandb"]
    assert [figure.who for figure in found.figures] == order
    assert found.ratio(found.figures[-1]) == pytest.approx(5 / 95)
    put(tmp_path, part("telemetry", telemetry()))
    write(tmp_path, gathered(tmp_path))
    text = (tmp_path / "report.md").read_text()
    assert "| **runspine, one scalar** | 95,000 | 90,000 – 100,000 | 1 |" in text
    assert "| wandb | 5,000 |  | 0.0526 |" in text
    assert "| Aim | – | | not measured: no Python |" in text
    assert "![Steps kept each second](kept.png)" in text
    assert (tmp_path / "kept.png").stat().st_size > 5_000
    assert (tmp_path / "kept.svg").is_file()


def test_parts_of_different_times_are_gathered_and_one_that_failed_does_not_hide_the_others(
    tmp_path: Path,
) -> None:
    growth = Report("Long logs")
    growth.curve("facts", "from the snapshot").extend([(1_000, 0.9), (1_000_000, 2.4)])
    growth.add("start on 1,000,000 facts, by snapshot", 2.4, "s", key="restart")
    put(tmp_path, part("facts", growth, at=1_794_900_000.0))
    put(tmp_path, part("telemetry", telemetry()))
    put(tmp_path, {"part": "query", "size": "full", "at": 1.0, "seconds": 3.0, "trouble": "no disk left"})
    taken = gathered(tmp_path)
    assert list(taken) == [name for name in PARTS if name in ("facts", "telemetry", "query")]
    write(tmp_path, taken)
    text = (tmp_path / "report.md").read_text()
    assert "| Long logs | full | 2026-11-17 07:20 | 12 s | 1% | 1.9 |" in text
    assert "| Telemetry | full | 2026-11-16 03:33 |" in text
    assert "Not measured: no disk left" in text
    assert "| Live frames | | not measured |" in text
    assert "![How each cost grows](growth.png)" in text
    received = json.loads((tmp_path / "report.json").read_text())
    assert {each["target"]: each["met"] for each in received["targets"]}[
        "orchestrator restart with 1,000,000 facts"
    ] is True
    assert [each["part"] for each in received["parts"]] == list(taken)


def test_what_chaos_counted_is_a_target_like_the_others(tmp_path: Path) -> None:
    assert "has not been run here" in kills.row(tmp_path)
    emitted = {"seed": 7, "seconds": 1800.0, "faults": 90, "runs": 400, "attempts": 600, "lost_runs": 0}
    (tmp_path / "verdict-7.json").write_text(json.dumps({**emitted, "examples": []}))
    assert "| **0** | ✓ met | `make chaos SECONDS=1800 SEED=7` on " in kills.row(tmp_path)
    (tmp_path / "verdict-7.json").write_text(json.dumps({**emitted, "lost_runs": 2, "examples": ["run x"]}))
    assert "| **2** | ✗ **not met** | " in kills.row(tmp_path)


def test_an_event_file_made_by_columns_is_one_that_tensorboard_reads(tmp_path: Path) -> None:
    from tensorboard.backend.event_processing.event_file_loader import EventFileLoader

    # The check value of CRC-32C, mixed as TFRecord wants it.
    crc = 0xE3069283
    mixed = ((crc >> 15 | crc << 17) + 0xA282EAD8) & 0xFFFFFFFF
    assert masked_crc(np.frombuffer(b"123456789", np.uint8)[None])[0] == mixed
    file = write_events(tmp_path, "loss", lambda first, count: np.arange(first, first + count) / 2, 300)
    events = list(EventFileLoader(str(file)).Load())
    assert [event.step for event in events[1:]] == list(range(300))
    values = [event.summary.value[0].tensor.float_val[0] for event in events[1:]]
    assert values == [number / 2 for number in range(300)]
