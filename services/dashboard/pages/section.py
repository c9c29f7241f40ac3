"""A part of a page that is drawn again only when it says something else: what is pointed at stays there."""

from __future__ import annotations

from collections.abc import Callable

from nicegui import ui


class Section:
    def __init__(self) -> None:
        self._place = ui.column().classes("w-full")
        self._said: object = None

    def show(self, said: object, draw: Callable[[], None]) -> None:
        """Draw, unless the same was said before."""
        if said == self._said:
            return
        self._said = said
        self._place.clear()
        with self._place:
            draw()
