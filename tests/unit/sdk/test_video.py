"""Clips: the same frames give the same file, and the record gives the same frames."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from runspine.sdk.episode_start import EpisodeStart
from runspine.video.clip import FrameDigest, VideoError, decode, encode
from runspine.video.film import film

FILMED = """
import sys
from pathlib import Path
from runspine.sdk.episode_start import EpisodeStart
from runspine.video.film import film
made = film("CartPole-v1", {}, EpisodeStart(seed=3), [0, 1] * 60, Path(sys.argv[1]), limit=15)
print(made.frames_sha256, made.fps)
"""


def frames(count: int, height: int = 40, width: int = 60) -> list[np.ndarray]:
    rows, columns = np.mgrid[:height, :width]
    return [np.stack([rows * 3 + n, columns * 2, 0 * rows + n * 7], 2).astype(np.uint8) for n in range(count)]


def test_an_episode_filmed_in_two_processes_is_the_same_file(tmp_path: Path) -> None:
    received = []
    for name in ("one.mp4", "other.mp4"):
        done = subprocess.run(
            [sys.executable, "-c", FILMED, str(tmp_path / name)], capture_output=True, text=True, check=True
        )
        received.append((done.stdout.split(), (tmp_path / name).read_bytes()))
    assert received[0] == received[1]
    assert received[0][0][1] == "50"
    assert len(list(decode(tmp_path / "one.mp4"))) == 15


def test_a_clip_has_no_more_frames_than_asked_and_looks_like_them(tmp_path: Path) -> None:
    given = frames(30)
    clip = encode(iter(given), tmp_path / "a.mp4", fps=25, limit=12)
    assert (clip.frames, clip.width, clip.height, clip.fps) == (12, 60, 40, 25)
    seen = list(decode(tmp_path / "a.mp4"))
    assert len(seen) == 12
    for was, now in zip(given, seen, strict=False):
        assert np.abs(was.astype(int) - now).mean() < 6
    digest = FrameDigest()
    for frame in given[:12]:
        digest.add(frame)
    assert clip.frames_sha256 == digest.hexdigest()


def test_odd_sizes_are_filled_up(tmp_path: Path) -> None:
    clip = encode(frames(3, 33, 51), tmp_path / "odd.mp4")
    assert (clip.width, clip.height) == (51, 33)
    assert next(decode(tmp_path / "odd.mp4")).shape == (34, 52, 3)


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ([], "no frame to show"),
        ([np.zeros((4, 4), np.uint8)], "not RGB pictures"),
        ([np.zeros((4, 4, 3))], "not RGB pictures"),
        ([*frames(1, 40, 60), *frames(1, 20, 20)], "changed its size"),
    ],
)
def test_what_is_no_film_leaves_no_file(tmp_path: Path, given: list[np.ndarray], why: str) -> None:
    with pytest.raises(VideoError, match=why):
        encode(given, tmp_path / "a.mp4")
    assert list(tmp_path.iterdir()) == []


def test_an_env_that_cannot_be_drawn_is_named(tmp_path: Path) -> None:
    with pytest.raises(VideoError, match="Nowhere-v9 cannot be made"):
        film("Nowhere-v9", {}, EpisodeStart(seed=1), [], tmp_path / "a.mp4", limit=5)
