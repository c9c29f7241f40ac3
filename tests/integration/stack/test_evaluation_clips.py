"""Clips made during a training: they show what was played, and the training does not notice."""

from __future__ import annotations

import base64
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runspine.sdk.episode_start import EpisodeStart
from runspine.video.clip import decode
from runspine.video.film import film
from tests.kit.training import Trainer, start

PPO = ["runspine.trainers.builtin.ppo", "--seed", "3", "--total-timesteps", "512", "--num-steps", "64"]


def videos(trainer: Trainer) -> list[dict[str, Any]]:
    return [line for line in trainer.emitted if line["type"] == "artifact" and line["kind"] == "video"]


@pytest.mark.long
def test_a_filmed_training_learns_the_same_and_its_clips_are_of_its_episodes(tmp_path: Path) -> None:
    filmed = start(tmp_path / "filmed", [*PPO, "--video-every", "3"])
    assert filmed.wait(170) == 0, filmed.output
    plain = start(tmp_path / "plain", PPO).succeed()
    assert filmed.returns() == plain.returns()
    episodes = {line["episode_id"]: line for line in filmed.emitted if line["type"] == "episode"}
    first = [name for name in episodes if name.startswith("0-")]
    received = {line["meta"]["episode_id"]: line for line in videos(filmed)}
    assert set(received) == set(first[::3])
    for name, line in received.items():
        assert line["meta"]["return"] == episodes[name]["return"]
        assert line["meta"]["frames"] == min(200, episodes[name]["steps"] + 1)
        assert len(list(decode(filmed.folder / line["path"]))) == line["meta"]["frames"]
    _check_first(filmed, received["0-0"], tmp_path)


def _check_first(filmed: Trainer, line: dict[str, Any], tmp_path: Path) -> None:
    """The first episode began with the seed: filmed by hand, it is the same file."""
    emitted = [each for each in filmed.emitted if each["type"] == "steps" and each["episode_id"] == "0-0"]
    actions = [
        int(action)
        for each in emitted
        for action in np.frombuffer(base64.b64decode(each["action"]["data"]), each["action"]["dtype"])
    ]
    clip = film("CartPole-v1", {}, EpisodeStart(seed=3), actions, tmp_path / "by-hand.mp4", limit=200)
    assert clip.frames_sha256 == line["meta"]["frames_sha256"]
    assert clip.path.read_bytes() == (filmed.folder / line["path"]).read_bytes()


def test_a_training_that_is_stopped_does_not_wait_for_its_clips(tmp_path: Path) -> None:
    command = [
        "runspine.trainers.builtin.ppo",
        "--total-timesteps",
        "1000000",
        "--num-steps",
        "16",
        "--video-every",
        "1",
    ]
    stopped = start(tmp_path / "stopped", command)
    try:
        stopped.until(lambda: len(stopped.returns()) > 5, 120)
        stopped.process.send_signal(signal.SIGTERM)
        assert stopped.wait(45) == 143
    finally:
        stopped.process.kill()
        stopped.wait()
    assert len(videos(stopped)) < len(stopped.returns())
    assert "Traceback" not in stopped.output
