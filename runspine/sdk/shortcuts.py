"""`runspine.init()` and the module-level calls. A process has one run."""

from __future__ import annotations

import atexit
import multiprocessing.util
import os
from collections.abc import Callable, Mapping
from typing import Any

from runspine.sdk.run import Run

_current: Run | None = None
_on_recording: list[Callable[[], None]] = []


def init(config: Mapping[str, Any] | None = None, *, total_steps: int | None = None) -> Run:
    """Return the run of this process. `config` holds defaults; parameters of the run override them."""
    run = _run()
    run.configure(config or {}, total_steps)
    return run


def current_run() -> Run:
    """Return the run of this process without recording a configuration."""
    return _run()


def wrap(env: Any, slot: int | None = None) -> Any:
    """Return the env with every step recorded; `slot` is the next free one unless given."""
    # Gymnasium is loaded already when the env is a Gymnasium env.
    from runspine.sdk.wrapping import wrapped

    _records_itself()

    return wrapped(_run(), env, slot)


def log(values: Mapping[str, Any], step: int | None = None) -> None:
    _run().log(values, step=step)


def log_episode(value: float, steps: int, **more: Any) -> None:
    _records_itself()
    _run().log_episode(value, steps, **more)


def progress(step: int, total: int | None = None) -> None:
    _run().progress(step, total)


def log_artifact(path: str | os.PathLike[str], kind: str = "file", **more: Any) -> None:
    _run().log_artifact(path, kind, **more)


def checkpoint(path: str | os.PathLike[str], step: int | None = None, **meta: Any) -> None:
    _run().checkpoint(path, step, **meta)


def finish() -> None:
    _run().finish()


def when_recording(call: Callable[[], None]) -> None:
    """Call this once, as soon as the program records envs or episodes itself."""
    _on_recording.append(call)


def _records_itself() -> None:
    while _on_recording:
        _on_recording.pop()()


def _run() -> Run:
    global _current  # noqa: PLW0603 - the environment and the descriptor exist once in a process
    if _current is None:
        _current = Run()
        _finish_with_process(_current)
        multiprocessing.util.register_after_fork(_current, _finish_with_process)
    return _current


def _finish_with_process(run: Run) -> None:
    """Flush at the end of a process of multiprocessing, which runs no exit handlers."""
    multiprocessing.util.Finalize(None, run.finish, exitpriority=0)


def _in_child() -> None:
    if _current is not None:
        _current.forked()


def _at_exit() -> None:
    if _current is not None:
        _current.finish()


os.register_at_fork(after_in_child=_in_child)
atexit.register(_at_exit)
