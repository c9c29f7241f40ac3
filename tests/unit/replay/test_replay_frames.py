"""Frames of a replay: at any size, never black, and stamped where they are not the original."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import av
import gymnasium as gym
import numpy as np
import pytest
from PIL import Image

import tests.kit.samples.envs  # noqa: F401 - registers its envs
from runspine.errors import InvalidError, RunspineError
from runspine.replay import EpisodeRecord, Replay
from runspine.replay.camera import Camera, FrameError
from runspine.replay.film import filmed, stored
from runspine.replay.images import ALARM, as_image
from runspine.video.files import check_target, write_clip
from tests.kit.samples.episodes import other_action, random_play, recorded, tampered


def played(folder: Path, env_id: str, longest: int = 8, capture: str = "", **kwargs: Any) -> EpisodeRecord:
    emitted = recorded(
        folder, lambda by: random_play(by.wrap(gym.make(env_id, **kwargs)), 2, longest), capture=capture
    )
    return EpisodeRecord(emitted[1])


def is_stamped(image: Image.Image) -> bool:
    return image.getpixel((image.width - 1, 1)) == ALARM


def frames_of(path: Path) -> list[Image.Image]:
    with av.open(str(path)) as film:
        return [frame.to_image() for frame in film.decode(video=0)]


@pytest.mark.parametrize(
    ("env_id", "size"),
    [
        ("CartPole-v1", None),
        ("CartPole-v1", (120, 90)),
        ("FrozenLake-v1", (120, 90)),
        ("LunarLander-v3", None),
        ("Hopper-v5", (120, 90)),
        pytest.param("Hopper-v5", None, marks=pytest.mark.long),
    ],
)
def test_each_step_of_an_exact_replay_has_a_lit_frame_of_the_size_asked_for(
    tmp_path: Path, env_id: str, size: tuple[int, int] | None
) -> None:
    replay = Replay(played(tmp_path / "run", env_id))
    film = filmed(replay, size)
    path = tmp_path / "film.mp4"
    clip = write_clip(path, (shot.image for shot in film.shots), lambda: film.fps, "exact")
    frames = frames_of(path)
    assert len(frames) == clip.frames == replay.record.length + 1
    assert {frame.size for frame in frames} == {(clip.width, clip.height)}
    assert size is None or frames[0].size == size
    assert all(np.asarray(frame).max() > 60 for frame in frames)
    assert film.divergence is None
    with av.open(str(path)) as opened:
        assert opened.metadata["title"] == "exact"


def test_frames_from_a_divergence_on_are_stamped_and_those_before_it_are_not(tmp_path: Path) -> None:
    record = played(tmp_path, "LunarLander-v3", 12)
    wrong = Replay(EpisodeRecord(tampered(record.response, 5, other_action(Replay(record), 5))))
    film = filmed(wrong, (100, 80))
    assert [(shot.step, is_stamped(shot.image)) for shot in film.shots] == [
        (None, False),
        *((step, step >= 5) for step in range(12)),
    ]
    assert film.divergence == wrong.verdict.divergence


def test_one_step_can_be_looked_at_alone(tmp_path: Path) -> None:
    replay = Replay(played(tmp_path, "CartPole-v1"))
    (shot,) = filmed(replay, None, only=4).shots
    everything = list(filmed(replay).shots)
    assert shot.step == 4
    assert shot.image.tobytes() == everything[5].image.tobytes() != everything[4].image.tobytes()


def test_an_env_that_computes_otherwise_when_seen_is_drawn_without_knowing_it(tmp_path: Path) -> None:
    replay = Replay(played(tmp_path, "ReplayShy-v0"))
    film = filmed(replay)
    shots = list(film.shots)
    assert (len(shots), film.fps, film.divergence) == (6, 7, None)
    assert not any(is_stamped(shot.image) for shot in shots)


def test_an_env_that_drawing_changes_is_found_out_while_it_is_drawn(tmp_path: Path) -> None:
    replay = Replay(played(tmp_path, "ReplayBold-v0"))
    assert replay.verdict.exact
    film = filmed(replay)
    shots = list(film.shots)
    assert film.divergence is not None
    assert is_stamped(shots[-1].image)
    assert not is_stamped(shots[0].image)


def test_nothing_but_black_is_no_film_and_no_file(tmp_path: Path) -> None:
    replay = Replay(played(tmp_path / "run", "ReplayShy-v0", black=True))
    path = tmp_path / "film.gif"
    with pytest.raises(FrameError, match="nothing but black"):
        write_clip(path, (shot.image for shot in filmed(replay).shots), lambda: 10, "")
    assert list(tmp_path.glob("*film*")) == []


def test_one_black_frame_is_not_accepted_where_renderers_disturb_each_other() -> None:
    env = gym.make("ReplayShy-v0", render_mode="rgb_array", black=True)
    env.reset()
    assert not Camera(env, "it").take().any()
    env.unwrapped.mujoco_renderer = None  # type: ignore[attr-defined]
    with pytest.raises(FrameError, match="black frame twice"):
        Camera(env, "it").take()


def test_an_env_without_frames_is_shown_by_its_observations(tmp_path: Path) -> None:
    replay = Replay(played(tmp_path, "ReplayStructured-v0", capture="hash"))
    film = filmed(replay, (200, 120))
    shots = list(film.shots)
    assert film.source == "observations"
    assert len(shots) == replay.record.length + 1
    assert shots[0].image.tobytes() != shots[3].image.tobytes()
    assert not is_stamped(shots[0].image)


@pytest.mark.parametrize("capture", ["full", "none"])
def test_stored_observations_are_drawn_without_an_env_and_stamped_as_such(
    tmp_path: Path, capture: str
) -> None:
    record = played(tmp_path, "LunarLander-v3", capture=capture)
    record.env.env_id = "Gone-v0"
    shots = list(stored(record, (300, 200)).shots)
    assert len(shots) == record.length + 1
    assert all(is_stamped(shot.image) and shot.image.size == (300, 200) for shot in shots)
    (one,) = stored(record, (300, 200), only=3).shots
    assert one.step == 3


@pytest.mark.parametrize(
    ("shape", "size"),
    [((20, 30), (20, 30)), ((20, 30, 3), (20, 30)), ((4, 84, 84), (84, 84)), ((1, 24, 20), (24, 20))],
)
def test_observations_that_are_pictures_are_shown_as_such(
    shape: tuple[int, ...], size: tuple[int, int]
) -> None:
    found = as_image(np.ones(shape, np.uint8))
    assert found is not None
    assert found.shape == (*size, 3)
    assert as_image(np.ones(shape, np.float32)) is None
    assert as_image(np.ones((7, 7, 3), np.uint8)) is None


def images(count: int, size: tuple[int, int]) -> Iterator[Image.Image]:
    for number in range(count):
        yield Image.new("RGB", size, (10 + 20 * number, 90, 90))


def test_films_and_pictures_hold_every_frame_and_their_rate(tmp_path: Path) -> None:
    gif = write_clip(tmp_path / "a.gif", images(5, (33, 21)), lambda: 10, "about")
    with Image.open(gif.path) as film:
        assert (film.n_frames, film.size, film.info["duration"]) == (5, (33, 21), 100)  # type: ignore[attr-defined]
    png = write_clip(tmp_path / "a.png", images(5, (33, 21)), lambda: 10, "über 测")
    with Image.open(png.path) as picture:
        assert picture.getpixel((0, 0)) == (90, 90, 90)
        assert picture.text["Title"] == "über 测"  # type: ignore[attr-defined]
    mp4 = write_clip(tmp_path / "a.mp4", images(5, (33, 21)), lambda: 10, "about")
    assert (mp4.width, mp4.height) == (32, 20)
    assert len(frames_of(mp4.path)) == 5


def test_a_film_that_breaks_off_leaves_the_older_one_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.mp4"
    write_clip(path, images(3, (32, 32)), lambda: 10, "")
    before = path.read_bytes()

    def broken() -> Iterator[Image.Image]:
        yield from images(2, (32, 32))
        raise RunspineError("the env broke")

    with pytest.raises(RunspineError, match="the env broke"):
        write_clip(path, broken(), lambda: 10, "")
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]
    with pytest.raises(RunspineError, match="no frame"):
        write_clip(tmp_path / "b.gif", [], lambda: 10, "")


def test_a_file_that_cannot_be_written_is_refused_before_anything_is_drawn(tmp_path: Path) -> None:
    for path, size, words in (
        (tmp_path / "a.avi", None, r"one of \.mp4, \.gif, \.png"),
        (tmp_path / "a.mp4", (31, 20), "even numbers"),
        (tmp_path / "no" / "a.gif", None, "no directory"),
    ):
        with pytest.raises(InvalidError, match=words):
            check_target(path, size)
