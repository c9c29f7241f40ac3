"""What plain output of a trainer states: CleanRL's figures, its run at W&B, its progress."""

from __future__ import annotations

import json
from typing import Any

import pytest

from runspine.services.worker.telemetry.assembly.assembler import BatchAssembler
from runspine.services.worker.telemetry.assembly.prints import CleanrlPrint, read_print
from runspine.wire.v1.facts_pb2 import SYNCED
from runspine.wire.v1.spec_pb2 import RunSpec
from runspine.wire.v1.telemetry_pb2 import STDERR, STDOUT, WORKER, Batch

DOCUMENTED = (
    "global_step=1024, episodic_return=475.0, episodic_length=475, time_elapsed=1.61, "
    "total_timesteps=1024, fps=628.5, wall_time=00:00:01"
)
URL = "https://wandb.ai/me/cartpole/runs/abc123"


def assembled(
    *lines: str | dict[str, Any], source: Any = STDOUT, total: int = 1000
) -> tuple[BatchAssembler, list[Batch]]:
    subject = BatchAssembler("run", 1, RunSpec(total_steps=total))
    for number, line in enumerate(lines):
        text = line if isinstance(line, str) else json.dumps(line)
        subject.take(text.encode(), source, (number + 1) * 1_000_000)
    records = subject.cut(0, everything=True, final=True)
    return subject, [Batch.FromString(record.payload) for record in records]


def series(batches: list[Batch]) -> dict[str, list[tuple[int, float]]]:
    blocks = [block for batch in batches for block in batch.metrics.blocks]
    return {block.name: list(zip(block.steps, block.values, strict=True)) for block in blocks}


@pytest.mark.parametrize(
    ("line", "found"),
    [
        (
            DOCUMENTED,
            CleanrlPrint(1024, 475.0, 475, {"charts/fps": 628.5, "charts/time_elapsed": 1.61}),
        ),
        ("global_step=42, episodic_return=[21.]", CleanrlPrint(42, 21.0, None, {})),
        ("global_step=42, episodic_return=[-1.5e2], episodic_length=[ 30]", CleanrlPrint(42, -150.0, 30, {})),
        ("global_step=7, episodic_return=1.0, SPS=900", CleanrlPrint(7, 1.0, None, {"charts/SPS": 900.0})),
        ("SPS: 1234", CleanrlPrint(None, None, None, {"charts/SPS": 1234.0})),
        ("episodic_return=1.0", None),
        ("SPS: fast", None),
        ("SPS: 1 and more", None),
        (f"global_step={'9' * 30}, episodic_return=1.0", None),
        (f"global_step=1, episodic_return=1.0{' ' * 3000}", None),
    ],
)
def test_cleanrls_prints_keep_every_figure(line: str, found: CleanrlPrint | None) -> None:
    assert read_print(line) == found


def test_a_printed_episode_has_its_length_and_its_rates_are_metrics() -> None:
    subject, batches = assembled(DOCUMENTED, "SPS: 900")
    (episode,) = [e for batch in batches for e in batch.episodes.episodes]
    assert (episode.steps, getattr(episode, "return"), episode.global_step) == (475, 475.0, 1024)
    assert series(batches) == {
        "charts/fps": [(1024, 628.5)], "charts/time_elapsed": [(1024, 1.61)], "charts/SPS": [(1024, 900.0)],
    }  # fmt: skip
    assert subject.counts.metrics == 3
    assert subject.counts.log_lines == 2


def test_an_unknown_length_is_absent_and_not_zero() -> None:
    _, batches = assembled("global_step=42, episodic_return=[21.]")
    (episode,) = [e for batch in batches for e in batch.episodes.episodes]
    assert not episode.HasField("steps")


def test_prints_of_a_trainer_that_writes_the_protocol_are_not_counted_twice() -> None:
    metric = {"type": "metric", "name": "charts/SPS", "value": 900.0, "step": 7}
    _, batches = assembled(metric, "SPS: 901", "global_step=8, episodic_return=1.0, fps=900")
    assert series(batches) == {"charts/SPS": [(7, 900.0)]}


def test_wandbs_output_names_the_run_there() -> None:
    subject, _ = assembled(
        "wandb: Syncing run fiery-sun-12",
        f"wandb: 🚀 View run at {URL}?apiKey=0123",
        "wandb: Synced 5 W&B file(s), 0 media file(s)",
        source=STDERR,
    )
    found = subject.description.tracking
    assert (found.url, found.project, found.name, found.state) == (URL, "cartpole", "fiery-sun-12", SYNCED)


def step(number: int, episode: str = "a", **more: Any) -> dict[str, Any]:
    line = {"type": "step", "episode_id": episode, "step": number, "action": 0, "reward": 1.0}
    return {**line, "terminated": False, "truncated": False, **more}


def test_evaluation_steps_are_recorded_and_are_no_progress() -> None:
    lines = [step(number) for number in range(3)]
    lines += [step(number, "eval-0", global_step=50 + number) for number in range(30)]
    subject, _ = assembled(*lines, total=10)
    assert (subject.counts.steps, subject.progress(0).step) == (33, 3)


def test_a_reported_progress_is_not_moved_by_recorded_frames() -> None:
    lines: list[dict[str, Any]] = [{"type": "progress", "step": 1, "total": 10}]
    lines += [step(number, global_step=number) for number in range(4)]
    lines += [{"type": "progress", "step": 2, "total": 10}, *(step(number) for number in range(4, 8))]
    subject, _ = assembled(*lines)
    progress = subject.progress(0)
    assert (progress.step, progress.total_steps, subject.counts.steps) == (2, 10, 8)
    assert progress.last_step_at == 6_000_000


@pytest.mark.parametrize(("protocol", "worker_lines"), [(1, 0), (2, 1)])
def test_a_newer_protocol_is_reported_on_the_run(protocol: int, worker_lines: int) -> None:
    hello = {"type": "hello", "protocol": protocol, "writer": "runspine 9.0"}
    subject, batches = assembled(hello, hello)
    described = subject.description.described
    assert (described.protocol, described.writer) == (protocol, "runspine 9.0")
    texts = [line.text for batch in batches for line in batch.logs.lines if line.source == WORKER]
    assert len(texts) == worker_lines
    assert bool(described.notice) == (protocol > 1)
    assert subject.counts.malformed == 0


def test_a_malformed_hello_is_malformed() -> None:
    lines: list[dict[str, Any]] = [
        {"type": "hello"},
        {"type": "hello", "protocol": 0},
        {"type": "hello", "protocol": "1"},
    ]
    subject, _ = assembled(*lines)
    assert subject.counts.malformed == 3


def test_config_lines_are_merged_into_one_description() -> None:
    subject, batches = assembled(
        {"type": "config", "algo": "ppo", "args": {"lr": 1.0, "gamma": 0.9}},
        {"type": "config", "args": {"lr": 2.0}},
        {"type": "config", "text": {"hyperparameters": "|a|"}},
        {"type": "config", "large": "x" * (100 << 10)},
    )
    described = subject.description.described
    assert json.loads(described.config_json) == {"algo": "ppo", "args": {"lr": 2.0, "gamma": 0.9}}
    assert "64 KiB" in described.notice
    assert sum(len(batch.envs.configs) for batch in batches) == 4


def test_the_artifacts_line_of_a_launcher_is_understood() -> None:
    subject = BatchAssembler("run", 1, RunSpec())
    files: list[dict[str, Any]] = []
    subject.on_artifact = files.append
    line = {
        "event": "artifacts", "run_id": "x", "wandb_url": URL,
        "video": "/run/videos/a.mp4", "tensorboard": ["runs/a", "runs/b"],
    }  # fmt: skip
    assert subject.take(json.dumps(line).encode(), STDOUT, 0) is None
    assert files == [
        {"kind": "video", "path": "/run/videos/a.mp4"},
        {"kind": "tensorboard", "path": "runs/a"},
        {"kind": "tensorboard", "path": "runs/b"},
    ]
    assert subject.description.tracking.url == URL


@pytest.mark.parametrize(
    "line",
    [
        {"event": "artifacts"},
        {"event": "artifacts", "video": 7},
        {"event": "artifacts", "video": ["a"] * 201},
        {"event": "artifacts", "wandb_url": 7},
        {"event": "other", "video": "a"},
    ],
)
def test_an_artifacts_line_that_names_nothing_is_malformed(line: dict[str, Any]) -> None:
    subject, _ = assembled(line)
    assert subject.counts.malformed == 1
