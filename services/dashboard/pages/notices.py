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
        self._box = ui.column().classes("rs-notice").props('role="status"')
        with self._box:
            self._icon = ui.icon("hourglass_empty").classes("rs-notice-icon")
            self._title = ui.label(title).classes("rs-notice-title")
            self._text = ui.label().classes("rs-notice-text")

    def tell(self, title: str, text: str) -> None:
        self._title.set_text(title)
        self._text.set_text(text)

    def remove(self) -> None:
        self._box.delete()


def loading(title: str) -> Notice:
    return Notice(title)


async def until_open(title: str) -> None:
    """Let the browser show the page, with this on it, before anything is asked that may take its time."""
    note = loading(title)
    await ui.context.client.connected()
    note.remove()
