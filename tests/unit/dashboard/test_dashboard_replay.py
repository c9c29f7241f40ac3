"""Episodes for the scrubber: rendered in chunks, verified, shown from the record without the env."""

from __future__ import annotations

import asyncio
import json
import signal
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

from runspine.replay import EpisodeRecord, Replay
from runspine.services.dashboard.core.episode_view import episode_steps, episode_summary
from runspine.services.dashboard.edges.episode_frames import EpisodeFrameError, EpisodeFrames, LoadedEpisode
from runspine.services.dashboard.edges.episode_renderer import EpisodeRenderer
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from tests.kit.samples.episodes import other_action, random_play, recorded, tampered


@pytest.fixture
def answer(tmp_path: Path) -> GetEpisodeResponse:
    return recorded(tmp_path / "run", lambda by: random_play(by.wrap(gym.make("CartPole-v1")), 2, 12))[1]


def folder_of(path: Path, answer: GetEpisodeResponse) -> Path:
    path.mkdir()
    (path / "episode.pb").write_bytes(answer.SerializeToString())
    return path


def frames(folder: Path) -> dict[int, Any]:
    return {int(path.stem): np.asarray(Image.open(path)) for path in folder.glob("*.jpg")}


def test_a_piece_of_an_episode_is_the_same_as_that_piece_of_the_whole(
    tmp_path: Path, answer: GetEpisodeResponse
) -> None:
    whole, piece = (
        folder_of(tmp_path / "whole", answer),
        folder_of(tmp_path / "piece", answer),
    )
    length = EpisodeRecord(answer).length
    renderer = EpisodeRenderer()
    assert renderer.handle({"ask": "verdict", "folder": str(whole)})["outcome"] == "exact"
    assert (
        renderer.handle({"ask": "frames", "folder": str(whole), "first": 0, "last": 99})["frames"]
        == length + 1
    )
    renderer.handle({"ask": "frames", "folder": str(piece), "first": 3, "last": 6})
    drawn, part = frames(whole), frames(piece)
    assert sorted(part) == [3, 4, 5]
    for number, image in part.items():
        assert np.array_equal(image, drawn[number])
    assert not np.array_equal(drawn[0], drawn[5])


def test_a_replay_that_diverges_reports_the_step_and_its_frames_are_stamped(
    tmp_path: Path, answer: GetEpisodeResponse
) -> None:
    wrong = tampered(answer, 4, other_action(Replay(EpisodeRecord(answer)), 4))
    folder = folder_of(tmp_path / "wrong", wrong)
    renderer = EpisodeRenderer()
    verdict = renderer.handle({"ask": "verdict", "folder": str(folder)})
    assert (verdict["outcome"], verdict["verified"]) == ("diverged", 4)
    assert "at step 4" in verdict["text"]
    renderer.handle({"ask": "frames", "folder": str(folder), "first": 4, "last": 6})
    before, after = frames(folder)[4], frames(folder)[5]
    assert tuple(before[2, -3] // 64) != tuple(after[2, -3] // 64)


def test_without_the_env_its_package_is_named_and_the_record_is_shown(
    tmp_path: Path, answer: GetEpisodeResponse
) -> None:
    answer.env.env_id, answer.env.entry_point = (
        "Nowhere-v0",
        "no_such_package.envs:Nowhere",
    )
    folder = folder_of(tmp_path / "away", answer)
    renderer = EpisodeRenderer()
    verdict = renderer.handle({"ask": "verdict", "folder": str(folder)})
    assert verdict["outcome"] == "stored"
    assert "no_such_package" in verdict["text"]
    assert renderer.handle({"ask": "frames", "folder": str(folder), "first": 0, "last": 3})["frames"] == 3


def test_the_values_next_to_the_frames_are_those_of_the_record(answer: GetEpisodeResponse) -> None:
    record = EpisodeRecord(answer)
    rows = episode_steps(record, 0, 10_000)
    assert len(rows) == record.length == episode_summary(record)["length"]
    assert [row["so_far"] for row in rows] == np.cumsum(record.rewards).tolist()
    assert [row["action"] for row in rows] == [str(record.action(n)) for n in range(record.length)]
    assert json.dumps(rows, allow_nan=False)
    assert episode_steps(record, 5, 5) == []


async def test_a_renderer_that_dies_is_replaced_and_the_page_gets_an_error(
    tmp_path: Path, answer: GetEpisodeResponse
) -> None:
    episode = LoadedEpisode(EpisodeRecord(answer), folder_of(tmp_path / "episode", answer))
    episode_frames = EpisodeFrames(None, tmp_path)  # type: ignore[arg-type]  # nothing is fetched here
    try:
        assert (await episode_frames.verdict(episode))["outcome"] == "exact"
        child = episode_frames._child
        assert child is not None
        # Frozen first, so that it dies with the question and not before it.
        child.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(episode_frames.frame(episode, 2))
        await asyncio.sleep(0.3)
        child.kill()
        with pytest.raises(EpisodeFrameError):
            await waiting
        await child.wait()
        assert (await episode_frames.frame(episode, 2)).read_bytes()[:2] == b"\xff\xd8"
    finally:
        await episode_frames.close()
