"""Patches SummaryWriter so that what is written for TensorBoard is recorded as well.

Below it, EventFileWriter is patched for writers of other libraries, which use it directly. The worker reads
event files that nothing here records: each recorded file is noted in the run's directory.
"""

from __future__ import annotations

import contextlib
import functools
import glob
import os
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from runspine.domain.artifact_kinds import TENSORBOARD
from runspine.domain.event_files import RECORDED
from runspine.instrument.record import record

_inside = threading.local()


def patch(module: Any) -> None:
    """`torch.utils.tensorboard.writer` or `tensorboardX.writer`."""
    writer = module.SummaryWriter
    writer.__init__ = remembering(writer.__init__)
    writer.add_scalar = recording_scalar(writer.add_scalar)
    writer.add_scalars = recording_scalars(writer.add_scalars)
    writer.add_text = recording_text(writer.add_text)
    writer.add_histogram = recording_histogram(writer.add_histogram)


def patch_event_files(module: Any) -> None:
    """`tensorboard.summary.writer.event_file_writer` or `tensorboardX.event_file_writer`."""
    writer = module.EventFileWriter
    writer.__init__ = claiming(writer.__init__)
    writer.add_event = recording_event(writer.add_event)


def claiming(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, logdir: Any, *args: Any, **kwargs: Any) -> None:
        self._runspine_records = not record.stood_down and record.run.active
        init(self, logdir, *args, **kwargs)
        if self._runspine_records:
            inner = getattr(self, "_ev_writer", self)
            _claim(getattr(inner, "_file_name", "") or os.path.join(str(logdir), ""))

    return begun


def recording_event(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(self: Any, event: Any, *args: Any, **kwargs: Any) -> Any:
        result = add(self, event, *args, **kwargs)
        if getattr(self, "_runspine_records", False) and not getattr(_inside, "scalars", 0):
            scalars = {
                value.tag: number for value in event.summary.value if (number := _scalar(value)) is not None
            }
            if scalars:
                record_scalars(scalars, event.step)
        return result

    return added


def _scalar(value: Any) -> float | None:
    """Number of a Summary.Value; None when it is something else."""
    if value.HasField("simple_value"):
        return float(value.simple_value)
    if value.HasField("tensor") and value.metadata.plugin_data.plugin_name == "scalars":
        numbers = [*value.tensor.float_val, *value.tensor.double_val]
        return float(numbers[0]) if len(numbers) == 1 else None
    return None


def _claim(path: str) -> None:
    """Note for the worker that this file, or each of a folder, is recorded here."""
    with contextlib.suppress(OSError), open(record.run.dir / RECORDED, "a", encoding="utf-8") as file:
        file.write(os.path.realpath(path) + "/" * path.endswith("/") + "\n")


class _Quietly:
    """Within it, events are recorded by the caller."""

    def __enter__(self) -> None:
        _inside.scalars = getattr(_inside, "scalars", 0) + 1

    def __exit__(self, *_: object) -> None:
        _inside.scalars -= 1


def remembering(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        record.event_folders.append(os.path.abspath(_folder(self)))
        record.configure()

    return begun


def recording_scalar(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(
        self: Any, tag: str, scalar_value: Any, global_step: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        with _Quietly():
            result = add(self, tag, scalar_value, global_step, *args, **kwargs)
        if not record.stood_down:
            record_scalars({tag: scalar_value}, global_step)
        return result

    return added


def recording_scalars(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(
        self: Any,
        main_tag: str,
        tag_scalar_dict: Mapping[str, Any],
        global_step: Any = None,
        *args: Any,
        **kwargs: Any,
    ) -> Any:
        with _Quietly():
            result = add(self, main_tag, tag_scalar_dict, global_step, *args, **kwargs)
        if not record.stood_down:
            scalars = {f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}
            record_scalars(scalars, global_step)
        return result

    return added


def recording_text(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(self: Any, tag: str, text_string: str, *args: Any, **kwargs: Any) -> Any:
        result = add(self, tag, text_string, *args, **kwargs)
        record.configure()
        record.run.log_config({"text": {str(tag): str(text_string)}})
        return result

    return added


def recording_histogram(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(self: Any, tag: str, values: Any, global_step: Any = None, *args: Any, **kwargs: Any) -> Any:
        result = add(self, tag, values, global_step, *args, **kwargs)
        record.run.log_histogram(str(tag), values, None if global_step is None else int(global_step))
        return result

    return added


def record_scalars(values: Mapping[str, Any], step: Any) -> None:
    # Step counters of numpy and torch are integers, too.
    at = None if step is None else int(step)
    for tag in values:
        record.scalar(tag, at)
    record.run.log({tag: number(value) for tag, value in values.items()}, at)
    record.report_progress(time.time())


def number(value: Any) -> Any:
    """The element of arrays and tensors of one element; anything else is left for the run to refuse."""
    try:
        return value.item() if hasattr(value, "item") else value
    except (ValueError, RuntimeError):
        return value


# What records a SummaryWriter, by module.
PATCHES = {
    "torch.utils.tensorboard.writer": patch,
    "tensorboardX.writer": patch,
    "tensorboard.summary.writer.event_file_writer": patch_event_files,
    "tensorboardX.event_file_writer": patch_event_files,
}


def announce_event_files() -> None:
    """Upload the event files at the end, when they are complete."""
    for folder in dict.fromkeys(record.event_folders):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*"))):
            if record.announce(path):
                record.run.log_artifact(path, kind=TENSORBOARD, source="script")


def _folder(writer: Any) -> str:
    return str(getattr(writer, "log_dir", None) or getattr(writer, "logdir", None) or "runs")
