"""Patches SummaryWriter so that what is written for TensorBoard is recorded as well."""

from __future__ import annotations

import functools
import glob
import os
import time
from collections.abc import Callable, Mapping
from typing import Any

from runspine.domain.artifact_kinds import TENSORBOARD
from runspine.instrument.record import record


def patch(module: Any) -> None:
    """`torch.utils.tensorboard.writer` or `tensorboardX.writer`."""
    writer = module.SummaryWriter
    writer.__init__ = remembering(writer.__init__)
    writer.add_scalar = recording_scalar(writer.add_scalar)
    writer.add_scalars = recording_scalars(writer.add_scalars)
    writer.add_text = recording_text(writer.add_text)
    writer.add_histogram = recording_histogram(writer.add_histogram)


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
        result = add(self, tag, scalar_value, global_step, *args, **kwargs)
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
        result = add(self, main_tag, tag_scalar_dict, global_step, *args, **kwargs)
        record_scalars({f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}, global_step)
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


def announce_event_files() -> None:
    """Upload the event files at the end, when they are complete."""
    for folder in dict.fromkeys(record.event_folders):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*"))):
            if record.announce(path):
                record.run.log_artifact(path, kind=TENSORBOARD, source="script")


def _folder(writer: Any) -> str:
    return str(getattr(writer, "log_dir", None) or getattr(writer, "logdir", None) or "runs")
