"""Uploads videos of the script as artifacts as soon as they are written; those of its evaluation only if
they are wanted.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import Any

from runspine.domain.artifact_kinds import VIDEO
from runspine.instrument.record import is_evaluation, record

# Set to `false` by the runner: the script's own evaluation is not filmed. Children inherit it.
EVALUATION_VARIABLE = "RUNSPINE_EVAL_CAPTURE_VIDEO"


def patch(record_video: Any) -> None:
    """Gymnasium's RecordVideo: `stop_recording` since 1.0, `close_video_recorder` before."""
    if hasattr(record_video, "stop_recording"):
        record_video.start_recording = remembering(record_video.start_recording)
        record_video.stop_recording = announcing(record_video.stop_recording, _path)
    else:
        record_video.start_video_recorder = remembering(record_video.start_video_recorder)
        record_video.close_video_recorder = announcing(record_video.close_video_recorder, _old_path)
    if os.environ.get(EVALUATION_VARIABLE) == "false":
        record_video.__new__ = leaving_out(record_video.__new__)


def leaving_out(new: Callable[..., Any]) -> Callable[..., Any]:
    """In an evaluation, give back the env instead of the wrapper that films it."""

    def made(kind: Any, env: Any = None, *args: Any, **kwargs: Any) -> Any:
        if env is not None and _evaluates(env):
            return env
        return new(kind) if new is object.__new__ else new(kind, env, *args, **kwargs)

    return made


def _evaluates(env: Any) -> bool:
    # In a process of a vector env the calling function is not seen; the recorder knows.
    return bool(getattr(_recorder_of(env), "evaluation", False)) or is_evaluation()


def remembering(begin: Callable[..., Any]) -> Callable[..., Any]:
    """Note the episode that is filmed: a clip begins right after the env's reset."""

    @functools.wraps(begin)
    def begun(self: Any, *args: Any, **kwargs: Any) -> Any:
        recorder = _recorder_of(getattr(self, "env", None))
        self._runspine_filmed = recorder.episode if recorder is not None else None
        return begin(self, *args, **kwargs)

    return begun


def announcing(end: Callable[..., Any], path_of: Callable[[Any], str]) -> Callable[..., Any]:
    @functools.wraps(end)
    def ended(self: Any, *args: Any, **kwargs: Any) -> Any:
        path = path_of(self)
        result = end(self, *args, **kwargs)
        if path:
            announce(path, getattr(self, "_runspine_filmed", None))
        return result

    return ended


def announce(path: str, filmed: Any = None) -> None:
    if os.path.isfile(path) and os.path.getsize(path) and record.announce(path):
        record.videos += 1
        name = os.path.relpath(path, record.run.dir.resolve())
        meta = {"source": "script", "file": name, **_episode(filmed)}
        record.run.log_artifact(path, kind=VIDEO, step=record.step, **meta)


def _episode(filmed: Any) -> dict[str, Any]:
    """Id, return and length of the filmed episode; only the id while it goes on."""
    if filmed is None or not filmed.id:
        return {}
    # Lines are formatted when they are written: until then the return is incomplete.
    record.run.flush()
    if not filmed.over:
        return {"episode_id": filmed.id}
    return {"episode_id": filmed.id, "return": filmed.value, "length": filmed.steps}


def _recorder_of(env: Any) -> Any:
    """The recorder of an env, also inside of wrappers; None when it is not recorded."""
    while env is not None:
        if (recorder := getattr(env, "recorder", None)) is not None and hasattr(recorder, "episode"):
            return recorder
        env = getattr(env, "env", None)
    return None


def _path(wrapper: Any) -> str:
    name = getattr(wrapper, "_video_name", None)
    return os.path.join(wrapper.video_folder, f"{name}.mp4") if name else ""


def _old_path(wrapper: Any) -> str:
    recorder = wrapper.video_recorder
    return str(recorder.path) if wrapper.recording and recorder is not None else ""
