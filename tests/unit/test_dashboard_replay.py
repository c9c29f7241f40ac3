"""Episodes for the scrubber: drawn in pieces, judged, and shown from the record where there is no env."""

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

from runspine.replay import Record, Replay
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse
from services.dashboard.core.scene import about, steps
from services.dashboard.edges.projector import Projector
from services.dashboard.edges.theatre import NotDrawn, Scene, Theatre
from tests.unit.replay_rig import other_action, random_play, recorded, tampered


@pytest.fixture
def said(tmp_path: Path) -> GetEpisodeResponse:
    return recorded(tmp_path / "run", lambda by: random_play(by.wrap(gym.make("CartPole-v1")), 2, 12))[1]


def folder_of(path: Path, said: GetEpisodeResponse) -> Path:
    path.mkdir()
    (path / "episode.pb").write_bytes(said.SerializeToString())
    return path


def frames(folder: Path) -> dict[int, Any]:
    return {int(path.stem): np.asarray(Image.open(path)) for path in folder.glob("*.jpg")}


def test_a_piece_of_an_episode_is_the_same_as_that_piece_of_the_whole(
    tmp_path: Path, said: GetEpisodeResponse
) -> None:
    whole, piece = folder_of(tmp_path / "whole", said), folder_of(tmp_path / "piece", said)
    length = Record(said).length
    projector = Projector()
    assert projector.answer({"ask": "verdict", "folder": str(whole)})["outcome"] == "exact"
    assert (
        projector.answer({"ask": "frames", "folder": str(whole), "first": 0, "last": 99})["frames"]
        == length + 1
    )
    projector.answer({"ask": "frames", "folder": str(piece), "first": 3, "last": 6})
    drawn, part = frames(whole), frames(piece)
    assert sorted(part) == [3, 4, 5]
    for number, image in part.items():
        assert np.array_equal(image, drawn[number])
    assert not np.array_equal(drawn[0], drawn[5])


def test_a_replay_that_diverges_says_where_and_its_frames_are_stamped(
    tmp_path: Path, said: GetEpisodeResponse
) -> None:
    wrong = tampered(said, 4, other_action(Replay(Record(said)), 4))
    folder = folder_of(tmp_path / "wrong", wrong)
    projector = Projector()
    verdict = projector.answer({"ask": "verdict", "folder": str(folder)})
    assert (verdict["outcome"], verdict["verified"]) == ("diverged", 4)
    assert "at step 4" in verdict["text"]
    projector.answer({"ask": "frames", "folder": str(folder), "first": 4, "last": 6})
    before, after = frames(folder)[4], frames(folder)[5]
    assert tuple(before[2, -3] // 64) != tuple(after[2, -3] // 64)


def test_without_the_env_its_package_is_named_and_the_record_is_shown(
    tmp_path: Path, said: GetEpisodeResponse
) -> None:
    said.env.env_id, said.env.entry_point = "Nowhere-v0", "no_such_package.envs:Nowhere"
    folder = folder_of(tmp_path / "away", said)
    projector = Projector()
    verdict = projector.answer({"ask": "verdict", "folder": str(folder)})
    assert verdict["outcome"] == "stored"
    assert "no_such_package" in verdict["text"]
    assert projector.answer({"ask": "frames", "folder": str(folder), "first": 0, "last": 3})["frames"] == 3


def test_what_stands_beside_the_frames_is_what_was_recorded(said: GetEpisodeResponse) -> None:
    record = Record(said)
    rows = steps(record, 0, 10_000)
    assert len(rows) == record.length == about(record)["length"]
    assert [row["so_far"] for row in rows] == np.cumsum(record.rewards).tolist()
    assert [row["action"] for row in rows] == [str(record.action(n)) for n in range(record.length)]
    assert json.dumps(rows, allow_nan=False)
    assert steps(record, 5, 5) == []


async def test_a_projector_that_dies_is_replaced_and_the_page_is_told(
    tmp_path: Path, said: GetEpisodeResponse
) -> None:
    scene = Scene(Record(said), folder_of(tmp_path / "scene", said))
    theatre = Theatre(None, tmp_path)  # type: ignore[arg-type] - nothing is fetched here
    try:
        assert (await theatre.verdict(scene))["outcome"] == "exact"
        child = theatre._child
        assert child is not None
        # Frozen first, so that it dies with the question and not before it.
        child.send_signal(signal.SIGSTOP)
        waiting = asyncio.create_task(theatre.frame(scene, 2))
        await asyncio.sleep(0.3)
        child.kill()
        with pytest.raises(NotDrawn):
            await waiting
        await child.wait()
        assert (await theatre.frame(scene, 2)).read_bytes()[:2] == b"\xff\xd8"
    finally:
        await theatre.close()
