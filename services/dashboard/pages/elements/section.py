"""A part of a page that is redrawn only when its content changes, so that focus and pointer stay."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui


class Section:
    def __init__(self) -> None:
        self._place = ui.column().classes("w-full")
        self._content: object = None

    def show(self, content: object, draw: Callable[[], None]) -> None:
        """Redraw, unless `content` equals that of the last call."""
        if content == self._content:
            return
        self._content = content
        self._place.clear()
        with self._place:
            draw()
