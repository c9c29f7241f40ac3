"""What a row of wandb, trackio or swanlab holds besides numbers: histograms, pictures, tables, videos, texts.

The classes are the stand-ins' (`media.py`) or the library's own, which remember what they were made of.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from runspine.instrument.trackers.null import NullObject
from runspine.instrument.trackers.tracked_run import TrackedRun, flat, is_array, is_number

# Attribute of a medium: what it was made of, and its caption.
GIVEN, CAPTION = "_runspine_given", "_runspine_caption"
PICTURES = ("Image", "Figure", "Axes", "PngImageFile")


def split(row: Mapping[str, Any]) -> tuple[dict[str, float], dict[str, Any]]:
    """Numbers of a row, and the rest."""
    found = flat(row)
    numbers = {name: value for name, value in found.items() if is_number(value)}
    return numbers, {name: value for name, value in found.items() if name not in numbers}


def record_others(tracked: TrackedRun, others: Mapping[str, Any], step: int | None) -> None:
    """Record what is no number."""
    for name, value in others.items():
        _record(tracked, name, value, step)


def _record(tracked: TrackedRun, name: str, value: Any, step: int | None) -> None:
    kind = type(value).__name__.removeprefix("Trackio")
    given, caption = getattr(value, GIVEN, value), getattr(value, CAPTION, None)
    if value is None or isinstance(value, NullObject):
        return
    if isinstance(value, str):
        tracked.text(name, value)
    elif kind in ("Histogram", "Distribution"):
        tracked.histogram(name, histogram_values(value), step)
    elif kind in PICTURES or hasattr(value, "savefig"):
        tracked.picture(name, given, step, caption)
    elif kind == "Table":
        tracked.table(name, *table_of(value), step)
    elif kind == "Video":
        tracked.video(name, given, step, caption)
    elif kind == "Text":
        tracked.text(name, str(given))
    elif kind in ("Html", "Audio", "Object3D", "Molecule", "Plotly", "ECharts", "Markdown"):
        tracked.note(f"{name} is {kind} and is not kept")
    elif is_array(value):
        tracked.histogram(name, value, step)
    elif isinstance(value, (list, tuple)):
        for index, each in enumerate(value):
            if getattr(each, GIVEN, None) is not None:
                _record(tracked, name if len(value) == 1 else f"{name}/{index}", each, step)
    else:
        tracked.note(f"{name} is {kind} and is not kept")


def histogram_values(value: Any) -> Any:
    """The values that a histogram was made of; or its bins, each at its middle."""
    given = getattr(value, GIVEN, None)
    if given is not None:
        return given
    counts = np.asarray(getattr(value, "histogram", ()), dtype=np.float64)
    edges = np.asarray(getattr(value, "bins", ()), dtype=np.float64)
    if len(edges) != len(counts) + 1:
        return ()
    return np.repeat((edges[1:] + edges[:-1]) / 2, counts.astype(int))


def table_of(value: Any) -> tuple[list[Any], list[list[Any]]]:
    """Columns and rows of a table, or of a frame of pandas."""
    frame: Any = getattr(value, "dataframe", None)
    frame = getattr(value, GIVEN, None) if frame is None else frame
    if hasattr(frame, "to_numpy") and hasattr(frame, "columns"):
        return list(frame.columns), [list(row) for row in frame.to_numpy()]
    rows = list(getattr(value, "data", None) or ())
    if rows and isinstance(rows[0], Mapping):
        names = list(rows[0])
        return names, [[row.get(name) for name in names] for row in rows]
    return list(getattr(value, "columns", None) or ()), [list(row) for row in rows]


def remember(module: Any, names: Iterable[str]) -> None:
    """Let the media classes of a library remember what they were made of."""
    for name in names:
        made = getattr(module, name, None)
        if isinstance(made, type):
            _remember(made)


def _remember(made: Any) -> None:
    init = made.__init__

    def remembering(self: Any, *args: Any, **kwargs: Any) -> None:
        init(self, *args, **kwargs)
        given = args[0] if args else next(iter(kwargs.values()), None)
        try:
            object.__setattr__(self, GIVEN, given)
            object.__setattr__(self, CAPTION, kwargs.get("caption"))
        except AttributeError:
            pass

    remembering.__wrapped__ = init  # type: ignore[attr-defined]
    made.__init__ = remembering
