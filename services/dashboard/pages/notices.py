"""States drawn on purpose: nothing there, not reachable, refused."""

from __future__ import annotations

from nicegui import ui


def problem(title: str, text: str, way_out: str = "", target: str = "") -> None:
    with ui.column().classes("rs-notice").props('role="alert"'):
        ui.icon("error_outline").classes("rs-notice-icon")
        ui.label(title).classes("rs-notice-title")
        ui.label(text).classes("rs-notice-text")
        if way_out:
            ui.link(way_out, target)


def empty(title: str, text: str = "") -> None:
    with ui.column().classes("rs-notice"):
        ui.icon("hourglass_empty").classes("rs-notice-icon")
        ui.label(title).classes("rs-notice-title")
        if text:
            ui.label(text).classes("rs-notice-text")


class Notice:
    """One that can say something else later."""

    def __init__(self, title: str) -> None:
        with ui.column().classes("rs-notice").props('role="status"'):
            self._icon = ui.icon("hourglass_empty").classes("rs-notice-icon")
            self._title = ui.label(title).classes("rs-notice-title")
            self._text = ui.label().classes("rs-notice-text")

    def tell(self, title: str, text: str) -> None:
        self._title.set_text(title)
        self._text.set_text(text)


def loading(title: str) -> Notice:
    return Notice(title)
