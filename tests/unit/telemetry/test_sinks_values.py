"""What single sinks make of values, names and runs that are not as usual."""

from __future__ import annotations

import csv
import json
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces

from runspine.errors import InvalidError, RefusedError
from runspine.sinks.clips import MAX_CLIP_BYTES, is_exported
from runspine.sinks.csv_files import CsvFiles
from runspine.sinks.event_files import EventFiles
from runspine.sinks.ledger import run_folder
from runspine.sinks.minari_dataset import MinariDataset, default_id
from runspine.sinks.minari_spaces import space_of, stacked
from runspine.sinks.parquet_files import MAX_FORMS, ParquetFiles
from runspine.sinks.port import METRICS, STEPS, Mark, Sink, resumed_step
from runspine.sinks.wandb_run import WandbSink
from runspine.sinks.whole_episodes import EpisodeGatherer
from runspine.wire.v1 import telemetry_pb2 as wire
from runspine.wire.v1.artifacts_pb2 import Artifact
from runspine.wire.v1.run_pb2 import Attempt
from tests.kit.samples.sinks import (
    SUBJECT,
    batches,
    datasets_in,
    env_of,
    episodes,
    feed,
    make_minari,
    read_csv,
    read_minari,
    resets,
    same,
    step_batches,
)

ODD = [0.1, -0.0, 5e-324, 1e300, -1e300, 3.4028234e38, math.nan, math.inf, -math.inf, 2.0**53 + 1]


def one_series(values: list[float], name: str = "x") -> wire.StreamMetricsResponse:
    n = len(values)
    block = wire.MetricBlock(name=name, values=values, steps=range(n), at=[1_000_001] * n)
    return wire.StreamMetricsResponse(position=1, attempt=1, blocks=[block])


def fill(sink: Sink, kind: str, batch: Any) -> None:
    sink.open()
    sink.feed(kind, batch)
    sink.commit(Mark({kind: 1}, 1, True))
    sink.close()


def accumulated(folder: Path) -> Any:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(folder), size_guidance={"scalars": 0, "tensors": 0})
    accumulator.Reload()
    return accumulator


def test_tensorboard_holds_every_value_as_float32_and_the_trainers_wall_times(tmp_path: Path) -> None:
    fill(EventFiles(tmp_path, SUBJECT), METRICS, one_series(ODD))
    found = accumulated(tmp_path / SUBJECT.folder).Scalars("x")
    with np.errstate(over="ignore"):
        expected = [float(np.float32(value)) for value in ODD]
    assert all(same(event.value, value) for event, value in zip(found, expected, strict=True))
    assert [event.step for event in found] == list(range(len(ODD)))
    assert {event.wall_time for event in found} == {1.000001}


def test_csv_reads_back_to_the_same_doubles(tmp_path: Path) -> None:
    fill(CsvFiles(tmp_path, SUBJECT), METRICS, one_series(ODD))
    found = {step: value for _, step, value in read_csv(tmp_path)}
    for step, value in enumerate(ODD):
        assert same(found[step], value)
        assert math.copysign(1, found[step]) == math.copysign(1, value)


@pytest.mark.parametrize("name", ['a,b"c\nd', "größe/日本", "=cmd()", "x" * 5000, "tab\t"])
def test_names_of_any_kind_come_through(name: str, tmp_path: Path) -> None:
    fill(CsvFiles(tmp_path / "csv", SUBJECT), METRICS, one_series([1.0], name))
    fill(EventFiles(tmp_path / "tb", SUBJECT), METRICS, one_series([1.0], name))
    assert read_csv(tmp_path / "csv") == [(name, 0, 1.0)]
    assert accumulated(tmp_path / "tb" / SUBJECT.folder).Tags()["scalars"] == [name]


def test_the_hyperparameters_are_the_table_that_cleanrl_writes(tmp_path: Path) -> None:
    sink = EventFiles(tmp_path, SUBJECT)
    sink.open()
    for _ in range(2):
        sink.describe({"gamma": 0.99, "note": "a | b\nc"})
    sink.commit(Mark(done=True))
    sink.close()
    [event] = accumulated(tmp_path / SUBJECT.folder).Tensors("hyperparameters/text_summary")
    table = event.tensor_proto.string_val[0].decode()
    assert table == "|param|value|\n|-|-|\n|gamma|0.99|\n|note|a \\| b c|"


def test_steps_that_a_file_format_cannot_hold_are_its_largest(tmp_path: Path) -> None:
    block = wire.MetricBlock(name="x", values=[1.0], steps=[2**64 - 1], at=[1])
    fill(
        EventFiles(tmp_path, SUBJECT),
        METRICS,
        wire.StreamMetricsResponse(position=1, attempt=1, blocks=[block]),
    )
    assert accumulated(tmp_path / SUBJECT.folder).Scalars("x")[0].step == 2**63 - 1


def test_points_without_steps_or_times_are_not_lost(tmp_path: Path) -> None:
    block = wire.MetricBlock(name="x", values=[1.0, 2.0])
    fill(
        CsvFiles(tmp_path, SUBJECT),
        METRICS,
        wire.StreamMetricsResponse(position=1, attempt=1, blocks=[block]),
    )
    assert read_csv(tmp_path) == [("x", 0, 1.0), ("x", 0, 2.0)]


def test_every_step_is_a_row_with_its_action_and_observation(tmp_path: Path) -> None:
    sink = CsvFiles(tmp_path, SUBJECT, with_steps=True)
    fill(sink, STEPS, step_batches(1)[0].batch)
    with (tmp_path / SUBJECT.folder / "steps.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert [(r["step"], r["action"], r["terminated"]) for r in rows] == [
        ("0", "0", "0"),
        ("1", "1", "0"),
        ("2", "0", "0"),
        ("3", "1", "1"),
    ]
    assert json.loads(rows[0]["observation"]) == [0.0, 1.0, 0.5, -1.0]


def test_steps_in_parquet_keep_their_types(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    fill(ParquetFiles(tmp_path, SUBJECT, with_steps=True), STEPS, step_batches(1)[0].batch)
    table = pq.read_table(tmp_path / SUBJECT.folder / "steps.parquet")
    assert table.schema.field("action").type == pa.int64()
    assert table.schema.field("observation").type == pa.list_(pa.float32(), 4)
    assert table.num_rows == 4


def with_vector_actions(batch: Any, width: int, agent: str) -> Any:
    for block in batch.blocks:
        block.agent_id = agent
        block.action.CopyFrom(wire.Array(dtype="<f4", shape=[width], data=bytes(4 * width * block.count)))
    return batch


def test_agents_with_other_spaces_are_in_parquet_files_of_their_own(tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    sink = ParquetFiles(tmp_path, SUBJECT, with_steps=True)
    sink.open()
    both = step_batches(1)[0].batch
    other = with_vector_actions(step_batches(1, first=1)[0].batch, 2, "giant")
    # In one batch, as agents of one env arrive, and again in a later one.
    both.blocks.extend(other.blocks)
    sink.feed(STEPS, both)
    sink.feed(STEPS, other)
    sink.close()
    folder = tmp_path / SUBJECT.folder
    first, second = (pq.read_table(folder / name) for name in ("steps.parquet", "steps.2.parquet"))
    assert (first.num_rows, second.num_rows) == (4, 8)
    assert set(first["agent_id"].to_pylist()) == {""}
    assert set(second["agent_id"].to_pylist()) == {"giant"}


def test_actions_that_never_keep_their_shape_are_refused_by_parquet_with_a_remedy(tmp_path: Path) -> None:
    sink = ParquetFiles(tmp_path, SUBJECT, with_steps=True)
    sink.open()
    for width in range(1, MAX_FORMS + 1):
        sink.feed(STEPS, with_vector_actions(step_batches(1)[0].batch, width, ""))
    with pytest.raises(RefusedError, match="--to csv"):
        sink.feed(STEPS, with_vector_actions(step_batches(1)[0].batch, MAX_FORMS + 1, ""))
    sink.abandon()
    assert not (tmp_path / SUBJECT.folder / "steps.parquet").exists()


def test_a_file_that_somebody_removed_is_made_again_from_the_start(tmp_path: Path) -> None:
    fill(CsvFiles(tmp_path, SUBJECT), METRICS, one_series([1.0]))
    (tmp_path / SUBJECT.folder / "metrics.csv").unlink()
    sink = CsvFiles(tmp_path, SUBJECT)
    assert sink.open() == Mark()
    sink.abandon()


def test_other_options_start_again(tmp_path: Path) -> None:
    fill(CsvFiles(tmp_path, SUBJECT), METRICS, one_series([1.0]))
    sink = CsvFiles(tmp_path, SUBJECT, with_steps=True)
    assert sink.open() == Mark()
    sink.abandon()


def test_two_runs_of_one_name_have_folders_of_their_own(tmp_path: Path) -> None:
    other = replace(SUBJECT, run_id="01M7HEZFPP3BC8V4E08FABCDEF")
    assert run_folder(tmp_path, SUBJECT) == run_folder(tmp_path, SUBJECT)
    assert run_folder(tmp_path, other).name == f"{SUBJECT.name}-ABCDEF"
    assert replace(SUBJECT, name="../../etc/passwd").folder == "etc_passwd"
    assert replace(SUBJECT, name="///").folder == SUBJECT.run_id


def test_a_folder_that_cannot_be_made_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(InvalidError, match="file"):
        CsvFiles(tmp_path / "file", SUBJECT)


def test_wandb_goes_online_only_with_a_key_from_the_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("WANDB_API_KEY", raising=False)
    with pytest.raises(InvalidError, match="WANDB_API_KEY"):
        WandbSink(tmp_path, SUBJECT, online=True)


def test_minari_refuses_a_run_without_observations_and_names_a_remedy(tmp_path: Path) -> None:
    sink = make_minari(tmp_path)
    feed(sink, step_batches(2, observed=False), sink.open())
    with pytest.raises(RefusedError, match=r"--resimulate.*capture\.observations=full"):
        sink.close()
    assert not (tmp_path / "test").exists()


def test_minari_takes_observations_that_were_had_again(tmp_path: Path) -> None:
    fed = step_batches(3)
    whole = {f"0-{n}": rows for n, (rows, *_) in enumerate(episodes(fed))}

    def again(episode_id: str, attempt: int) -> list[Any] | None:
        # One episode comes out otherwise than it was recorded: it is left out.
        return None if episode_id == "0-1" else [np.array(row, "<f4") for row in whole[episode_id]]

    sink = make_minari(tmp_path, resimulate=again)
    feed(sink, step_batches(3, observed=False), sink.open())
    sink.close()
    assert read_minari(tmp_path) == [episodes(fed)[0], episodes(fed)[2]]


def test_minari_refuses_several_agents(tmp_path: Path) -> None:
    batch = step_batches(1)[0].batch
    batch.blocks[0].agent_id = "wolf"
    sink = make_minari(tmp_path)
    sink.open()
    with pytest.raises(RefusedError, match="wolf"):
        sink.feed(STEPS, batch)
    sink.abandon()


@pytest.mark.parametrize(("given", "words"), [([], "no steps"), (step_batches(1), "none has ended")])
def test_minari_states_why_there_is_no_episode(given: list[Any], words: str, tmp_path: Path) -> None:
    sink = make_minari(tmp_path)
    sink.open()
    for fed in given:
        del fed.batch.blocks[1:]
        sink.feed(fed.kind, fed.batch)
    with pytest.raises(RefusedError, match=words):
        sink.close()


def test_minari_has_the_seed_of_a_reset_and_the_env(tmp_path: Path) -> None:
    import minari

    sink = make_minari(tmp_path)
    feed(sink, step_batches(2), sink.open())
    sink.close()
    with datasets_in(tmp_path):
        dataset = minari.load_dataset("test/cartpole-v0")
        metadata = list(dataset.storage.get_episode_metadata([0, 1]))
        environment = dataset.recover_environment()
    assert [entry["seed"] for entry in metadata] == [0, 1]
    assert environment.spec is not None
    assert environment.spec.id == "CartPole-v1"


def test_an_env_that_is_not_here_gets_the_spaces_its_data_shows(tmp_path: Path) -> None:
    unknown = wire.EnvMade(env_id="Nowhere-v0", kwargs_json="{}")
    sink = MinariDataset(tmp_path, SUBJECT, resets, lambda *_: unknown, dataset_id="test/cartpole-v0")
    fed = step_batches(2)
    feed(sink, fed, sink.open())
    sink.close()
    assert read_minari(tmp_path) == episodes(fed)


def test_a_dataset_id_that_minari_does_not_take_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidError, match="NAME-vN"):
        MinariDataset(tmp_path, SUBJECT, resets, env_of, dataset_id="no spaces please")
    assert default_id(replace(SUBJECT, env="ALE/Pong-v5")) == "runspine/ALE_Pong-v5/ppo-1-8fwk23kx-v0"
    MinariDataset(tmp_path, replace(SUBJECT, env="", algo=""), resets, env_of)


def test_an_episode_that_two_attempts_share_is_one() -> None:
    gathering = EpisodeGatherer()
    blocks = step_batches(1)[0].batch.blocks
    assert list(gathering.add(1, blocks[0])) == []
    [episode] = gathering.add(2, blocks[1])
    assert episode.steps == 4
    assert episode.key.attempt == 1


def test_an_episode_with_a_hole_is_left_out() -> None:
    gathering = EpisodeGatherer()
    assert list(gathering.add(1, step_batches(1)[0].batch.blocks[1])) == []
    assert gathering.torn == 1


def test_composed_spaces_are_taken_apart() -> None:
    values = [{"a": [1, 2], "b": "x"}, {"a": [3, 4], "b": "yy"}]
    space = space_of(values)
    assert isinstance(space, spaces.Dict)
    made = stacked(values, space)
    assert made["a"].tolist() == [[1, 2], [3, 4]]
    assert made["b"] == ["x", "yy"]
    pair = spaces.Tuple([spaces.Discrete(3), spaces.Box(0, 1, (2,))])
    first, second = stacked([[0, [0.5, 1]], [2, [0, 0]]], pair)
    assert first.tolist() == [0, 2]
    assert second.shape == (2, 2)


def test_what_an_attempt_supersedes_is_found_over_several() -> None:
    attempts = [Attempt(number=n) for n in (1, 2, 3)]
    attempts[1].resumed_from.run_id = attempts[2].resumed_from.run_id = "R"
    attempts[1].resumed_from.step, attempts[2].resumed_from.step = 500, 300
    assert resumed_step("R", attempts, 2, 1) == 500
    assert resumed_step("R", attempts, 3, 1) == 300
    attempts[2].resumed_from.run_id = "another"
    assert resumed_step("R", attempts, 3, 2) == -1, "a warm start is a new beginning"


def test_kinds_are_by_turns_in_the_rig() -> None:
    assert [fed.kind for fed in batches(("metrics", "episodes"), 2)] == ["metrics", "episodes"] * 2


@pytest.mark.parametrize(
    ("name", "size", "exported"),
    [
        ("videos/rl-video-episode-0.mp4", 1000, True),
        ("videos/LAST.MP4", MAX_CLIP_BYTES, True),
        ("videos/rl-video-episode-0.mp4", MAX_CLIP_BYTES + 1, False),
        ("videos/rl-video-episode-0.meta.json", 100, False),
        ("videos/clip.avi", 100, False),
    ],
)
def test_only_clips_of_a_known_format_and_a_sensible_size_are_exported(
    name: str, size: int, exported: bool
) -> None:
    assert is_exported(Artifact(name=name, size=size)) == exported
