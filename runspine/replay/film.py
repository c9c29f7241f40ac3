"""Images of an episode: drawn by its env, or from the observations on record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from PIL import Image

from runspine.replay.agents_stage import AgentsStage
from runspine.replay.camera import Camera, FrameError
from runspine.replay.divergence import Divergence
from runspine.replay.images import Plot, as_image, numbers_of, scaled, stamped
from runspine.replay.record import EpisodeRecord
from runspine.replay.replay import Replay
from runspine.replay.stage import Moment, Stage

Size = tuple[int, int]
PLOT_SIZE = (640, 400)
STORED = "stored observations, not re-simulated"


@dataclass(frozen=True, slots=True)
class Shot:
    """The image after the reset (no step) or after a step. Diverged shots carry a stamp."""

    step: int | None
    image: Image.Image


@dataclass(slots=True)
class Film:
    """Shots in order. The other fields are set while shots are taken."""

    shots: Iterator[Shot]
    fps: int = 30
    divergence: Divergence | None = None
    # What the images show: env, or observations.
    source: str = "env"


def filmed(replay: Replay, size: Size | None = None, only: int | None = None) -> Film:
    """The replay as its env draws it, verified while it is drawn; `only` one step.

    For an env that draws nothing, images of its observations. Raises EnvMissingError, FrameError.
    """
    film = Film(iter(()))
    film.shots = _shots(replay, size, only, film)
    return film


def _shots(replay: Replay, size: Size | None, only: int | None, film: Film) -> Iterator[Shot]:
    with replay.stage(frames=True, size=size) as stage:
        camera = _camera(stage, replay.record)
        if camera is None:
            film.source = "observations"
            pictures = observation_images(
                [moment.observation for moment in replay.moments()], size, "observation"
            )
        else:
            film.fps = camera.fps
        for moment in _moments(stage):
            film.divergence = moment.divergence
            if only is None or moment.step == only:
                number = 0 if moment.step is None else moment.step + 1
                image = scaled(camera.take(), size) if camera else pictures(number)
                if moment.divergence is not None:
                    image = stamped(image, f"DIVERGED {moment.divergence.where}: not the original")
                yield Shot(moment.step, image)
            if only is not None and moment.step == only:
                break
        else:
            if only is not None:
                raise FrameError(f"the replay ended after step {stage.at - 1}, before step {only}")
        if camera and not camera.lit:
            raise FrameError(f"{replay.record.env.env_id} drew nothing but black frames")


def _moments(stage: Stage | AgentsStage) -> Iterator[Moment]:
    yield stage.begin()
    yield from stage.moments()


def _camera(stage: Stage | AgentsStage, record: EpisodeRecord) -> Camera | None:
    try:
        return Camera(stage.env, record.env.env_id)
    except FrameError:
        return None


def stored(record: EpisodeRecord, size: Size | None = None, only: int | None = None) -> Film:
    """Images of the observations on record, without an env; of rewards where none were kept whole."""
    values: list[Any] = [record.first.value(0)]
    for number in range(record.length):
        seen, row = record.seen(number)
        values.append(seen.value(row))
    if all(numbers_of(value) is None for value in values):
        rewards = [None, *record.rewards.tolist()]
        picture = observation_images(rewards, size, "reward (observations were not kept whole)")
    else:
        picture = observation_images(values, size, "observation")

    def shots() -> Iterator[Shot]:
        for number in range(-1, record.length):
            step = None if number < 0 else number
            if only is None or step == only:
                yield Shot(step, stamped(picture(number + 1), STORED))

    return Film(shots(), source="observations")


def observation_images(values: list[Any], size: Size | None, title: str) -> Callable[[int], Image.Image]:
    """Images of observations by number: the observation when it is an image, else a plot of its numbers."""
    if any(as_image(value) is not None for value in values):

        def picture(number: int) -> Image.Image:
            image = as_image(values[number])
            return scaled(image, size) if image is not None else Image.new("RGB", size or PLOT_SIZE)

        return picture
    rows = [numbers_of(value) for value in values]
    known = next((row for row in rows if row is not None), None)
    filled = [row if row is not None else (known[:0] if known is not None else None) for row in rows]
    plot = Plot([row for row in filled if row is not None], size or PLOT_SIZE, title)
    return plot.at
