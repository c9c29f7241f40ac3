"""Batches as a worker would send them, every sink, and how to read what it wrote."""

from __future__ import annotations

import atexit
import csv
import functools
import hashlib
import math
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from runspine.domain.evaluation_series import EVALUATION_SERIES
from runspine.sinks.clips import Clip
from runspine.sinks.port import EPISODES, METRICS, STEPS, VIDEOS, ExportedRun, Mark, Sink
from runspine.wire.v1 import telemetry_pb2 as wire
from tests.kit.samples.wandb_files import read_wandb

SUBJECT = ExportedRun(
    run_id="01M7HEZFPP3BC8V4E08FWK23KX",
    name="CartPole-v1__ppo__1__1794808725",
    env="CartPole-v1",
    algo="ppo",
    seed=1,
    spec_parameters={"gamma": 0.99, "note": "a | b\nc"},
    submitted_at=1_794_808_725_000_000,
)
START = 1_794_808_740_000_000
Item = tuple[Any, ...]
EVALUATION_FOLDER = "tensorboard_eval"


@dataclass(frozen=True)
class Fed:
    """A batch, its kind, and what of it must be found in an output."""

    kind: str
    batch: Any


def metric_batches(count: int, attempt: int = 1, first: int = 0) -> list[Fed]:
    """Each with points of two series at a few steps."""
    made = []
    for n in range(first, first + count):
        steps = [10 * n + k for k in range(3)]
        at = [START + 1_000_000 * step + 123 for step in steps]
        blocks = [
            wire.MetricBlock(name="losses/größe", values=[0.1 * s for s in steps], steps=steps, at=at),
            wire.MetricBlock(name="charts/SPS", values=[1000.0 + s for s in steps], steps=steps, at=at),
            wire.MetricBlock(name="eval/mean", values=[0.5 + s for s in steps], steps=steps, at=at),
        ]
        batch = wire.StreamMetricsResponse(position=2 * n + 1, attempt=attempt, blocks=blocks)
        made.append(Fed(METRICS, batch))
    return made


def episode_batches(count: int, attempt: int = 1, first: int = 0) -> list[Fed]:
    return [
        Fed(
            EPISODES,
            wire.StreamEpisodesResponse(
                position=2 * n + 2,
                attempt=attempt,
                episodes=[
                    wire.Episode(
                        episode_id=f"0-{n}",
                        steps=4,
                        **{"return": 4.0 + n / 3},  # type: ignore[arg-type]
                        ended_at=START + 1_000_000 * (10 * n + 5),
                        global_step=10 * n + 5,
                        flags=1,
                    )
                ],
            ),
        )
        for n in range(first, first + count)
    ]


def step_batches(count: int, attempt: int = 1, first: int = 0, observed: bool = True) -> list[Fed]:
    """Each an episode of four steps, in two blocks."""
    made = []
    for n in range(first, first + count):
        blocks = [_block(n, 0, 2, b"\0\0", observed), _block(n, 2, 2, b"\0\1", observed)]
        batch = wire.StreamStepsResponse(position=2 * n + 2, attempt=attempt, blocks=blocks)
        made.append(Fed(STEPS, batch))
    return made


def video_batches(count: int, attempt: int = 1, first: int = 0) -> list[Fed]:
    return [
        Fed(
            VIDEOS,
            Clip(
                position=2 * n + 2,
                attempt=attempt,
                path=_clip_file(n),
                name=f"videos/rl-video-episode-{n}.mp4",
                step=10 * n + 6,
                at=START + 1_000_000 * (10 * n + 6),
                meta={"episode_id": f"0-{n}", "return": 4.0},
            ),
        )
        for n in range(first, first + count)
    ]


@functools.cache
def _clip_file(n: int) -> Path:
    """A file that a sink can copy; none of them looks into it."""
    path = Path(tempfile.mkdtemp(prefix="runspine-test-clip-")) / "clip.mp4"
    atexit.register(shutil.rmtree, path.parent, ignore_errors=True)
    path.write_bytes(b"picture" * (n + 1))
    return path


def _block(n: int, first: int, count: int, flags: bytes, observed: bool) -> wire.StepBlock:
    rows = np.array([[n, first + k + 1, 0.5, -1.0] for k in range(count)], "<f4")
    actions = np.array([(n + first + k) % 2 for k in range(count)], "<i8")
    return wire.StepBlock(
        episode_id=f"0-{n}",
        first_step=first,
        count=count,
        action=wire.Array(dtype="<i8", data=actions.tobytes()),
        reward=wire.Array(dtype="<f8", data=np.full(count, 1.0 + n / 7).tobytes()),
        flags=flags,
        observation=wire.Array(dtype="<f4", shape=[4], data=rows.tobytes()) if observed else None,
        observation_hash=b"" if observed else bytes(8 * count),
        first_at=START,
        last_at=START + count - 1,
        global_step=4 * n + first,
    )


def resets(position: int) -> Iterator[tuple[int, int, wire.Reset]]:
    for n in range(100):
        for attempt in (1, 2):
            place = 1000 * attempt + n
            if place > position:
                first = np.array([n, 0, 0.5, -1.0], "<f4")
                array = wire.Array(dtype="<f4", shape=[4], data=first.tobytes())
                yield place, attempt, wire.Reset(episode_id=f"0-{n}", observation=array, seed_json=str(n))


def env_of(episode_id: str, attempt: int) -> wire.EnvMade:
    return wire.EnvMade(env_id="CartPole-v1", kwargs_json="{}")


def batches(kinds: tuple[str, ...], count: int, attempt: int = 1, first: int = 0) -> list[Fed]:
    """Of every kind a sink takes, by turns."""
    make = {
        METRICS: metric_batches,
        EPISODES: episode_batches,
        STEPS: step_batches,
        VIDEOS: video_batches,
    }
    found = [make[kind](count, attempt, first) for kind in kinds]
    return [batch for together in zip(*found, strict=True) for batch in together]


def feed(sink: Sink, fed: list[Fed], mark: Mark) -> Mark:
    for one in fed:
        sink.feed(one.kind, one.batch)
        mark = mark.moved(one.kind, one.batch.position, one.batch.attempt)
    return mark


def rest(fed: list[Fed], mark: Mark) -> list[Fed]:
    return [one for one in fed if one.batch.position > mark.after(one.kind)]


def points(fed: list[Fed]) -> list[Item]:
    """Name, step and value of every point that a sink of scalars must hold."""
    found: list[Item] = []
    for one in fed:
        if one.kind == METRICS:
            for block in one.batch.blocks:
                found += [(block.name, s, v) for s, v in zip(block.steps, block.values, strict=True)]
        elif one.kind == EPISODES:
            for episode in one.batch.episodes:
                found.append(("episode/return", episode.global_step, getattr(episode, "return")))
                found.append(("episode/length", episode.global_step, float(episode.steps)))
        elif one.kind == VIDEOS:
            digest = hashlib.sha256(one.batch.path.read_bytes()).hexdigest()
            found.append(("media/videos/episode", one.batch.step, digest))
    return sorted(found)


def episodes(fed: list[Fed]) -> list[Item]:
    """Observations, actions, rewards and ends of every episode that a dataset must hold."""
    found: list[Item] = []
    for one in fed:
        if one.kind == STEPS:
            number = int(one.batch.blocks[0].episode_id.partition("-")[2])
            first = next(r for _, _, r in resets(0) if r.episode_id == f"0-{number}")
            rows = [np.frombuffer(first.observation.data, "<f4").tolist()]
            actions: list[int] = []
            rewards: list[float] = []
            for block in one.batch.blocks:
                rows += np.frombuffer(block.observation.data, "<f4").reshape(-1, 4).tolist()
                actions += np.frombuffer(block.action.data, "<i8").tolist()
                rewards += np.frombuffer(block.reward.data, "<f8").tolist()
            found.append((rows, actions, rewards, [False] * 3 + [True], [False] * 4))
    return sorted(found)


def read_tensorboard(out: Path) -> list[Item]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(out / SUBJECT.folder), size_guidance={"scalars": 0})
    accumulator.Reload()
    return sorted(
        (tag, event.step, event.value)
        for tag in accumulator.Tags()["scalars"]
        for event in accumulator.Scalars(tag)
    )


def read_tensorboard_of_evaluation(out: Path) -> list[Item]:
    """Of both folders, each of which must hold its own series only."""
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    found: list[Item] = []
    run = out / SUBJECT.folder
    for folder, of_batches in ((run, False), (run / EVALUATION_FOLDER, True)):
        [file] = folder.glob("events.out.tfevents.*")
        accumulator = EventAccumulator(str(file), size_guidance={"scalars": 0})
        accumulator.Reload()
        for tag in accumulator.Tags()["scalars"]:
            assert (tag in EVALUATION_SERIES) == of_batches, (tag, folder)
            found += [(tag, event.step, event.value) for event in accumulator.Scalars(tag)]
    return sorted(found)


def read_csv(out: Path) -> list[Item]:
    folder = out / SUBJECT.folder
    with (folder / "metrics.csv").open(newline="", encoding="utf-8") as file:
        found: list[Item] = [(r["name"], int(r["step"]), float(r["value"])) for r in csv.DictReader(file)]
    with (folder / "episodes.csv").open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            found.append(("episode/return", int(row["global_step"]), float(row["return"])))
            found.append(("episode/length", int(row["global_step"]), float(row["steps"])))
    return sorted(found)


def read_parquet(out: Path) -> list[Item]:
    import pyarrow.parquet as pq

    folder = out / SUBJECT.folder
    found: list[Item] = [
        (r["name"], r["step"], r["value"]) for r in pq.read_table(folder / "metrics.parquet").to_pylist()
    ]
    for row in pq.read_table(folder / "episodes.parquet").to_pylist():
        found.append(("episode/return", row["global_step"], row["return"]))
        found.append(("episode/length", row["global_step"], float(row["steps"])))
    return sorted(found)


def read_minari(out: Path) -> list[Item]:
    import minari

    with datasets_in(out):
        dataset = minari.load_dataset("test/cartpole-v0")
        return sorted(
            (
                episode.observations.tolist(),
                episode.actions.tolist(),
                episode.rewards.tolist(),
                episode.terminations.tolist(),
                episode.truncations.tolist(),
            )
            for episode in dataset
        )


@contextmanager
def datasets_in(folder: Path) -> Iterator[None]:
    before = os.environ.get("MINARI_DATASETS_PATH")
    os.environ["MINARI_DATASETS_PATH"] = str(folder)
    try:
        yield
    finally:
        if before is None:
            del os.environ["MINARI_DATASETS_PATH"]
        else:
            os.environ["MINARI_DATASETS_PATH"] = before


def as_float32(items: list[Item]) -> list[Item]:
    """What TensorBoard's format keeps of a value."""
    return sorted((name, step, float(np.float32(value))) for name, step, value in items)


@dataclass(frozen=True)
class Kind:
    """A sink under test: how to make it, what it must hold, how to read it."""

    name: str
    make: Callable[[Path], Sink]
    read: Callable[[Path], list[Item]]
    expected: Callable[[list[Fed]], list[Item]]
    # Whether a kill costs only what came after the last commit.
    goes_on: bool


def _make_tensorboard(out: Path) -> Sink:
    from runspine.sinks.event_files import EventFiles

    return EventFiles(out, SUBJECT)


def _make_tensorboard_of_evaluation(out: Path) -> Sink:
    from runspine.sinks.event_files import EventFiles

    return EventFiles(out, replace(SUBJECT, evaluates=True))


def _make_csv(out: Path) -> Sink:
    from runspine.sinks.csv_files import CsvFiles

    return CsvFiles(out, SUBJECT, with_steps=True)


def _make_parquet(out: Path) -> Sink:
    from runspine.sinks.parquet_files import ParquetFiles

    return ParquetFiles(out, SUBJECT, with_steps=True)


def _make_wandb(out: Path) -> Sink:
    from runspine.sinks.wandb_run import WandbSink

    return WandbSink(out, SUBJECT)


def make_minari(out: Path, **options: Any) -> Sink:
    from runspine.sinks.minari_dataset import MinariDataset

    return MinariDataset(out, SUBJECT, resets, env_of, dataset_id="test/cartpole-v0", **options)


KINDS = [
    Kind("tensorboard", _make_tensorboard, read_tensorboard, lambda fed: as_float32(points(fed)), True),
    Kind(
        "tensorboard of an evaluation",
        _make_tensorboard_of_evaluation,
        read_tensorboard_of_evaluation,
        lambda fed: as_float32(points(fed)),
        True,
    ),
    Kind("csv", _make_csv, read_csv, points, True),
    Kind("parquet", _make_parquet, read_parquet, points, False),
    Kind("wandb", _make_wandb, read_wandb, points, False),
    Kind("minari", make_minari, read_minari, episodes, False),
]


def same(one: float, other: float) -> bool:
    """Equal, or both not a number."""
    return one == other or (math.isnan(one) and math.isnan(other))
