"""SummaryWriter, patched: what is written for TensorBoard is said to the run as well."""

from __future__ import annotations

import functools
import glob
import os
from collections.abc import Callable, Mapping
from typing import Any

from runspine.launcher.record import record


def patch(module: Any) -> None:
    """`torch.utils.tensorboard.writer` or `tensorboardX.writer`."""
    writer = module.SummaryWriter
    writer.__init__ = remembering(writer.__init__)
    writer.add_scalar = telling_scalar(writer.add_scalar)
    writer.add_scalars = telling_scalars(writer.add_scalars)
    writer.add_text = telling_text(writer.add_text)


def remembering(init: Callable[..., None]) -> Callable[..., None]:
    @functools.wraps(init)
    def begun(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        record.event_folders.append(os.path.abspath(_folder(self)))
        record.configure()

    return begun


def telling_scalar(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(
        self: Any, tag: str, scalar_value: Any, global_step: Any = None, *args: Any, **kwargs: Any
    ) -> Any:
        result = add(self, tag, scalar_value, global_step, *args, **kwargs)
        tell({tag: scalar_value}, global_step)
        return result

    return added


def telling_scalars(add: Callable[..., Any]) -> Callable[..., Any]:
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
        tell({f"{main_tag}/{tag}": value for tag, value in tag_scalar_dict.items()}, global_step)
        return result

    return added


def telling_text(add: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(add)
    def added(self: Any, tag: str, text_string: str, *args: Any, **kwargs: Any) -> Any:
        result = add(self, tag, text_string, *args, **kwargs)
        record.configure()
        record.run.say_config({"text": {str(tag): str(text_string)}})
        return result

    return added


def tell(values: Mapping[str, Any], step: Any) -> None:
    # numpy's and torch's step counters are whole numbers, too.
    at = None if step is None else int(step)
    for tag in values:
        record.scalar(tag, at)
    record.run.log({tag: number(value) for tag, value in values.items()}, at)


def number(value: Any) -> Any:
    """Arrays and tensors of one element as their element; what is no number is left for the run to refuse."""
    try:
        return value.item() if hasattr(value, "item") else value
    except (ValueError, RuntimeError):
        return value


def announce_event_files() -> None:
    """At the end, when the files are whole."""
    for folder in dict.fromkeys(record.event_folders):
        for path in sorted(glob.glob(os.path.join(glob.escape(folder), "events.out.tfevents.*"))):
            if record.announce(path):
                record.run.log_artifact(path, kind="tensorboard", source="script")


def _folder(writer: Any) -> str:
    return str(getattr(writer, "log_dir", None) or getattr(writer, "logdir", None) or "runs")
