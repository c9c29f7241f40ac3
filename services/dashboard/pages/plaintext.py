"""Text as it is, in a fixed font.

NiceGUI's code block goes through Markdown, and a trainer writes what it likes.
"""

from __future__ import annotations

from nicegui import ui

LOOKS = {"+": "rs-line-new", "-": "rs-line-old", "@": "rs-line-place"}


def block(text: str, classes: str = "") -> ui.label:
    """Lines as they are; the label's text is set as text and never as HTML."""
    return ui.label(text).classes(f"rs-pre {classes}").props('tabindex="0"')


def difference(lines: list[str]) -> None:
    """A unified difference, coloured."""
    with ui.element("div").classes("rs-pre rs-diff").props('tabindex="0"'):
        for line in lines:
            ui.label(line or " ").classes(LOOKS.get(line[:1], ""))
