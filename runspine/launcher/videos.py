"""Videos that the script records become artifacts of the run as soon as they are written."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from runspine.launcher.record import record


def patch(record_video: Any) -> None:
    """Gymnasium's RecordVideo: `stop_recording` since 1.0, `close_video_recorder` before."""
    if hasattr(record_video, "stop_recording"):
        record_video.stop_recording = announcing(record_video.stop_recording, _path)
    else:
        record_video.close_video_recorder = announcing(record_video.close_video_recorder, _old_path)


def announcing(end: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
    @functools.wraps(end)
    def ended(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = path_of(self)
        result = end(self, *args, **kwargs)
        if path:
            announce(path)
        return result

    return ended


def announce(path: str) -> None:
    if os.path.isfile(path) and os.path.getsize(path) and record.announce(path):
        record.videos += 1
        name = os.path.relpath(path, record.run.dir.resolve())
        record.run.log_artifact(path, kind="video", step=record.step, source="script", file=name)


def _path(wrapper: Any) -> str:
    name = getattr(wrapper, "_video_name", None)
    return os.path.join(wrapper.video_folder, f"{name}.mp4") if name else ""


def _old_path(wrapper: Any) -> str:
    recorder = wrapper.video_recorder
    return str(recorder.path) if wrapper.recording and recorder is not None else ""
