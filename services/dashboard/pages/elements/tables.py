"""Small tables of text."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from nicegui import ui


def plain_table(rows: Sequence[dict[str, Any]], classes: str = "") -> None:
    """A column for each key of the first row. Keys must not come from users: NiceGUI evaluates some."""
    names = list(rows[0])
    columns = [
        {"name": name, "label": name[:1].upper() + name[1:], "field": name, "align": "left"} for name in names
    ]
    table = ui.table(columns=columns, rows=list(rows), row_key=names[0])
    table.props("dense flat wrap-cells").classes(f"rs-card {classes}")
