"""Notices in place of content: error, empty, loading."""

from __future__ import annotations

from nicegui import ui


def problem(title: str, text: str, link: str = "", target: str = "") -> None:
    with ui.column().classes("rs-notice").props('role="alert"'):
        ui.icon("error_outline").classes("rs-notice-icon")
        ui.label(title).classes("rs-notice-title")
        ui.label(text).classes("rs-notice-text")
        if link:
            ui.link(link, target)


def empty(title: str, text: str = "") -> None:
    with ui.column().classes("rs-notice"):
        ui.icon("hourglass_empty").classes("rs-notice-icon")
        ui.label(title).classes("rs-notice-title")
        if text:
            ui.label(text).classes("rs-notice-text")


class Notice:
    """A notice whose text can change."""

    def __init__(self, title: str) -> None:
        self._box = ui.column().classes("rs-notice").props('role="status"')
        with self._box:
            self._icon = ui.icon("hourglass_empty").classes("rs-notice-icon")
            self._title = ui.label(title).classes("rs-notice-title")
            self._text = ui.label().classes("rs-notice-text")

    def set_text(self, title: str, text: str) -> None:
        self._title.set_text(title)
        self._text.set_text(text)

    def remove(self) -> None:
        self._box.delete()


def loading(title: str) -> Notice:
    return Notice(title)


async def wait_for_browser(title: str) -> None:
    """Show a loading notice until the browser is connected, so that slow calls do not delay the page."""
    notice = loading(title)
    await ui.context.client.connected()
    notice.remove()
