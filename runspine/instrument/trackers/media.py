"""Media classes of the stand-ins: they hold what they are made of."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from runspine.instrument.trackers.values import CAPTION, GIVEN


class Medium:
    """A picture, a video, a histogram, a text."""

    def __init__(self, *given: Any, caption: Any = None, **named: Any) -> None:
        setattr(self, GIVEN, given[0] if given else next(iter(named.values()), None))
        setattr(self, CAPTION, caption)


class Image(Medium): ...


class Video(Medium): ...


class Text(Medium): ...


class Audio(Medium): ...


class Html(Medium): ...


class Object3D(Medium): ...


class Distribution(Medium): ...


class Histogram(Medium):
    def __init__(self, sequence: Any = None, np_histogram: Any = None, num_bins: int = 64, **_: Any) -> None:
        super().__init__(sequence)
        if np_histogram is not None:
            self.histogram, self.bins = np_histogram


class Table:
    """Columns and rows; rows may be added."""

    def __init__(
        self,
        columns: Sequence[Any] | None = None,
        data: Any = None,
        rows: Any = None,
        dataframe: Any = None,
        **_: Any,
    ) -> None:
        data = rows if data is None else data
        frame = data if hasattr(data, "to_numpy") and hasattr(data, "columns") else dataframe
        if frame is not None:
            columns, data = list(frame.columns), [list(row) for row in frame.to_numpy()]
        self.data = [list(row) for row in data] if data is not None else []
        width = len(self.data[0]) if self.data else 0
        # As wandb names them when nothing is given.
        self.columns: list[Any] = (
            list(columns) if columns is not None else (list(range(width)) or ["Input", "Output", "Expected"])
        )

    def add_data(self, *cells: Any) -> None:
        self.data.append(list(cells))

    def add_row(self, *cells: Any) -> None:
        self.data.append(list(cells))

    def add_column(self, name: Any, data: Sequence[Any]) -> None:
        self.columns.append(name)
        self.data = [[*row, each] for row, each in zip(self.data, data, strict=True)] or [
            [each] for each in data
        ]

    def get_column(self, name: Any) -> list[Any]:
        where = self.columns.index(name)
        return [row[where] for row in self.data]
