"""Child process that replays episodes and renders their frames, started by `episode_frames`.

Envs are third-party code: here they can hang, crash or use up memory without affecting the pages. The process
reads one JSON request per line and writes one JSON response per line; frames are written as files.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from PIL import Image

from runspine.errors import RunspineError
from runspine.replay import EnvMissingError, EpisodeRecord, Replay
from runspine.replay.camera import Camera, FrameError
from runspine.replay.film import observation_images, stored
from runspine.replay.images import scaled, stamped
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse

# Replays that are kept with their verdict.
MAX_REPLAYS = 4
JPEG_QUALITY = 82
# Larger frames are scaled down.
MAX_SIDE_PIXELS = 900


class EpisodeRenderer:
    def __init__(self) -> None:
        self._replays: OrderedDict[str, Replay | str] = OrderedDict()

    def handle(self, request: dict[str, Any]) -> dict[str, Any]:
        folder = Path(request["folder"])
        record, replay = self._load(folder)
        if request["ask"] == "verdict":
            return _verdict(replay)
        first, last = int(request["first"]), int(request["last"])
        drawn = stored_frames(record, first, last)
        if isinstance(replay, Replay):
            drawn = replayed_frames(replay, first, last)
        count = 0
        for number, image in drawn:
            _write(folder / f"{number}.jpg", image)
            count += 1
        return {"frames": count}

    def _load(self, folder: Path) -> tuple[EpisodeRecord, Replay | str]:
        record = EpisodeRecord(_read(folder / "episode.pb"))
        key = str(folder)
        if key not in self._replays:
            before = [EpisodeRecord(_read(path)) for path in sorted(folder.glob("before-*.pb"))]
            self._replays[key] = _replay(record, before)
            while len(self._replays) > MAX_REPLAYS:
                self._replays.popitem(last=False)
        self._replays.move_to_end(key)
        return record, self._replays[key]


def _replay(record: EpisodeRecord, before: list[EpisodeRecord]) -> Replay | str:
    """The replay with its verdict, or the reason why there is none."""
    try:
        replay = Replay(record, before=before)
        _ = replay.verdict
    except EnvMissingError as error:
        return str(error)
    return replay


def _verdict(replay: Replay | str) -> dict[str, Any]:
    if isinstance(replay, str):
        return {"outcome": "stored", "text": replay, "verified": 0, "changed": []}
    verdict = replay.verdict
    return {
        "outcome": "exact" if verdict.exact else "diverged",
        "text": "" if verdict.divergence is None else str(verdict.divergence),
        "verified": verdict.steps,
        "changed": [str(each) for each in verdict.changed],
    }


def replayed_frames(replay: Replay, first: int, last: int) -> Iterator[tuple[int, Image.Image]]:
    """Frames `first` to `last` (exclusive); frame 0 follows the reset, frame n follows step n-1."""
    with replay.stage(frames=True) as stage:
        try:
            camera = Camera(stage.env, replay.record.env.env_id)
        except FrameError:
            camera = None
            pictures = observation_images(
                [moment.observation for moment in replay.moments()], None, "observation"
            )
        moment, number = stage.begin(), 0
        while number < last:
            if number >= first:
                image = scaled(camera.take(), None) if camera else pictures(number)
                if moment.divergence is not None:
                    image = stamped(image, f"DIVERGED {moment.divergence.where}: not the original")
                yield number, image
            if stage.at >= replay.record.length or moment.observation is None:
                return
            moment, number = stage.step(), number + 1


def stored_frames(record: EpisodeRecord, first: int, last: int) -> Iterator[tuple[int, Image.Image]]:
    """Pictures of the recorded observations, for an env that cannot be made."""
    for number, shot in enumerate(stored(record).shots):
        if number >= last:
            return
        if number >= first:
            yield number, shot.image


def _write(path: Path, image: Image.Image) -> None:
    part = path.with_suffix(".part")
    image = image.convert("RGB")
    image.thumbnail((MAX_SIDE_PIXELS, MAX_SIDE_PIXELS))
    image.save(part, "JPEG", quality=JPEG_QUALITY)
    part.replace(path)


def _read(path: Path) -> GetEpisodeResponse:
    return GetEpisodeResponse.FromString(path.read_bytes())


def main() -> None:
    # Envs may print: stdout goes to stderr, and only responses go out.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with contextlib.suppress(OSError):
        os.nice(3)
    renderer = EpisodeRenderer()
    for line in sys.stdin:
        try:
            answer = renderer.handle(json.loads(line))
        except (RunspineError, OSError, ValueError) as error:
            answer = {"error": str(error) or type(error).__name__}
        except Exception as error:  # noqa: BLE001 - the edge of this process: an env raises anything
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
