"""The process that plays episodes again and draws them: `python -m services.dashboard.edges.projector`.

Envs are other people's code: here they can hang, crash or eat memory without the page. One JSON
object a line comes in, one goes out for each; frames are files.
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
from runspine.replay import NoEnv, Record, Replay
from runspine.replay.camera import Camera, NoFrame
from runspine.replay.film import observed, stored
from runspine.replay.pictures import scaled, stamped
from runspine.wire.v1.telemetry_pb2 import GetEpisodeResponse

# Replays whose verdict is remembered.
REMEMBERED = 4
QUALITY = 82
# As the env draws it, but never larger.
LARGEST = 900


class Projector:
    def __init__(self) -> None:
        self._replays: OrderedDict[str, Replay | str] = OrderedDict()

    def answer(self, asked: dict[str, Any]) -> dict[str, Any]:
        folder = Path(asked["folder"])
        record, replay = self._load(folder)
        if asked["ask"] == "verdict":
            return _verdict(replay)
        first, last = int(asked["first"]), int(asked["last"])
        drawn = stored_shots(record, first, last)
        if isinstance(replay, Replay):
            drawn = played_shots(replay, first, last)
        count = 0
        for number, image in drawn:
            _write(folder / f"{number}.jpg", image)
            count += 1
        return {"frames": count}

    def _load(self, folder: Path) -> tuple[Record, Replay | str]:
        record = Record(_read(folder / "episode.pb"))
        key = str(folder)
        if key not in self._replays:
            before = [Record(_read(path)) for path in sorted(folder.glob("before-*.pb"))]
            self._replays[key] = _replay(record, before)
            while len(self._replays) > REMEMBERED:
                self._replays.popitem(last=False)
        self._replays.move_to_end(key)
        return record, self._replays[key]


def _replay(record: Record, before: list[Record]) -> Replay | str:
    """The replay, judged; or why there is none."""
    try:
        replay = Replay(record, before=before)
        _ = replay.verdict
    except NoEnv as error:
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


def played_shots(replay: Replay, first: int, last: int) -> Iterator[tuple[int, Image.Image]]:
    """Frames first to last (not included); frame 0 is what the reset showed, frame n what step n-1 did."""
    with replay.stage(frames=True) as stage:
        try:
            camera = Camera(stage.env, replay.record.env.env_id)
        except NoFrame:
            camera = None
            pictures = observed([moment.observation for moment in replay.moments()], None, "observation")
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


def stored_shots(record: Record, first: int, last: int) -> Iterator[tuple[int, Image.Image]]:
    """Pictures of what is on record, where the env cannot be made."""
    for number, shot in enumerate(stored(record).shots):
        if number >= last:
            return
        if number >= first:
            yield number, shot.image


def _write(path: Path, image: Image.Image) -> None:
    part = path.with_suffix(".part")
    image = image.convert("RGB")
    image.thumbnail((LARGEST, LARGEST))
    image.save(part, "JPEG", quality=QUALITY)
    part.replace(path)


def _read(path: Path) -> GetEpisodeResponse:
    return GetEpisodeResponse.FromString(path.read_bytes())


def main() -> None:
    # Whoever plays an env may print; only answers go out.
    out = os.fdopen(os.dup(1), "w", buffering=1)
    os.dup2(2, 1)
    with contextlib.suppress(OSError):
        os.nice(3)
    projector = Projector()
    for line in sys.stdin:
        try:
            answer = projector.answer(json.loads(line))
        except (RunspineError, OSError, ValueError) as error:
            answer = {"error": str(error) or type(error).__name__}
        except Exception as error:  # noqa: BLE001 - the edge of this process: an env raises anything
            answer = {"error": f"{type(error).__name__}: {error}"}
        out.write(json.dumps(answer) + "\n")


if __name__ == "__main__":
    main()
