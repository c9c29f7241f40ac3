"""Presets of a user by runner, and the dialog that takes a pasted run file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from nicegui import app, ui

from runspine.errors import InvalidError
from runspine.spec.plain import to_plain
from runspine.spec.run_file import parse

MODE = "train"


async def choose_preset(runner: str, plain: dict[str, Any]) -> dict[str, Any] | None:
    """The selected preset, or None when `plain` was saved as one or the dialog was closed."""
    # Keyed by mode, too: evaluations have their own presets.
    kept: dict[str, Any] = app.storage.user.setdefault("presets", {}).setdefault(f"{MODE} {runner}", {})
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        ui.label(f"Presets of {runner}").classes("text-lg")
        if not kept:
            ui.label("No presets yet. Save the current form under a name.").classes("rs-quiet")
        for name in sorted(kept):
            with ui.row().classes("w-full items-center no-wrap"):
                ui.button(name, on_click=lambda name=name: dialog.submit(("use", name))).props("flat no-caps")
                ui.space()
                ui.button(icon="delete", on_click=lambda name=name: dialog.submit(("drop", name))).props(
                    'flat dense round aria-label="Delete this preset"'
                )
        new_name = ui.input("Name for the current form").classes("w-full")
        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit(None)).props("flat")
            ui.button("Save", on_click=lambda: dialog.submit(("save", new_name.value)))
    answer = await dialog
    match answer:
        case ("use", name):
            found: dict[str, Any] = kept[name]
            return found
        case ("drop", name):
            del kept[name]
        case ("save", name) if name:
            kept[name] = plain
            ui.notify(f"Saved as {name}.", type="positive")
    return None


async def paste_run_file() -> dict[str, Any] | None:
    """The pasted run file as plain values, or None; the dialog shows violations with their field."""
    with ui.dialog() as dialog, ui.card().classes("rs-dialog"):
        text = ui.textarea("Run file (YAML)").classes("w-full rs-typed").props("autofocus rows=16")
        trouble = ui.label().classes("rs-bad rs-lines").props('role="alert"')

        def use() -> None:
            try:
                found = parse(str(text.value or ""), source="the pasted text", folder=Path("/"))
            except InvalidError as error:
                trouble.set_text(str(error))
                return
            if len(found.specs) != 1:
                trouble.set_text(f"{len(found.specs)} runs in one file: use runspine submit.")
                return
            dialog.submit(to_plain(found.specs[0], full=False))

        with ui.row():
            ui.button("Back", on_click=lambda: dialog.submit(None)).props("flat")
            ui.button("Use it", on_click=use)
    answer: dict[str, Any] | None = await dialog
    return answer
