"""The help of the chosen algorithm, next to its fields."""

from __future__ import annotations

from nicegui import ui

from runspine.services.dashboard.core.algorithm_text import without_markup


def algorithm_panel(algo: str, text: str) -> None:
    """A folded panel with the text as Markdown; nothing without a text."""
    if not text:
        return
    with ui.expansion(f"About {algo}", icon="menu_book").classes("w-full").props('data-testid="about"'):
        # A worker may send any text: no HTML gets in, and what Markdown makes of it is sanitised.
        ui.markdown(without_markup(text), extras=["tables"], sanitize=True).classes("rs-prose")
