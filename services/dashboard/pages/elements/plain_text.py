"""Preformatted text.

NiceGUI's code block goes through Markdown, which is not safe for the output of a trainer.
"""

from __future__ import annotations

from nicegui import ui

LINE_CLASSES = {"+": "rs-line-new", "-": "rs-line-old", "@": "rs-line-place"}


def block(text: str, classes: str = "") -> ui.label:
    """Lines in a fixed font; set as text and never as HTML."""
    return ui.label(text).classes(f"rs-pre {classes}").props('tabindex="0"')


def difference(lines: list[str]) -> None:
    """A unified diff with coloured lines."""
    with ui.element("div").classes("rs-pre rs-diff").props('tabindex="0"'):
        for line in lines:
            ui.label(line or " ").classes(LINE_CLASSES.get(line[:1], ""))
